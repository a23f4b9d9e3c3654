// NVFP4 weights to bf16, exactly, in the order of a tile's second operand.
//
// A product of a 4-bit float and a block scale s has at most 6 significant bits, so it is a bf16 number, and its bits
// can be made with integer arithmetic. Largest first:
//   value  6s  4s     3s   2s       1.5s  s        .5s      0
//   bits   T   T - D  T-u  T-D-u    T-2u  T-D-2u   T-D-3u   0         u = 1 << 7, one step of the exponent
// where T is the bits of 6s, and D = bits(1.5 s) - bits(s) depends on the 3 mantissa bits of s alone (64 to 84). With
// the table entry (a, b) of a code the difference is 64a + Db: one vpmaddubsw, and a saturating subtraction makes 0 of
// the zero code.
//
// Per 64 bytes of bf16 (32 weights, 18 bytes of memory): rotate, look up, multiply-add, subtract, merge the sign; and
// an eighth of 5 more for the scales. At two vector operations a cycle about 90 cycles a KiB tile pair, 6.4 bytes of
// memory a cycle.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "kernel/cpu/pack.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

struct Nvfp4Expander {
  __m512i spread;       // byte shuffle: scale of row r to both 16-bit lanes of row r
  __m512i top;          // by mantissa: bits of 6s, less the scale's own bits
  __m512i multipliers;  // by mantissa: D << 8 | 64
  __m512i differences;  // by magnitude: b << 8 | a
  __m512i sign;

  [[gnu::always_inline]] static inline Nvfp4Expander make() {
    alignas(64) uint16_t top_table[32], multiplier_table[32], difference_table[32];
    alignas(64) uint8_t spread_table[64];
    constexpr uint16_t kD[8] = {64, 72, 80, 84, 80, 76, 72, 68};
    constexpr uint16_t kDifference[8] = {0xffff, 1 << 8 | 6, 1 << 8 | 4, 4, 1 << 8 | 2, 2, 1 << 8, 0};
    for (int i = 0; i < 32; ++i) {
      top_table[i] = static_cast<uint16_t>((kScaleExponentOffset << 7) + (2U << 7) + kD[i % 8]);
      multiplier_table[i] = static_cast<uint16_t>(kD[i % 8] << 8 | 64);
      difference_table[i] = kDifference[i % 8];
    }
    for (int i = 0; i < 64; ++i) spread_table[i] = i % 2 == 0 ? static_cast<uint8_t>(i / 4) : 0x80;
    return {.spread = _mm512_load_si512(spread_table),
            .top = _mm512_load_si512(top_table),
            .multipliers = _mm512_load_si512(multiplier_table),
            .differences = _mm512_load_si512(difference_table),
            .sign = _mm512_set1_epi16(static_cast<int16_t>(0x8000))};
  }

  // One group of 16 columns: 8 rows of a tile.
  [[gnu::always_inline]] inline void expand_group(const std::byte* group, std::byte* to) const {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(group));
    const __m512i scale = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), spread);
    const __m512i largest = _mm512_add_epi16(_mm512_slli_epi16(scale, 4), _mm512_permutexvar_epi16(scale, top));
    const __m512i multiplier = _mm512_permutexvar_epi16(scale, multipliers);
    for (int half = 0; half < 2; ++half) {
      const __m512i codes = _mm512_loadu_si512(group + kTileRows + half * 64);
      auto* rows = reinterpret_cast<__m512i*>(to + half * 256);
      _mm512_store_si512(rows, expand_pair(codes, largest, multiplier));
      _mm512_store_si512(rows + 1, expand_pair(_mm512_ror_epi32(codes, 4), largest, multiplier));
      _mm512_store_si512(rows + 2, expand_pair(_mm512_ror_epi32(codes, 8), largest, multiplier));
      _mm512_store_si512(rows + 3, expand_pair(_mm512_ror_epi32(codes, 12), largest, multiplier));
    }
  }

  [[gnu::always_inline]] inline __m512i expand_pair(__m512i codes, __m512i largest, __m512i multiplier) const {
    const __m512i difference = _mm512_maddubs_epi16(_mm512_permutexvar_epi16(codes, differences), multiplier);
    const __m512i magnitude = _mm512_subs_epu16(largest, difference);
    constexpr int kAOrBAndC = 0xf8;
    return _mm512_ternarylogic_epi32(magnitude, codes, sign, kAOrBAndC);
  }
};

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
