// RowList: positions, slots and requests of rows put together.
#include <gtest/gtest.h>

#include <vector>

#include "engine/target_pass.h"

namespace strobe::engine {
namespace {

std::vector<int32_t> numbers(const Tensor& tensor) {
  const int32_t* begin = tensor.as<int32_t>();
  return {begin, begin + tensor.dim(0)};
}

TEST(RowList, SlotsFollowThePagesOfEachSequence) {
  RowList rows(4);
  const std::vector<int32_t> tokens = {10, 11, 12, 13, 14, 15}, pages = {7, 2, 9};
  rows.add(tokens, 2, pages);  // positions 2 ... 7: the end of page 7, all of page 2
  const std::vector<int32_t> one = {20}, other_pages = {1, 5};
  rows.add(one, 4, other_pages);
  ASSERT_EQ(rows.rows(), 7);
  EXPECT_EQ(numbers(rows.ids()), (std::vector<int32_t>{10, 11, 12, 13, 14, 15, 20}));
  EXPECT_EQ(numbers(rows.positions()), (std::vector<int32_t>{2, 3, 4, 5, 6, 7, 4}));
  EXPECT_EQ(numbers(rows.slots()), (std::vector<int32_t>{30, 31, 8, 9, 10, 11, 20}));
  ASSERT_EQ(rows.requests().size(), 2U);
  const kernel::AttentionRequest& first = rows.requests()[0];
  EXPECT_EQ(first.row_begin, 0);
  EXPECT_EQ(first.row_count, 6);
  EXPECT_EQ(first.first_position, 2);
  EXPECT_EQ(first.key_count, 8);
  EXPECT_EQ(first.pages, pages.data());
  const kernel::AttentionRequest& second = rows.requests().back();
  EXPECT_EQ(second.row_begin, 6);
  EXPECT_EQ(second.row_count, 1);
  EXPECT_EQ(second.key_count, 5);
}

TEST(RowList, ClearsAndTakesEmptySequences) {
  RowList rows(4);
  const std::vector<int32_t> tokens = {1, 2}, pages = {3};
  rows.add(tokens, 0, pages);
  rows.clear();
  EXPECT_EQ(rows.rows(), 0);
  EXPECT_TRUE(rows.requests().empty());
  rows.add({}, 4, pages);  // nothing behind a full page
  EXPECT_EQ(rows.rows(), 0);
  EXPECT_EQ(rows.requests().back().key_count, 4);
}

TEST(RowListDeathTest, RefusesRowsBehindItsPages) {
  RowList rows(4);
  const std::vector<int32_t> tokens = {1, 2, 3}, pages = {5, 6};
  rows.add(tokens, 5, pages);
  EXPECT_DEATH(rows.add(tokens, 6, pages), "2 pages, position 6");
}

}  // namespace
}  // namespace strobe::engine
