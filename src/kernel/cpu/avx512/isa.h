// The native vector of AVX512 (F, BW, VL, DQ): 16 lanes, 32 registers.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

inline constexpr int kNativeLanes = 16;
using NativeF32 [[gnu::vector_size(64)]] = float;
using NativeU32 [[gnu::vector_size(64)]] = uint32_t;

[[gnu::always_inline]] static inline NativeF32 native_fma(NativeF32 a, NativeF32 b, NativeF32 c) {
  return (NativeF32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

// a where it is larger (smaller), else b.
[[gnu::always_inline]] static inline NativeF32 native_max(NativeF32 a, NativeF32 b) {
  return (NativeF32)_mm512_max_ps((__m512)a, (__m512)b);
}
[[gnu::always_inline]] static inline NativeF32 native_min(NativeF32 a, NativeF32 b) {
  return (NativeF32)_mm512_min_ps((__m512)a, (__m512)b);
}

// The same vector, which the compiler must hold in a register: it does not read it from memory again for each use.
[[gnu::always_inline]] static inline NativeF32 native_in_register(NativeF32 a) {
  __asm__("" : "+v"(a));
  return a;
}
[[gnu::always_inline]] static inline NativeF32 native_splat(float x) {
  return (NativeF32)_mm512_set1_ps(x);
}
[[gnu::always_inline]] static inline bool native_any(NativeU32 bits) {
  return _mm512_test_epi32_mask((__m512i)bits, (__m512i)bits) != 0;
}
// A bit a lane of a mask.
[[gnu::always_inline]] static inline uint32_t native_lanes(NativeU32 mask) {
  return _mm512_movepi32_mask((__m512i)mask);
}

// Between lanes and the 16 or 8 bits of memory that each is.
[[gnu::always_inline]] static inline NativeU32 native_load_u16(const void* p) {
  return (NativeU32)_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
[[gnu::always_inline]] static inline NativeU32 native_load_u8(const void* p) {
  return (NativeU32)_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
[[gnu::always_inline]] static inline void native_store_u16(void* p, NativeU32 a) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16((__m512i)a));
}
[[gnu::always_inline]] static inline void native_store_u8(void* p, NativeU32 a) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8((__m512i)a));
}

// 16 e4m3 codes: their bits moved into those of half precision, which has the same form with a bias larger by 8 and
// knows subnormals: so they come 2^8 times smaller.
inline constexpr bool kNativeHalves = true;
[[gnu::always_inline]] static inline NativeF32 native_load_e4m3(const void* p) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  const __m256i halves = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<int16_t>(0xbf80)));
  return (NativeF32)_mm512_cvtph_ps(halves);
}

// Entry codes[lane] & 15 of the 4-bit floats (vpermps reads 4 bits).
[[gnu::always_inline]] static inline NativeF32 native_e2m1(NativeU32 codes) {
  const __m512 values = _mm512_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F,  //
                                       -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F);
  return (NativeF32)_mm512_permutexvar_ps((__m512i)codes, values);
}

// Rows x tiles that a product keeps in registers at once (1 register a tile's worth of sums).
inline constexpr int kGemmRows = 8;
inline constexpr int kGemmTilesOneRow = 4;
inline constexpr int kGemmTilesManyRows = 2;

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
