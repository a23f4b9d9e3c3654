// Stored keys and values to bf16 in the order of tiles, exactly.
//
// Rows are taken in chunks of 64 numbers, as two vectors of 32: `low` holds numbers 16j + 0..7 and `high` numbers 16j
// + 8..15 of the chunk, j = 0..3: the order in which byte interleaving within 128-bit lanes leaves them. Queries are
// packed in the same order, so scores come out right; what comes out of the value columns is put back by ValueColumns
// below.
#pragma once

#include <immintrin.h>

#include "kernel/cpu/generic/rows.h"
#include "kernel/cpu/generic/stored_rows.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

struct Halves {
  __m512i low;   // 32 bf16
  __m512i high;  // 32 bf16
};

// 64 bf16 numbers in natural order.
[[gnu::always_inline]] static inline Halves split_bf16(__m512i first, __m512i second) {
  return {.low = _mm512_shuffle_i64x2(first, second, 0x88), .high = _mm512_shuffle_i64x2(first, second, 0xdd)};
}

// e4m3 codes to the two bytes of their bf16 bits, each by one table lookup of 64 entries (vpermb).
//   upper byte: (exponent + 120) / 2, found from the 6 upper bits of the magnitude. Subnormals have entries of their
//   own; 0 and
//     the smallest one share theirs, so 0 is masked out.
//   lower byte: lowest exponent bit and mantissa, found from the 6 lower bits; magnitudes from 64 on set bit 4 of the
//   index, so
//     that they do not meet the entries of the subnormals (bit 4 plays no part in the byte).
// Eleven operations for 64 numbers, the last two being the interleaving, and two to find NaN codes.
struct E4m3Expander {
  __m512i upper_bytes;
  __m512i lower_bytes;
  __m512i bit4;
  __m512i sign;
  __m512i magnitude;

  [[gnu::always_inline]] static inline E4m3Expander make() {
    alignas(64) uint8_t upper[64], lower[64];
    constexpr uint8_t kSubnormalUpper[4] = {0x3b, 0x3b, 0x3c, 0x3c};  // magnitudes 1, 2-3, 4-5, 6-7
    constexpr uint8_t kSubnormalLower[8] = {0x00, 0x00, 0x80, 0xc0, 0x00, 0x20, 0x40, 0x60};  // magnitudes 0 to 7
    for (int i = 0; i < 64; ++i) {
      upper[i] = i < 4 ? kSubnormalUpper[i] : static_cast<uint8_t>((120 + i / 4) / 2);
      lower[i] = i < 8 ? kSubnormalLower[i] : static_cast<uint8_t>(i << 4);
    }
    return {.upper_bytes = _mm512_load_si512(upper),
            .lower_bytes = _mm512_load_si512(lower),
            .bit4 = _mm512_set1_epi8(0x10),
            .sign = _mm512_set1_epi8(static_cast<char>(0x80)),
            .magnitude = _mm512_set1_epi8(0x7f)};
  }

  // largest: the magnitudes' running maximum, 0x7f where there was a NaN code (which gives +-480 here).
  [[gnu::always_inline]] inline Halves expand(__m512i codes, __m512i* largest) const {
    const __m512i magnitudes = _mm512_and_si512(codes, magnitude);
    *largest = _mm512_max_epu8(*largest, magnitudes);
    const __mmask64 not_zero = _mm512_test_epi8_mask(magnitudes, magnitudes);
    const __m512i half = _mm512_srli_epi16(codes, 1);  // vpermb reads 6 bits, so the neighbour's bit does no harm
    constexpr int kAOrBAndC = 0xf8;
    const __m512i upper =
        _mm512_ternarylogic_epi32(_mm512_maskz_permutexvar_epi8(not_zero, half, upper_bytes), codes, sign, kAOrBAndC);
    const __m512i index = _mm512_ternarylogic_epi32(codes, _mm512_srli_epi16(codes, 2), bit4, kAOrBAndC);
    const __m512i lower = _mm512_permutexvar_epi8(index, lower_bytes);
    return {.low = _mm512_unpacklo_epi8(lower, upper), .high = _mm512_unpackhi_epi8(lower, upper)};
  }
  [[gnu::always_inline]] static inline bool has_nan(__m512i largest) {
    return _mm512_cmpeq_epi8_mask(largest, _mm512_set1_epi8(0x7f)) != 0;
  }
};

// Four dense vectors of 16 columns hold a chunk's values: tile t column n is number 16 (n / 4) + 4 t + n % 4. at(j) is
// numbers 16 j ... 16 j + 15.
struct ValueColumns {
  __m512 low[2];   // the first two quarters of tiles 0 and 1, and of tiles 2 and 3
  __m512 high[2];  // their last two

  [[gnu::always_inline]] explicit inline ValueColumns(const float* tiles) {
    const __m512 t0 = _mm512_loadu_ps(tiles), t1 = _mm512_loadu_ps(tiles + 16);
    const __m512 t2 = _mm512_loadu_ps(tiles + 32), t3 = _mm512_loadu_ps(tiles + 48);
    low[0] = _mm512_shuffle_f32x4(t0, t1, 0x44);
    low[1] = _mm512_shuffle_f32x4(t2, t3, 0x44);
    high[0] = _mm512_shuffle_f32x4(t0, t1, 0xee);
    high[1] = _mm512_shuffle_f32x4(t2, t3, 0xee);
  }
  [[gnu::always_inline]] inline F32x16 at(int64_t j) const {
    const __m512* half = j < 2 ? low : high;
    const __m512 r = j % 2 == 0 ? _mm512_shuffle_f32x4(half[0], half[1], 0x88)  //
                                : _mm512_shuffle_f32x4(half[0], half[1], 0xdd);
    return {{(NativeF32)r}};
  }
};

// Two rows of 32 as two rows of pairs, in the order that ValueColumns undoes.
struct Pairs {
  __m512i first;   // tile t, or t + 2
  __m512i second;  // tile t + 1
};
[[gnu::always_inline]] static inline Pairs pair_up(__m512i even_row, __m512i odd_row) {
  return {.first = _mm512_unpacklo_epi16(even_row, odd_row), .second = _mm512_unpackhi_epi16(even_row, odd_row)};
}

// 32 numbers as bf16, rounded to the nearest; subnormal ones become 0, as the tile unit takes them.
[[gnu::always_inline]] static inline void store_pair(Bf16* to, F32x16 low, F32x16 high) {
  _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh((__m512)high.part[0], (__m512)low.part[0]));
}

// 16 rows of 16 32-bit words, transposed.
[[gnu::always_inline]] static inline void transpose_words(__m512i (&r)[16]) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    a[i] = _mm512_shuffle_i32x4(b[i], b[i + 4], 0x88);
    a[i + 4] = _mm512_shuffle_i32x4(b[i], b[i + 4], 0xdd);
    a[i + 8] = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0x88);
    a[i + 12] = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(a[i], a[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(a[i], a[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_i32x4(a[i + 4], a[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(a[i + 4], a[i + 12], 0xdd);
  }
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
