// Number formats: their names, sizes and exact conversions.
//
//   bf16   bfloat16: the upper 16 bits of a float
//   e4m3   float8_e4m3fn: 1 sign, 4 exponent (bias 7), 3 mantissa bits, no infinity, NaN = 0x7f and 0xff, largest 448
//   e2m1   4-bit float: 1 sign, 2 exponent, 1 mantissa bit; magnitudes 0, .5, 1, 1.5, 2, 3, 4, 6
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace strobe {

enum class DType { kF32, kBf16, kE4m3, kU8, kI32, kI64 };

[[nodiscard]] std::string_view to_string(DType dtype);
[[nodiscard]] int64_t size_bytes(DType dtype);

// The stored form of a bfloat16. A type of its own, so that it is never mistaken for an integer.
struct Bf16 {
  uint16_t bits = 0;
  friend bool operator==(Bf16, Bf16) = default;
};

[[nodiscard]] inline float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// Round to nearest, ties to even; NaN stays NaN.
[[nodiscard]] inline Bf16 to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return Bf16{static_cast<uint16_t>((bits >> 16) | 0x40U)};
  return Bf16{static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

struct E4m3 {
  uint8_t bits = 0;
  friend bool operator==(E4m3, E4m3) = default;
};

[[nodiscard]] float to_float(E4m3 value);

// Round to nearest, ties to even; saturates at +-448 (as CUDA's satfinite does), infinities too; NaN stays NaN.
[[nodiscard]] E4m3 to_e4m3(float value);

// The value of a 4-bit code; only the low four bits count.
inline constexpr std::array<float, 16> kE2m1Values = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                                      -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
[[nodiscard]] inline float e2m1_to_float(uint8_t code) {
  return kE2m1Values[code & 15U];
}

// Nearest code, ties to even mantissa; saturates at +-6.
[[nodiscard]] uint8_t float_to_e2m1(float value);

// The 256 values of E4m3, indexed by their bits.
[[nodiscard]] const std::array<float, 256>& e4m3_values();

// "auto"-free names as flags take them: f32/float32, bf16/bfloat16, e4m3/fp8_e4m3/fp8, u8, i32, i64.
Result<DType> parse_dtype(std::string_view name);

}  // namespace strobe
