#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace strobe {
namespace {

// The nearest of all finite values of a format, ties to the even code: the definition, by search.
uint8_t nearest_e4m3(float value) {
  uint8_t best = 0;
  for (int code = 0; code < 0x7f; ++code) {
    const float distance = std::fabs(to_float(E4m3{static_cast<uint8_t>(code)}) - std::fabs(value));
    const float best_distance = std::fabs(to_float(E4m3{best}) - std::fabs(value));
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) best = static_cast<uint8_t>(code);
  }
  return static_cast<uint8_t>(best | (std::signbit(value) ? 0x80 : 0));
}

TEST(E4m3, KnownValues) {
  EXPECT_EQ(to_float(E4m3{0x38}), 1.0F);
  EXPECT_EQ(to_float(E4m3{0x7e}), 448.0F);
  EXPECT_EQ(to_float(E4m3{0x01}), 0x1p-9F);
  EXPECT_EQ(to_float(E4m3{0xb8}), -1.0F);
  EXPECT_TRUE(std::isnan(to_float(E4m3{0x7f})));
}

TEST(E4m3, EveryCodeSurvivesARoundTrip) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7f) == 0x7f) continue;
    EXPECT_EQ(to_e4m3(to_float(E4m3{static_cast<uint8_t>(code)})).bits, code);
  }
}

TEST(E4m3, RoundsToNearestEven) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-12, 9);
  for (int i = 0; i < 20000; ++i) {
    const float value = std::exp2(exponent(random)) * (i % 2 == 0 ? 1.0F : -1.0F);
    EXPECT_EQ(to_e4m3(value).bits, nearest_e4m3(value)) << value;
  }
  for (int code = 0; code < 0x7e; ++code) {  // exact midpoints
    const float middle =
        (to_float(E4m3{static_cast<uint8_t>(code)}) + to_float(E4m3{static_cast<uint8_t>(code + 1)})) / 2;
    EXPECT_EQ(to_e4m3(middle).bits, nearest_e4m3(middle)) << middle;
  }
}

TEST(E4m3, SaturatesAndKeepsNan) {
  EXPECT_EQ(to_e4m3(1e9F).bits, 0x7e);
  EXPECT_EQ(to_e4m3(-std::numeric_limits<float>::infinity()).bits, 0xfe);
  EXPECT_EQ(to_e4m3(460.0F).bits, 0x7e);
  EXPECT_TRUE(std::isnan(to_float(to_e4m3(std::nanf("")))));
}

TEST(Bf16, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(to_bf16(1.0F).bits, 0x3f80);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808000U)).bits, 0x3f80);  // tie, even stays
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f818000U)).bits, 0x3f82);  // tie, odd goes up
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808001U)).bits, 0x3f81);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001U)))));
}

TEST(E2m1, RoundTripAndTies) {
  for (int code = 0; code < 16; ++code) {
    EXPECT_EQ(float_to_e2m1(e2m1_to_float(static_cast<uint8_t>(code))), code);
  }
  EXPECT_EQ(e2m1_to_float(float_to_e2m1(2.5F)), 2.0F);
  EXPECT_EQ(e2m1_to_float(float_to_e2m1(3.5F)), 4.0F);
  EXPECT_EQ(e2m1_to_float(float_to_e2m1(-0.25F)), 0.0F);
  EXPECT_EQ(e2m1_to_float(float_to_e2m1(100.0F)), 6.0F);
}

TEST(DTypeName, RefusesUnknownNames) {
  EXPECT_EQ(parse_dtype("fp8_e4m3").value(), DType::kE4m3);
  EXPECT_NE(parse_dtype("fp7").message().find("accepted"), std::string::npos);
}

}  // namespace
}  // namespace strobe
