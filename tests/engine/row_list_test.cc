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

TEST(RowList, ListsLongSequencesAsPrompts) {
  WorkerPool pool(1);
  ops::Workspace workspace;
  ops::Exec exec(pool, kernel::ref_kernels(), workspace);
  ops::WorkspaceFrame frame(workspace);
  RowList rows(4);
  const std::vector<int32_t> tokens(9, 1), a = {1}, b = {2, 3, 7}, c = {4}, d = {5, 6, 8, 9};
  rows.add({tokens.data(), 2}, 0, a);
  rows.add({tokens.data(), 5}, 6, b);
  rows.add({tokens.data(), 4}, 0, c);
  rows.add({tokens.data(), 9}, 0, d);
  const model::Batch batch = rows.place(exec, frame, {}, 5).batch;
  ASSERT_EQ(batch.requests.size(), 4U);
  ASSERT_EQ(batch.prompts.size(), 2U);
  ASSERT_EQ(batch.others.size(), 2U);
  EXPECT_EQ(batch.others[0].pages, a.data());
  EXPECT_EQ(batch.others[1].pages, c.data());
  EXPECT_EQ(batch.others[1].row_begin, 7);
  const auto expect_prompt = [](const model::PromptRequest& prompt, int32_t row_begin, int32_t rows_of, int32_t first,
                                const int32_t* pages) {
    EXPECT_EQ(prompt.request.row_begin, row_begin);
    EXPECT_EQ(prompt.request.row_count, rows_of);
    EXPECT_EQ(prompt.request.key_count, first + rows_of);
    EXPECT_EQ(prompt.request.pages, pages);
    EXPECT_EQ(prompt.alone->row_begin, 0);
    EXPECT_EQ(prompt.alone->row_count, rows_of);
    EXPECT_EQ(prompt.alone->first_position, first);
    EXPECT_EQ(prompt.alone->key_count, first + rows_of);
    EXPECT_EQ(prompt.alone->pages[0], 0);
  };
  expect_prompt(batch.prompts[0], 2, 5, 6, b.data());
  expect_prompt(batch.prompts[1], 11, 9, 0, d.data());
  EXPECT_TRUE(rows.place(exec, frame, {}, 10).batch.prompts.empty());
  EXPECT_TRUE(rows.place(exec, frame).batch.prompts.empty()) << "as a rule none is";
  rows.clear();
  rows.add({tokens.data(), 5}, 0, b);
  const model::Batch all = rows.place(exec, frame, {}, 5).batch;
  EXPECT_EQ(all.prompts.size(), 1U);
  EXPECT_TRUE(all.others.empty());
}

TEST(RowListDeathTest, RefusesRowsBehindItsPages) {
  RowList rows(4);
  const std::vector<int32_t> tokens = {1, 2, 3}, pages = {5, 6};
  rows.add(tokens, 5, pages);
  EXPECT_DEATH(rows.add(tokens, 6, pages), "2 pages, position 6");
}

}  // namespace
}  // namespace strobe::engine
