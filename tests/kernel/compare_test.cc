// The comparer must flag what it is there for.
#include <gtest/gtest-spi.h>

#include <cmath>
#include <limits>

#include "harness.h"

namespace strobe::kernel {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

bool passes(float actual, double expected, double relative = 1e-5, DType output = DType::kF32) {
  Oracle oracle;
  oracle.add(expected, std::fabs(expected));
  return static_cast<bool>(close({actual}, oracle, relative, output));
}

TEST(Close, AcceptsWithinTheTolerance) {
  EXPECT_TRUE(passes(1.0F, 1.0));
  EXPECT_TRUE(passes(1.00001F, 1.0));
  EXPECT_TRUE(passes(0.0F, 0.0));
  EXPECT_TRUE(passes(1e-40F, 0.0));  // a flushed denormal
  EXPECT_TRUE(passes(round_to_bf16(1.234F), 1.234, 1e-5, DType::kBf16));
}

TEST(Close, FlagsWrongNumbers) {
  EXPECT_FALSE(passes(1.0001F, 1.0));
  EXPECT_FALSE(passes(-1.0F, 1.0));
  EXPECT_FALSE(passes(1e-5F, -1e-5));
  EXPECT_FALSE(passes(0.0F, 1e-20));
  EXPECT_FALSE(passes(1e-20F, 0.0));
  EXPECT_FALSE(passes(round_to_bf16(1.234F), 1.234));
  EXPECT_FALSE(passes(1.02F, 1.0, 1e-5, DType::kBf16));
}

TEST(Close, FlagsNanAndInfinities) {
  EXPECT_FALSE(passes(kNan, 1.0));
  EXPECT_FALSE(passes(1.0F, kNan));
  EXPECT_TRUE(passes(kNan, kNan));
  EXPECT_FALSE(passes(kInf, 1.0));
  EXPECT_FALSE(passes(kInf, 3e38));
  EXPECT_FALSE(passes(1.0F, kInf));
  EXPECT_FALSE(passes(-kInf, kInf));
  EXPECT_FALSE(passes(kNan, kInf));
  EXPECT_FALSE(passes(kInf, kNan));
  EXPECT_TRUE(passes(kInf, kInf));
}

TEST(Close, LooksAtEveryNumberAndAtTheirCount) {
  Oracle oracle;
  for (int i = 0; i < 5; ++i) oracle.add(i, 4);
  EXPECT_TRUE(close({0, 1, 2, 3, 4}, oracle, 1e-5));
  EXPECT_FALSE(close({0, 1, 2, 3, 5}, oracle, 1e-5));
  EXPECT_FALSE(close({1, 1, 2, 3, 4}, oracle, 1e-5));
  EXPECT_FALSE(close({0, 1, 2, 3}, oracle, 1e-5));
  EXPECT_FALSE(close({0, 1, 2, 3, 4, 5}, oracle, 1e-5));
}

// A family that leaks its neighbours, one that leaks the number of rows, one that leaks the workers: all must be
// caught.
class LeakDetector : public ::testing::Test {
 protected:
  static bool invariant(const RunRows& run) {
    ::testing::TestPartResultArray failures;
    {
      ::testing::ScopedFakeTestPartResultReporter catcher(
          ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
      expect_batch_invariant(64, {5}, run);
    }
    return failures.size() == 0;
  }
};

TEST_F(LeakDetector, CatchesEachLeak) {
  using Bytes = std::vector<std::string>;
  const auto honest = [](const std::vector<int>& rows, int) {
    Bytes bytes;
    for (const int row : rows) bytes.push_back("row " + std::to_string(row));
    return bytes;
  };
  EXPECT_TRUE(invariant(honest));
  EXPECT_FALSE(invariant([&](const std::vector<int>& rows, int workers) {
    Bytes bytes = honest(rows, workers);
    if (rows.size() == 64) bytes.back() += "!";
    return bytes;
  }));
  EXPECT_FALSE(invariant([&](const std::vector<int>& rows, int workers) {
    Bytes bytes = honest(rows, workers);
    if (workers == 3) bytes.front() += "!";
    return bytes;
  }));
  EXPECT_FALSE(invariant([&](const std::vector<int>& rows, int workers) {
    Bytes bytes = honest(rows, workers);
    for (size_t i = 1; i < rows.size(); ++i) {
      if (rows[i - 1] == 5) bytes[i] += " next to the poisoned one";
    }
    return bytes;
  }));
  EXPECT_FALSE(invariant([](const std::vector<int>& rows, int) { return Bytes(rows.size(), "the same"); }));
}

}  // namespace
}  // namespace strobe::kernel
