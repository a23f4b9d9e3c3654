#include "engine/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace strobe::engine {
namespace {

using Top = std::vector<std::pair<int32_t, float>>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float log_of(double p) {
  return static_cast<float>(std::log(p));
}

TEST(TokenLogprobs, IsTheLogOfSoftmax) {
  // exp of these: 1, 2, 4, 1: a sum of 8.
  const std::vector<float> logits = {0, std::log(2.0F), std::log(4.0F), 0};
  const TokenLogprobs two = token_logprobs(logits, 1, 3);
  EXPECT_FLOAT_EQ(two.logprob, log_of(2.0 / 8));
  ASSERT_EQ(two.top.size(), 3U);
  EXPECT_EQ(two.top[0].first, 2);
  EXPECT_FLOAT_EQ(two.top[0].second, log_of(4.0 / 8));
  EXPECT_EQ(two.top[1], std::make_pair(1, two.logprob));
  EXPECT_EQ(two.top[2].first, 0) << "of equals the lower id";
  EXPECT_FLOAT_EQ(two.top[2].second, log_of(1.0 / 8));
  EXPECT_TRUE(token_logprobs(logits, 0, 0).top.empty());
  EXPECT_FLOAT_EQ(token_logprobs(logits, 0, 0).logprob, log_of(1.0 / 8));
}

TEST(TokenLogprobs, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {30000, 29999, -30000};
  EXPECT_FLOAT_EQ(token_logprobs(logits, 0, 0).logprob, log_of(1 / (1 + std::exp(-1.0))));
  EXPECT_FLOAT_EQ(token_logprobs(logits, 2, 0).logprob, -60000 + token_logprobs(logits, 0, 0).logprob);
}

TEST(TokenLogprobs, TheMostLikelyAreOrderedAndNoMoreThanThereAre) {
  std::vector<float> logits(100);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 37 % 50);  // each value twice
  const Top top = token_logprobs(logits, 0, 100).top;
  ASSERT_EQ(top.size(), 100U);
  for (size_t i = 1; i < top.size(); ++i) {
    const float before = logits[static_cast<size_t>(top[i - 1].first)],
                here = logits[static_cast<size_t>(top[i].first)];
    EXPECT_TRUE(before > here || (before == here && top[i - 1].first < top[i].first)) << i;
  }
  const Top head = token_logprobs(logits, 0, 7).top;
  EXPECT_EQ(head, Top(top.begin(), top.begin() + 7));
  EXPECT_EQ(token_logprobs(logits, 0, 1000).top, top);
}

TEST(TokenLogprobs, WhatIsNoNumberHasNoProbability) {
  const std::vector<float> logits = {kNan, 1, -kInf, 1, kNan};
  EXPECT_EQ(token_logprobs(logits, 0, 0).logprob, -kInf);
  EXPECT_EQ(token_logprobs(logits, 2, 0).logprob, -kInf);
  EXPECT_FLOAT_EQ(token_logprobs(logits, 3, 0).logprob, log_of(0.5));
  const Top top = token_logprobs(logits, 1, 5).top;
  ASSERT_EQ(top.size(), 3U);
  EXPECT_EQ(top[0].first, 1);
  EXPECT_EQ(top[1].first, 3);
  EXPECT_EQ(top[2], std::make_pair(2, -kInf));
}

TEST(TokenLogprobs, AnInfiniteLogitHasEverything) {
  const std::vector<float> logits = {3, kInf, 4};
  EXPECT_EQ(token_logprobs(logits, 1, 0).logprob, 0);
  EXPECT_EQ(token_logprobs(logits, 2, 0).logprob, -kInf);
  const std::vector<float> nothing = {kNan, kNan};
  EXPECT_EQ(token_logprobs(nothing, 1, 2), (TokenLogprobs{.logprob = -kInf}));
}

}  // namespace
}  // namespace strobe::engine
