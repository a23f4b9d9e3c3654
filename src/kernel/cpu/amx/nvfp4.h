// NVFP4 weights to bf16, exactly but for a power of two, in the order of a tile's second operand.
//
// A product of a 4-bit float and a block scale has at most 6 significant bits and lies between 2^-10 and 2688: it is an
// fp16 number, so fp16 multiplies 32 of them at once without rounding. The upper byte of an fp16 number says all of a
// 4-bit float: a table lookup of bytes finds it (the word lookup would cost two operations). Shifting the product right
// by 3 bits moves its exponent and mantissa to where bf16 has them; the exponent's bias remains that of fp16, so the
// value is the true one times 2^(15 - 127).
//
// Per 64 bytes of bf16 (32 weights, 18 bytes of memory): bring codes to where they are looked up (half the time: by a
// shift; otherwise they are loaded one byte off), look up, multiply, shift, mask: 4.5 vector operations, with the
// scales 76 a KiB tile, on two ports. Alone they take 39 cycles; beside the tile unit only port 0 multiplies (80
// multiplications: 39 cycles alone, 83 with a tile product among them), and there are 42 for port 0. The shift of the
// product is the upper half of an integer multiplication: alone that is better than a shift, beside tiles no worse.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "kernel/cpu/pack.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

// What a product with expanded weights must be multiplied by. x is scaled up before, weights come out small: that keeps
// all products of |x| in [2^-70, 2^47] well inside the range of f32.
inline constexpr float kNvfp4XScale = 0x1p80F;
inline constexpr float kNvfp4SumScale = 0x1p32F;  // 2^112 / kNvfp4XScale

struct Nvfp4Expander {
  __m512i spread;       // byte shuffle: the scale of row r to the upper bytes of row r's two 16-bit lanes
  __m512i upper_bytes;  // of the fp16 numbers, by code
  __m512i three_down;   // 2^13: the upper half of a product with it is a number shifted right by 3
  __m512i mask;         // sign, exponent, mantissa of the result

  [[gnu::always_inline]] static inline Nvfp4Expander make() {
    alignas(64) uint8_t spread_table[64], upper_table[64];
    constexpr uint8_t kUpper[8] = {0x00, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46};  // 0 .5 1 1.5 2 3 4 6
    for (int i = 0; i < 64; ++i) {
      spread_table[i] = i % 2 == 0 ? 0x80 : static_cast<uint8_t>(i / 4);
      upper_table[i] = static_cast<uint8_t>(kUpper[i % 8] | (i & 8) << 4);
    }
    return {.spread = _mm512_load_si512(spread_table),
            .upper_bytes = _mm512_load_si512(upper_table),
            .three_down = _mm512_set1_epi16(1 << 13),
            .mask = _mm512_set1_epi16(static_cast<int16_t>(0x8fff))};
  }

  // The scales of a group, each in the two lanes of its row.
  [[gnu::always_inline]] inline __m512h scales(const std::byte* group) const {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(group));
    return _mm512_castsi512_ph(_mm512_srli_epi16(_mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), spread), 1));
  }

  // One group of 16 columns: 8 rows of a tile.
  [[gnu::always_inline]] inline void expand_group(const std::byte* group, std::byte* to) const {
    const __m512h scale = scales(group);
    expand_half(group, 0, scale, to);
    expand_half(group, 1, scale, to + 4 * 64);
  }

  // Eight columns: 4 rows of a tile. A code is looked up in the upper byte of its lane: codes of lower bytes get there
  // by loading from one byte before.
  [[gnu::always_inline]] inline void expand_half(const std::byte* group, int half, __m512h scale, std::byte* to) const {
    const __m512i high = _mm512_loadu_si512(group + kTileRows + half * 64);
    const __m512i low = _mm512_loadu_si512(group + kTileRows + half * 64 - 1);
    auto* rows = reinterpret_cast<__m512i*>(to);
    _mm512_store_si512(rows, expand_pair(low, scale));
    _mm512_store_si512(rows + 1, expand_pair(_mm512_srli_epi16(low, 4), scale));
    _mm512_store_si512(rows + 2, expand_pair(high, scale));
    _mm512_store_si512(rows + 3, expand_pair(_mm512_srli_epi16(high, 4), scale));
  }

  // The codes are in bits 8 to 11 of each lane; the lookup reads 6 bits of a byte, so the table is there four times.
  [[gnu::always_inline]] inline __m512i expand_pair(__m512i codes, __m512h scale) const {
    constexpr __mmask64 kUpperBytes = 0xaaaaaaaaaaaaaaaaU;
    const __m512i values = _mm512_maskz_permutexvar_epi8(kUpperBytes, codes, upper_bytes);
    const __m512i products = _mm512_castph_si512(_mm512_mul_ph(_mm512_castsi512_ph(values), scale));
    return _mm512_and_si512(_mm512_mulhi_epi16(products, three_down), mask);
  }
};

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
