#include "base/nearest_name.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace strobe {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"port", "host", "tp", "temperature", "n"};

TEST(NearestName, IsAtMostTwoEditsAway) {
  EXPECT_EQ(nearest_name("temprature", kNames), "temperature");
  EXPECT_EQ(nearest_name("temperatures", kNames), "temperature");
  EXPECT_EQ(nearest_name("tenperatur", kNames), "temperature");
  EXPECT_EQ(nearest_name("temprtur", kNames), "");
  EXPECT_EQ(nearest_name("prot", kNames), "port");  // two letters replaced
  EXPECT_EQ(nearest_name("port", kNames), "port");
}

TEST(NearestName, OfTwoTheNearerThenTheFirst) {
  EXPECT_EQ(nearest_name("post", kNames), "port");
  EXPECT_EQ(nearest_name("hosd", kNames), "host");
}

TEST(NearestName, SaysNothingOfWordsThatShareLessThanHalf) {
  EXPECT_EQ(nearest_name("no", kNames), "n");
  EXPECT_EQ(nearest_name("zz", kNames), "");
  EXPECT_EQ(nearest_name("x", kNames), "");
  EXPECT_EQ(nearest_name("t", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name(std::string(1000, 'p'), kNames), "");
}

}  // namespace
}  // namespace strobe
