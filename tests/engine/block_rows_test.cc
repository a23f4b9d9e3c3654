#include "engine/block_rows.h"

#include <gtest/gtest.h>

#include <memory>

namespace strobe::engine {
namespace {

using Ids = std::vector<int32_t>;

Ids numbers(const Tensor& tensor) {
  const auto* ids = tensor.as<int32_t>();
  return {ids, ids + tensor.dim(0)};
}

class BlockRowsTest : public testing::Test {
 protected:
  WorkerPool pool_{1};
  ops::Workspace workspace_;
  ops::Exec exec_{pool_, kernel::ref_kernels(), workspace_};
  SamplingParams greedy_{.temperature = 0};
};

TEST(RecordedSequences, AreFewSizesNearTheNumber) {
  int64_t last = 0, sizes = 0;
  for (int64_t n = 1; n <= 256; ++n) {
    const int64_t recorded = recorded_sequences(n);
    EXPECT_GE(recorded, n);
    EXPECT_LE(3 * (recorded - n), recorded) << n;
    sizes += recorded != last ? 1 : 0;
    EXPECT_GE(recorded, last);
    last = recorded;
  }
  EXPECT_LE(sizes, 16);
  EXPECT_EQ(recorded_sizes(256), sizes);
  EXPECT_EQ(recorded_sizes(1), 1);
  EXPECT_EQ(recorded_sizes(5), 5);  // 1, 2, 3, 4, 6
  EXPECT_EQ(recorded_sequences(1), 1);
  EXPECT_EQ(recorded_sequences(8), 8);
  EXPECT_EQ(recorded_sequences(48), 48);
}

TEST_F(BlockRowsTest, RowsHaveTheirPlacesAndPaddingHasNone) {
  // Five sequences are recorded as six.
  const Ids fed[] = {{70}, {71}, {72}, {73}, {74}};
  const Ids pages = {4, 9};
  StepPlan plan;
  for (int32_t i = 0; i < 5; ++i) {
    plan.sequences.push_back({.tokens = fed[i],
                              .first_position = 6 - i,
                              .pages = pages,
                              .wants_token = true,
                              .block_tokens = i == 1 ? 1 : 2,
                              .sampling = &greedy_});
  }
  ASSERT_TRUE(only_decodes(plan));
  BlockRows rows(exec_, 2, 4);
  const Ids visible = {0, 4, 0, 0, 0};
  rows.place(plan, 99, visible);
  ASSERT_EQ(rows.sequences(), 6);
  EXPECT_EQ(numbers(rows.ids()), (Ids{70, 99, 71, 99, 72, 99, 73, 99, 74, 99, 99, 99}));
  EXPECT_EQ(numbers(rows.filled_ids()), numbers(rows.ids()));
  EXPECT_EQ(numbers(rows.batch().positions), (Ids{6, 7, 5, 0, 4, 5, 3, 4, 2, 3, 0, 0}));
  // Page 4 holds positions 0 to 3 in slots 16 to 19, page 9 positions 4 to 7 in slots 36 to 39.
  EXPECT_EQ(numbers(rows.batch().slots), (Ids{38, 39, 37, -1, 36, 37, 19, 36, 18, 19, -1, -1}));
  ASSERT_EQ(rows.batch().requests.size(), 6U);
  const kernel::AttentionRequest& second = rows.batch().requests[1];
  EXPECT_EQ(second.row_begin, 2);
  EXPECT_EQ(second.row_count, 1);
  EXPECT_EQ(second.first_position, 5);
  EXPECT_EQ(second.key_count, 6);
  EXPECT_EQ(Ids(second.pages, second.pages + 2), pages);
  EXPECT_EQ(rows.batch().requests[5].row_count, 0);
  EXPECT_EQ(rows.batch().first_visible[1], 4);
  EXPECT_EQ(Ids(rows.blocks().block_tokens, rows.blocks().block_tokens + 6), (Ids{2, 1, 2, 2, 2, 0}));
}

TEST_F(BlockRowsTest, TheTagFollowsWhatARecordingDependsOn) {
  const Ids fed = {5}, pages = {1};
  const auto plan_of = [&](size_t count) {
    StepPlan plan;
    plan.sequences.resize(
        count, {.tokens = fed, .pages = pages, .wants_token = true, .block_tokens = 1, .sampling = &greedy_});
    return plan;
  };
  BlockRows rows(exec_, 4, 16), others(exec_, 4, 16);
  rows.place(plan_of(4), 0);
  const uint64_t four = rows.tag();
  rows.place(plan_of(2), 0);
  EXPECT_NE(rows.tag(), four);
  rows.place(plan_of(4), 0);
  EXPECT_EQ(rows.tag(), four) << "the same size at the same place";
  others.place(plan_of(4), 0);
  EXPECT_NE(others.tag(), four) << "somebody else's rows";
}

TEST_F(BlockRowsTest, OnlyStepsThatOnlyDecode) {
  const Ids one = {5}, two = {5, 6}, pages = {1};
  StepPlan plan;
  EXPECT_FALSE(only_decodes(plan));
  plan.sequences.push_back({.tokens = one, .pages = pages, .wants_token = true, .sampling = &greedy_});
  EXPECT_TRUE(only_decodes(plan));
  plan.sequences.push_back({.tokens = two, .pages = pages, .wants_token = true, .sampling = &greedy_});
  EXPECT_FALSE(only_decodes(plan));
  plan.sequences.back() = {.tokens = one, .pages = pages};
  EXPECT_FALSE(only_decodes(plan)) << "a prompt's chunk of one token";
}

}  // namespace
}  // namespace strobe::engine
