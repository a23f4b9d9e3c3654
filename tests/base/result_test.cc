#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace strobe {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return error("{} is odd; accepted: even numbers", value);
  return value / 2;
}

Result<int> quarter(int value) {
  STROBE_ASSIGN(const int once, half(value));
  STROBE_TRY(half(once));
  return half(once);
}

TEST(Result, CarriesValueOrError) {
  EXPECT_EQ(half(8).value(), 4);
  EXPECT_EQ(half(3).message(), "3 is odd; accepted: even numbers");
}

TEST(Result, TryAndAssignPassTheErrorOn) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).message(), "3 is odd; accepted: even numbers");
  EXPECT_EQ(quarter(5).message(), "5 is odd; accepted: even numbers");
}

TEST(Result, HoldsValuesThatOnlyMove) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  EXPECT_EQ(*std::move(result).value(), 7);
}

TEST(Result, VoidIsOkUnlessAnError) {
  EXPECT_TRUE(Result<void>().ok());
  EXPECT_FALSE(Result<void>(error("no")).ok());
}

}  // namespace
}  // namespace strobe
