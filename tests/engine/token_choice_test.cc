#include "engine/token_choice.h"

#include <gtest/gtest.h>

#include <limits>

namespace strobe::engine {
namespace {

// Logits of a block, row by row, with the argmax a pass would give.
class Rows {
 public:
  explicit Rows(std::vector<std::vector<float>> rows) : width_(static_cast<int64_t>(rows[0].size())) {
    for (const auto& row : rows) {
      numbers_.insert(numbers_.end(), row.begin(), row.end());
      argmax_.push_back(argmax(row));
    }
  }
  operator RowLogits() {  // NOLINT(google-explicit-constructor)
    return {.logits = Tensor(numbers_.data(), DType::kF32, {static_cast<int64_t>(argmax_.size()), width_}),
            .argmax = argmax_};
  }
  [[nodiscard]] const std::vector<float>& numbers() const { return numbers_; }

 private:
  int64_t width_;
  std::vector<float> numbers_;
  std::vector<int32_t> argmax_;
};

using Ids = std::vector<int32_t>;

TEST(TokenChoice, PositionsFollowTheFedTokens) {
  Rows rows({{0, 1}, {0, 1}, {0, 1}});
  const SamplingParams sampling{.temperature = 1, .seed = 3};
  const Ids chunk = {5, 6, 7}, drafted = {1, 1};
  const StepSequence sequence{.tokens = chunk, .first_position = 10, .sampling = &sampling};
  const TokenChoice choice(rows, sequence, drafted);
  EXPECT_EQ(choice.uniform(0), uniform(sampling.seed, 13));
  EXPECT_EQ(choice.uniform(2), uniform(sampling.seed, 15));
}

TEST(TokenChoice, GreedyWithoutPenaltiesIsTheArgmax) {
  Rows rows({{1, 5, 5}, {9, 2, 3}});
  const SamplingParams greedy{.temperature = 0};
  const Ids fed = {0}, drafted = {1};
  const StepSequence sequence{.tokens = fed, .sampling = &greedy};
  const TokenChoice choice(rows, sequence, drafted);
  EXPECT_EQ(choice.best(0), 1);
  EXPECT_EQ(choice.best(1), 0);
  EXPECT_EQ(choice.choose(1), 0);
}

TEST(TokenChoice, PenaltiesSeeTheDraftsBeforeARowAndNoMore) {
  const std::vector<float> row = {4, 3.5F, 3, 0};
  Rows rows({row, row, row});
  SamplingParams params{.temperature = 0};
  params.presence_penalty = 2;
  const Ids history = {3, 3, 3}, fed = {3}, drafted = {0, 1};
  const StepSequence sequence{.tokens = fed, .sampling = &params, .history = history, .prompt_tokens = 3};
  const TokenChoice choice(rows, sequence, drafted);
  EXPECT_EQ(choice.best(0), 0) << "nothing of the answer is said yet";
  EXPECT_EQ(choice.best(1), 1) << "0 is said by then";
  EXPECT_EQ(choice.best(2), 2) << "0 and 1 are said by then";
  EXPECT_EQ(choice.best(0), 0) << "rows do not remember each other";
  EXPECT_EQ(rows.numbers()[0], 4.0F) << "the pass's logits stay";
}

TEST(TokenChoice, EarlyBansHoldForTheirRowsOnly) {
  const std::vector<float> row = {9, 1, 5};
  Rows rows({row, row, row});
  const SamplingParams greedy{.temperature = 0};
  const SamplingParams sampling{.temperature = 1};
  const Ids fed = {1}, drafted = {2, 2}, ends = {0, -1, 77};
  StepSequence sequence{.tokens = fed, .sampling = &greedy, .forbidden_early = ends, .forbidden_rows = 2};
  const TokenChoice choice(rows, sequence, drafted);
  EXPECT_EQ(choice.best(0), 2);
  EXPECT_EQ(choice.best(1), 2);
  EXPECT_EQ(choice.best(2), 0);
  sequence.sampling = &sampling;
  const TokenChoice drawn(rows, sequence, drafted);
  EXPECT_EQ(drawn.distribution(0).probability(0), 0.0);
  EXPECT_EQ(drawn.distribution(0).ids, (Ids{1, 2}));
  EXPECT_GT(drawn.distribution(2).probability(0), 0.9);
}

TEST(TokenChoice, BansWinOverABiasAndPenaltiesGoOnBehindThem) {
  const std::vector<float> row = {0, 1, 2};
  Rows rows({row, row});
  SamplingParams params{.temperature = 0};
  params.logit_bias = {{0, 100.0F}};
  const Ids fed = {1}, drafted = {2}, ends = {0};
  const StepSequence sequence{.tokens = fed, .sampling = &params, .forbidden_early = ends, .forbidden_rows = 1};
  const TokenChoice choice(rows, sequence, drafted);
  EXPECT_EQ(choice.best(0), 2);
  EXPECT_EQ(choice.best(1), 0);
}

TEST(TokenChoice, EverythingBannedStillGivesAToken) {
  Rows rows({{3, 4}});
  const SamplingParams sampling{.temperature = 1}, greedy{.temperature = 0};
  const Ids fed = {1}, ends = {0, 1};
  StepSequence sequence{.tokens = fed, .sampling = &sampling, .forbidden_early = ends, .forbidden_rows = 1};
  EXPECT_EQ(TokenChoice(rows, sequence, {}).choose(0), 0);
  sequence.sampling = &greedy;
  EXPECT_EQ(TokenChoice(rows, sequence, {}).choose(0), 0);
}

TEST(TokenChoice, DrawsByTheSeedAndThePosition) {
  Rows rows({{1, 0.5F, 0, 0.2F}});
  const Ids fed = {1};
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const SamplingParams params{.temperature = 1.5F, .seed = seed};
    const StepSequence sequence{.tokens = fed, .first_position = 8, .sampling = &params};
    const TokenChoice choice(rows, sequence, {});
    EXPECT_EQ(choice.choose(0), sample(choice.distribution(0), uniform(seed, 9)));
  }
}

TEST(TokenChoiceDeathTest, WhatItRefuses) {
  Rows rows({{1, 2}, {1, 2}});
  const Ids fed = {1}, drafted = {1};
  const SamplingParams greedy{.temperature = 0};
  EXPECT_DEATH(TokenChoice(rows, StepSequence{.tokens = fed}, drafted), "needs sampling parameters");
  const StepSequence sequence{.tokens = fed, .sampling = &greedy};
  EXPECT_DEATH(TokenChoice(rows, sequence, {}), "2 rows, 0 drafts");
}

// Bias, penalties, bans and temperature choose; they do not change what the model says.
TEST(TokenChoice, LogprobsAreOfTheRawRows) {
  const std::vector<std::vector<float>> numbers = {{4, 3, 1}, {0, 2, 1}};
  Rows rows(numbers);
  SamplingParams params{.temperature = 0.5F};
  params.presence_penalty = 2;
  params.logit_bias = {{2, 50.0F}};
  const Ids history = {0, 1}, fed = {1}, drafted = {2}, banned = {0};
  const StepSequence sequence{
      .tokens = fed, .sampling = &params, .history = history, .forbidden_early = banned, .forbidden_rows = 2};
  EXPECT_TRUE(TokenChoice(rows, sequence, drafted).logprobs(Ids{2, 1}).empty()) << "nobody asked";
  params.logprobs = 2;
  const auto list = TokenChoice(rows, sequence, drafted).logprobs(Ids{2, 1});
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0], token_logprobs(numbers[0], 2, 2));
  EXPECT_EQ(list[1], token_logprobs(numbers[1], 1, 2));
  EXPECT_EQ(TokenChoice(rows, sequence, drafted).logprobs(Ids{2}).size(), 1U) << "rows that were not reached";
}

}  // namespace
}  // namespace strobe::engine
