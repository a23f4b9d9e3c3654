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
