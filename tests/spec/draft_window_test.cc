#include "spec/draft_window.h"

#include <gtest/gtest.h>

#include <random>

namespace strobe::spec {
namespace {

TEST(DraftWindow, RoundsDownToAPage) {
  struct Case {
    int32_t committed, window, page_size, first;
  };
  constexpr Case kCases[] = {
      {1000, 0, 64, 0},    // no window
      {0, 16, 64, 0},      // nothing committed
      {15, 16, 64, 0},     // fewer than the window
      {16, 16, 64, 0},     // exactly the window
      {17, 16, 64, 0},     // one more: its page is still the first
      {79, 16, 64, 0},     // the window starts at 63, the last slot of the first page
      {80, 16, 64, 64},    // ... and now at the second page
      {81, 16, 64, 64},    //
      {143, 16, 64, 64},   //
      {144, 16, 64, 128},  //
      {5000, 4096, 64, 896}, {4160, 4096, 64, 64},
      {4159, 4096, 64, 0},   {100, 7, 1, 93},  // pages of one slot: exact
      {100, 1, 16, 96},      {2'000'000'000, 1'000'000'000, 64, 1'000'000'000},
  };
  for (const Case& c : kCases) {
    EXPECT_EQ(first_visible_position(c.committed, c.window, c.page_size), c.first)
        << c.committed << " committed, window " << c.window << ", pages of " << c.page_size;
  }
  static_assert(first_visible_position(80, 16, 64) == 64);
}

TEST(DraftWindow, TheWindowAndLessThanAPageMoreIsVisible) {
  std::mt19937 random(5);
  for (int i = 0; i < 10000; ++i) {
    const auto committed = static_cast<int32_t>(random() % 3000), window = static_cast<int32_t>(1 + random() % 300);
    const auto page_size = static_cast<int32_t>(1 + random() % 128);
    const int32_t first = first_visible_position(committed, window, page_size);
    const int32_t visible = committed - first;
    EXPECT_EQ(first % page_size, 0);
    EXPECT_GE(visible, std::min(window, committed));
    if (first > 0) {
      EXPECT_LT(visible, window + page_size);
    }
    if (committed <= window) {
      EXPECT_EQ(first, 0);
    }
  }
}

}  // namespace
}  // namespace strobe::spec
