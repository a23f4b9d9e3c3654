#include "cache/prefix_tree.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace strobe::cache {
namespace {

using Ids = std::vector<int32_t>;

// Pages of 2 tokens.
class PrefixTreeTest : public testing::Test {
 protected:
  std::vector<PageId> take(size_t count) {
    std::vector<PageId> pages;
    for (size_t i = 0; i < count; ++i) pages.push_back(pool_.take().value());
    return pages;
  }
  // As a request does that ends: its pages go to the tree, its own references go.
  std::vector<PageId> store(const Ids& tokens) {
    std::vector<PageId> pages = take(tokens.size() / 2);
    tree_.unlock(tree_.insert_and_lock(tokens, pages, nullptr));
    pool_.release(pages);
    return pages;
  }
  void let_go(const PrefixTree::Match& match) {
    tree_.unlock(match.node);
    pool_.release(match.pages);
  }
  std::vector<PageId> found(const Ids& tokens) {
    const auto match = tree_.match_and_lock(tokens);
    let_go(match);
    return match.pages;
  }

  PagePool pool_{33, 2};
  PrefixTree tree_{pool_, true};
};

TEST_F(PrefixTreeTest, FindsWholePagesOnly) {
  const auto pages = store({1, 2, 3, 4, 5});
  ASSERT_EQ(pages.size(), 2U);
  EXPECT_EQ(tree_.pages(), 2);
  EXPECT_EQ(found({1, 2, 3, 4}), pages);
  EXPECT_EQ(found({1, 2, 3, 4, 5, 6, 7}), pages);
  EXPECT_EQ(found({1, 2, 3}), (std::vector<PageId>{pages[0]}));
  EXPECT_EQ(found({1, 2, 4, 3}), (std::vector<PageId>{pages[0]}));
  EXPECT_TRUE(found({1}).empty());
  EXPECT_TRUE(found({}).empty());
  EXPECT_TRUE(found({2, 1, 3, 4}).empty());
}

TEST_F(PrefixTreeTest, TextsShareTheirBeginning) {
  const auto a = store({1, 2, 3, 4});
  const auto b = store({1, 2, 9, 9});
  EXPECT_EQ(b[0], a[0]) << "the stored page is used and the other one is given back";
  EXPECT_NE(b[1], a[1]);
  EXPECT_EQ(tree_.pages(), 3);
  EXPECT_EQ(pool_.free_pages(), 32 - 3);
}

TEST_F(PrefixTreeTest, ARunningRequestGetsTheStoredPageInPlaceOfItsOwn) {
  const auto stored = store({1, 2, 3, 4});
  std::vector<PageId> own = take(3);
  const PageId third = own[2];
  PrefixTree::Node* node = tree_.insert_and_lock(Ids{1, 2, 3, 4, 5, 6}, own, nullptr);
  EXPECT_EQ(own, (std::vector<PageId>{stored[0], stored[1], third}));
  EXPECT_EQ(pool_.references(stored[0]), 2);
  EXPECT_EQ(pool_.references(third), 2);
  EXPECT_EQ(tree_.evictable_pages(), 0);
  tree_.unlock(node);
  pool_.release(own);
  EXPECT_EQ(tree_.evictable_pages(), 3);
}

TEST_F(PrefixTreeTest, LockedPagesStay) {
  store({1, 2, 3, 4, 5, 6});
  const auto match = tree_.match_and_lock(Ids{1, 2, 3, 4});
  EXPECT_EQ(tree_.evictable_pages(), 1);
  EXPECT_EQ(tree_.evict(32), 1);
  EXPECT_EQ(found({1, 2, 3, 4, 5, 6}), match.pages);
  let_go(match);
  EXPECT_EQ(tree_.evict(32), 2);
  EXPECT_EQ(tree_.pages(), 0);
  EXPECT_EQ(pool_.free_pages(), 32);
}

TEST_F(PrefixTreeTest, TheLongestUnusedGoesFirstAndLeavesBeforeTheirParents) {
  store({1, 1, 2, 2});
  store({5, 5, 6, 6});
  store({1, 1, 3, 3});
  EXPECT_EQ(found({1, 1, 2, 2}).size(), 2U);  // used again: now the youngest
  EXPECT_EQ(tree_.evict(2), 2);
  EXPECT_TRUE(found({5, 5}).empty());
  EXPECT_EQ(found({1, 1, 3, 3}).size(), 2U);
  EXPECT_EQ(tree_.evict(1), 1);  // {1,1,2,2}: {1,1,3,3} was asked for behind it
  EXPECT_EQ(found({1, 1, 2, 2}).size(), 1U);
  EXPECT_EQ(tree_.evict(5), 2);
}

TEST_F(PrefixTreeTest, InsertMovesTheLock) {
  store({1, 2});
  const auto match = tree_.match_and_lock(Ids{1, 2});
  std::vector<PageId> pages = match.pages;
  pages.push_back(pool_.take().value());
  PrefixTree::Node* node = tree_.insert_and_lock(Ids{1, 2, 3, 4}, pages, match.node);
  EXPECT_EQ(tree_.evictable_pages(), 0);
  tree_.unlock(node);
  EXPECT_EQ(tree_.evictable_pages(), 2);
  pool_.release(pages);
}

TEST_F(PrefixTreeTest, WhatIsShorterThanAPageIsNotStored) {
  EXPECT_EQ(tree_.insert_and_lock(Ids{1}, {}, nullptr), nullptr);
  EXPECT_EQ(tree_.pages(), 0);
}

TEST(PrefixTree, CanBeOff) {
  PagePool pool(9, 2);
  PrefixTree tree(pool, false);
  std::vector<PageId> pages{pool.take().value()};
  EXPECT_EQ(tree.insert_and_lock(Ids{1, 2}, pages, nullptr), nullptr);
  EXPECT_TRUE(tree.match_and_lock(Ids{1, 2}).pages.empty());
  pool.release(pages);
  EXPECT_EQ(pool.free_pages(), 8);
}

TEST(PrefixTree, GivesItsPagesBackAtItsEnd) {
  PagePool pool(9, 2);
  {
    PrefixTree tree(pool, true);
    std::vector<PageId> pages{pool.take().value(), pool.take().value()};
    tree.unlock(tree.insert_and_lock(Ids{1, 2, 3, 4}, pages, nullptr));
    pool.release(pages);
    EXPECT_EQ(pool.free_pages(), 6);
  }
  EXPECT_EQ(pool.free_pages(), 8);
}

// Against a model that knows only which texts were stored since the last eviction: without eviction every stored prefix
// is found, and a page always stands for the same text.
TEST(PrefixTree, ManyRandomTexts) {
  PagePool pool(2001, 3);
  PrefixTree tree(pool, true);
  std::mt19937 random(1);
  std::map<Ids, PageId> pages_of;  // by the whole text up to the page's end
  std::vector<std::pair<PrefixTree::Match, int>> running;
  for (int round = 0; round < 3000; ++round) {
    Ids text(random() % 12);
    for (int32_t& token : text) token = static_cast<int32_t>(random() % 2);
    auto match = tree.match_and_lock(text);
    const size_t whole = text.size() / 3;
    for (size_t i = 0; i < whole; ++i) {
      const Ids prefix(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(3 * (i + 1)));
      if (i < match.pages.size()) {
        EXPECT_EQ(pages_of.at(prefix), match.pages[i]);
      } else {
        EXPECT_FALSE(pages_of.contains(prefix));
        match.pages.push_back(pool.take().value());
        pages_of[prefix] = match.pages.back();
      }
    }
    match.node = tree.insert_and_lock(text, match.pages, match.node);
    running.emplace_back(std::move(match), 0);
    if (running.size() > 5) {
      tree.unlock(running.front().first.node);
      pool.release(running.front().first.pages);
      running.erase(running.begin());
    }
  }
  EXPECT_EQ(tree.pages(), std::ssize(pages_of));
  EXPECT_EQ(pool.free_pages() + tree.pages(), pool.capacity_pages());
  for (const auto& [match, unused] : running) {
    tree.unlock(match.node);
    pool.release(match.pages);
  }
  EXPECT_EQ(tree.evictable_pages(), tree.pages());
  EXPECT_EQ(tree.evict(tree.pages()), std::ssize(pages_of));
  EXPECT_EQ(pool.free_pages(), pool.capacity_pages());
}

}  // namespace
}  // namespace strobe::cache
