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
