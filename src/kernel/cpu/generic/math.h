// exp and what is made of it, on 16 lanes.
#pragma once

#include "kernel/cpu/generic/simd.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

// e^x within 2 units in the last place, for x in [-87, 89] and NaN; above 88.3 infinity. x = n ln 2 + r with
// |r| <= ln 2 / 2; e^r by a polynomial of degree 6 that is within 1.1e-8 of it; 2^n by the exponent bits.
[[gnu::always_inline]] static inline F32x16 exp_in_range(F32x16 x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  // 1.5 * 2^23 + 127: adding it leaves the nearest integer, as an exponent field of f32 has it, in the low bits.
  constexpr float kRoundToExponent = 12583039.0F;
  const F32x16 shifted = fma(x, splat(kLog2E), splat(kRoundToExponent));
  const F32x16 n = shifted - splat(kRoundToExponent);
  F32x16 r = fma(n, splat(-kLn2High), x);
  r = fma(n, splat(-kLn2Low), r);
  F32x16 p = splat(1.3926213142e-3F);
  p = fma(p, r, splat(8.3632031456e-3F));
  p = fma(p, r, splat(4.1666556150e-2F));
  p = fma(p, r, splat(1.6666576266e-1F));
  p = fma(p, r, splat(0.5F));
  p = fma(p, r, splat(1.0F));
  p = fma(p, r, splat(1.0F));
  return p * from_bits(bits_of(shifted) << 23);
}

[[gnu::always_inline]] static inline F32x16 into_range_of_exp(F32x16 x) {
  return smaller(splat(89.0F), larger(splat(-87.0F), x));
}

// e^x. Below -86 (4e-38) exactly 0, above 88.3 infinity; NaN stays NaN.
[[gnu::always_inline]] static inline F32x16 exp(F32x16 x) {
  return select(x < splat(-86.0F), splat(0.0F), exp_in_range(into_range_of_exp(x)));
}

// 1 / (1 + e^-x). Below -88.3 exactly 0; NaN stays NaN. (Beside the 1 it does not matter that e^-x does not become 0.)
[[gnu::always_inline]] static inline F32x16 sigmoid(F32x16 x) {
  return splat(1.0F) / (splat(1.0F) + exp_in_range(into_range_of_exp(-x)));
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
