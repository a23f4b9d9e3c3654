#include "cache/page_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace strobe::cache {
namespace {

TEST(PagePool, HandsOutEachPageOnceAndNeverPageZero) {
  PagePool pool(5, 64);
  EXPECT_EQ(pool.capacity_pages(), 4);
  std::set<PageId> seen;
  for (int i = 0; i < 4; ++i) seen.insert(pool.take().value());
  EXPECT_EQ(seen, (std::set<PageId>{1, 2, 3, 4}));
  EXPECT_FALSE(pool.take().has_value());
  pool.release(3);
  EXPECT_EQ(pool.take(), 3);
}

TEST(PagePool, SharedPagesAreFreedByTheLastOwner) {
  PagePool pool(3, 64);
  const PageId page = pool.take().value();
  pool.retain(page);
  pool.release(page);
  EXPECT_EQ(pool.free_pages(), 1);
  pool.release(page);
  EXPECT_EQ(pool.free_pages(), 2);
}

TEST(PagePool, PagesForTokens) {
  const PagePool pool(3, 64);
  EXPECT_EQ(pool.pages_for(0), 0);
  EXPECT_EQ(pool.pages_for(1), 1);
  EXPECT_EQ(pool.pages_for(64), 1);
  EXPECT_EQ(pool.pages_for(65), 2);
}

TEST(PagePool, CountsAddUpUnderRandomUse) {
  PagePool pool(20, 16);
  std::mt19937 random(3);
  std::vector<PageId> held;
  for (int i = 0; i < 5000; ++i) {
    switch (random() % 3) {
      case 0:
        if (const auto page = pool.take()) held.push_back(*page);
        break;
      case 1:
        if (!held.empty()) {
          held.push_back(held[random() % held.size()]);
          pool.retain(held.back());
        }
        break;
      default:
        if (!held.empty()) {
          std::swap(held[random() % held.size()], held.back());
          pool.release(held.back());
          held.pop_back();
        }
    }
    EXPECT_EQ(pool.free_pages() + static_cast<int>(std::set<PageId>(held.begin(), held.end()).size()), 19);
  }
}

TEST(PagePoolDeathTest, RefusesPagesNotInUse) {
  PagePool pool(3, 64);
  EXPECT_DEATH(pool.release(1), "not in use");
  EXPECT_DEATH(pool.release(0), "not in use");
  EXPECT_DEATH(pool.retain(2), "not in use");
  EXPECT_DEATH(PagePool(1, 64), "pages = 1");
}

}  // namespace
}  // namespace strobe::cache
