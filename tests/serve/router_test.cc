#include "serve/router.h"

#include <gtest/gtest.h>

namespace strobe::serve {
namespace {

void nothing(const std::shared_ptr<Exchange>& /*exchange*/) {}

TEST(Router, NamesTheRouteOfAPath) {
  Router router;
  router.add("GET", "/page/one", nothing, Handling::kShort);
  router.add("GET", "/page/*", nothing);
  router.add("POST", "/page/one", nothing, Handling::kShort);
  EXPECT_EQ(router.route_of("/page/one"), "/page/one");
  EXPECT_EQ(router.route_of("/page/two"), "/page/*");
  EXPECT_EQ(router.route_of("/pages"), "other");
  EXPECT_FALSE(router.is_short("/page/two"));
  EXPECT_FALSE(router.is_short("/pages"));
}

TEST(RouterDeathTest, WhatCouldNeverBeReachedIsNotAdded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Router router;
  router.add("GET", "/page/*", nothing);
  router.add("GET", "/info", nothing);
  router.add("POST", "/info", nothing);
  EXPECT_DEATH(router.add("GET", "/info", nothing), "GET /info would never be reached");
  EXPECT_DEATH(router.add("GET", "/page/two", nothing), "GET /page/two would never be reached behind /page/\\*");
}

}  // namespace
}  // namespace strobe::serve
