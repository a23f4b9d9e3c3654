// exp and what is made of it, on 16 lanes.
#pragma once

#include "kernel/cpu/generic/simd.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

// e^x within 2 units in the last place. x = n ln 2 + r with |r| <= ln 2 / 2; e^r by a polynomial of degree 6 (Cephes'
// expf coefficients); 2^n by the exponent bits. Below -86 (4e-38) exactly 0, above 88.7 infinity; NaN stays NaN.
[[gnu::always_inline]] static inline F32x16 exp(F32x16 x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRoundToInteger = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const F32x16 low = splat(-86.0F);
  const F32x16 high = splat(88.7F);
  F32x16 clamped = select(x < low, low, x);
  clamped = select(high < clamped, high, clamped);
  const F32x16 shifted = fma(clamped, splat(kLog2E), splat(kRoundToInteger));
  const F32x16 n = shifted - splat(kRoundToInteger);
  F32x16 r = fma(n, splat(-kLn2High), clamped);
  r = fma(n, splat(-kLn2Low), r);
  F32x16 p = splat(1.9875691500e-4F);
  p = fma(p, r, splat(1.3981999507e-3F));
  p = fma(p, r, splat(8.3334519073e-3F));
  p = fma(p, r, splat(4.1665795894e-2F));
  p = fma(p, r, splat(1.6666665459e-1F));
  p = fma(p, r, splat(5.0000001201e-1F));
  p = fma(p, r * r, r + splat(1.0F));
  // 2^n for n in [-124, 128], in two factors because 2^128 is no f32.
  const U32x16 integer = bits_of(shifted) - splat_u32(0x4b400000U);
  const F32x16 half = from_bits((integer + splat_u32(126)) << 23);
  F32x16 result = p * half * splat(2.0F);
  result = select(x < low, splat(0.0F), result);
  result = select(high < x, splat(__builtin_inff()), result);
  return select(x == x, result, x);
}

// 1 / (1 + e^-x)
[[gnu::always_inline]] static inline F32x16 sigmoid(F32x16 x) {
  return splat(1.0F) / (splat(1.0F) + exp(splat(0.0F) - x));
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
