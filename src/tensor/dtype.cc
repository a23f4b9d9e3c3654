#include "tensor/dtype.h"

#include <cmath>
#include <limits>

#include "base/check.h"

namespace strobe {
namespace {

constexpr std::array<float, 256> make_e4m3_values() {
  std::array<float, 256> table{};
  for (int bits = 0; bits < 256; ++bits) {
    const int exponent = bits >> 3 & 15;
    const int mantissa = bits & 7;
    float value = 0;
    if (exponent == 15 && mantissa == 7) {
      value = std::numeric_limits<float>::quiet_NaN();
    } else {
      value = exponent == 0 ? static_cast<float>(mantissa) : static_cast<float>(8 + mantissa);
      for (int e = exponent == 0 ? 1 : exponent; e < 10; ++e) value *= 0.5F;  // 2^(exponent - 7 - 3)
      for (int e = 10; e < exponent; ++e) value *= 2.0F;
    }
    table[static_cast<size_t>(bits)] = (bits & 128) != 0 ? -value : value;
  }
  return table;
}

constexpr std::array<float, 256> kE4m3Values = make_e4m3_values();

}  // namespace

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBf16:
      return "bf16";
    case DType::kE4m3:
      return "fp8_e4m3";
    case DType::kU8:
      return "u8";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
  }
  return "?";
}

int64_t size_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBf16:
      return 2;
    case DType::kE4m3:
    case DType::kU8:
      return 1;
    case DType::kI64:
      return 8;
  }
  return 0;
}

float to_float(E4m3 value) {
  return kE4m3Values[value.bits];
}

const std::array<float, 256>& e4m3_values() {
  return kE4m3Values;
}

E4m3 to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80U);
  if (std::isnan(value)) return E4m3{static_cast<uint8_t>(sign | 0x7fU)};
  const float magnitude = std::fabs(value);
  if (magnitude >= 448.0F) return E4m3{static_cast<uint8_t>(sign | 0x7eU)};
  if (magnitude < 0x1p-6F) {  // subnormal: a multiple of 2^-9; nearbyint rounds ties to even
    return E4m3{static_cast<uint8_t>(sign | static_cast<uint8_t>(std::nearbyint(magnitude * 512.0F)))};
  }
  // Keep 3 mantissa bits: add half of the dropped unit, less one where the kept part is even.
  const uint32_t m = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = m + 0x7ffffU + (m >> 20 & 1U);
  const uint32_t code = (rounded >> 20) - ((127U - 7U) << 3);
  return E4m3{static_cast<uint8_t>(sign | (code > 0x7eU ? 0x7eU : code))};
}

uint8_t float_to_e2m1(float value) {
  const uint8_t sign = std::signbit(value) ? 8 : 0;
  const float m = std::fabs(value);
  // Midpoints between neighbours; a tie goes to the code with an even mantissa bit.
  uint8_t code = 7;
  if (m <= 0.25F) {
    code = 0;
  } else if (m < 0.75F) {
    code = 1;
  } else if (m <= 1.25F) {
    code = 2;
  } else if (m < 1.75F) {
    code = 3;
  } else if (m <= 2.5F) {
    code = 4;
  } else if (m < 3.5F) {
    code = 5;
  } else if (m <= 5.0F) {
    code = 6;
  }
  return static_cast<uint8_t>(sign | code);
}

Result<DType> parse_dtype(std::string_view name) {
  if (name == "f32" || name == "float32") return DType::kF32;
  if (name == "bf16" || name == "bfloat16") return DType::kBf16;
  if (name == "e4m3" || name == "fp8" || name == "fp8_e4m3") return DType::kE4m3;
  if (name == "u8") return DType::kU8;
  if (name == "i32") return DType::kI32;
  if (name == "i64") return DType::kI64;
  return error("dtype '{}' is not known; accepted: f32, bf16, fp8_e4m3, u8, i32, i64", name);
}

}  // namespace strobe
