// The native vector of AVX2 with FMA: 8 lanes, 16 registers.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

inline constexpr int kNativeLanes = 8;
using NativeF32 [[gnu::vector_size(32)]] = float;
using NativeU32 [[gnu::vector_size(32)]] = uint32_t;

[[gnu::always_inline]] static inline NativeF32 native_fma(NativeF32 a, NativeF32 b, NativeF32 c) {
  return (NativeF32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

// a where it is larger (smaller), else b.
[[gnu::always_inline]] static inline NativeF32 native_max(NativeF32 a, NativeF32 b) {
  return (NativeF32)_mm256_max_ps((__m256)a, (__m256)b);
}
[[gnu::always_inline]] static inline NativeF32 native_min(NativeF32 a, NativeF32 b) {
  return (NativeF32)_mm256_min_ps((__m256)a, (__m256)b);
}

// The same vector, which the compiler must hold in a register: it does not read it from memory again for each use.
[[gnu::always_inline]] static inline NativeF32 native_in_register(NativeF32 a) {
  __asm__("" : "+x"(a));
  return a;
}
[[gnu::always_inline]] static inline NativeF32 native_splat(float x) {
  return (NativeF32)_mm256_set1_ps(x);
}
[[gnu::always_inline]] static inline bool native_any(NativeU32 bits) {
  return _mm256_testz_si256((__m256i)bits, (__m256i)bits) == 0;
}
// A bit a lane of a mask.
[[gnu::always_inline]] static inline uint32_t native_lanes(NativeU32 mask) {
  return static_cast<uint32_t>(_mm256_movemask_ps((__m256)mask));
}

// Between lanes and the 16 or 8 bits of memory that each is. What is stored fits.
[[gnu::always_inline]] static inline NativeU32 native_load_u16(const void* p) {
  return (NativeU32)_mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
[[gnu::always_inline]] static inline NativeU32 native_load_u8(const void* p) {
  return (NativeU32)_mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
}
[[gnu::always_inline]] static inline void native_store_u16(void* p, NativeU32 a) {
  const __m256i halves = _mm256_packus_epi32((__m256i)a, (__m256i)a);  // in each half of the register
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_castsi256_si128(_mm256_permute4x64_epi64(halves, 0b1000)));
}
[[gnu::always_inline]] static inline void native_store_u8(void* p, NativeU32 a) {
  const __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)a, (__m256i)a), 0b1000);
  const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(halves), _mm256_castsi256_si128(halves));
  _mm_storel_epi64(static_cast<__m128i*>(p), bytes);
}

// 8 e4m3 codes: their bits moved into those of half precision, which has the same form with a bias larger by 8 and
// knows subnormals: so they come 2^8 times smaller.
inline constexpr bool kNativeHalves = true;
[[gnu::always_inline]] static inline NativeF32 native_load_e4m3(const void* p) {
  const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
  const __m128i halves = _mm_and_si128(_mm_slli_epi16(wide, 7), _mm_set1_epi16(static_cast<int16_t>(0xbf80)));
  return (NativeF32)_mm256_cvtph_ps(halves);
}

// Entry codes[lane] & 15 of the 4-bit floats: the magnitude from a table of 8 (vpermps reads 3 bits), then the sign.
[[gnu::always_inline]] static inline NativeF32 native_e2m1(NativeU32 codes) {
  const __m256 magnitudes = _mm256_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F);
  return (NativeF32)((NativeU32)_mm256_permutevar8x32_ps(magnitudes, (__m256i)codes) | (codes & 8U) << 28);
}

// Rows x tiles that a product keeps in registers at once (2 registers a tile's worth of sums).
inline constexpr int kGemmRows = 4;
inline constexpr int kGemmTilesOneRow = 4;
inline constexpr int kGemmTilesManyRows = 1;

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
