#include "engine/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "chi_square.h"
#include "kernel/quick_draw.h"

namespace strobe::engine {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const double kAlmostOne = std::nextafter(1.0, 0.0);
using Ids = std::vector<int32_t>;

// ---- adjust_logits ----

std::vector<float> adjusted(std::vector<float> logits, const SamplingParams& params, const Ids& tokens = {},
                            int32_t prompt_tokens = 0, const Ids& drafted = {}) {
  adjust_logits(logits, params, {.tokens = tokens, .prompt_tokens = prompt_tokens, .drafted = drafted});
  return logits;
}

TEST(AdjustLogits, NothingAskedChangesNothing) {
  EXPECT_EQ(adjusted({1.5F, -2.5F}, {}, {0, 1, 1}, 1, {0}), (std::vector<float>{1.5F, -2.5F}));
}

TEST(AdjustLogits, BiasIsAddedAndForeignIdsAreIgnored) {
  SamplingParams params;
  params.logit_bias = {{1, 2.0F}, {1, 0.5F}, {-1, 9.0F}, {3, 9.0F}, {std::numeric_limits<int32_t>::max(), 9.0F}};
  EXPECT_EQ(adjusted({1, 2, 3}, params), (std::vector<float>{1, 4.5F, 3}));
}

TEST(AdjustLogits, RepetitionCountsPromptAnswerAndDrafts) {
  SamplingParams params;
  params.repetition_penalty = 2;
  // 0: in the prompt; 1: in the answer; 2: drafted; 3: nowhere. Once or thrice is the same.
  EXPECT_EQ(adjusted({2, -2, 4, 4}, params, {0, 0, 0, 1}, 3, {2}), (std::vector<float>{1, -4, 2, 4}));
}

TEST(AdjustLogits, PresenceAndFrequencyCountTheAnswerOnly) {
  SamplingParams params;
  params.presence_penalty = 1;
  params.frequency_penalty = 0.5F;
  // 0: prompt only; 1: prompt and once in the answer; 2: twice in the answer and once drafted; 3: drafted twice.
  EXPECT_EQ(adjusted({5, 5, 5, 5}, params, {0, 1, 1, 2, 2}, 2, {2, 3, 3}), (std::vector<float>{5, 3.5F, 2.5F, 3}));
}

TEST(AdjustLogits, BiasComesBeforeTheRepetitionPenaltyAndThatBeforePresence) {
  SamplingParams params;
  params.logit_bias = {{0, 3.0F}};
  params.repetition_penalty = 2;
  params.presence_penalty = 0.25F;
  EXPECT_EQ(adjusted({-1}, params, {0}, 0), (std::vector<float>{0.75F}));  // (-1 + 3) / 2 - 0.25
}

TEST(AdjustLogits, HistoriesMayHoldForeignIdsAndBannedTokensStayBanned) {
  SamplingParams params;
  params.repetition_penalty = 2;
  params.frequency_penalty = 1;
  const auto logits = adjusted({-kInf, 1}, params, {-5, 7, 0}, 0, {2});
  EXPECT_EQ(logits, (std::vector<float>{-kInf, 1}));
}

// ---- make_distribution ----

SamplingParams filters(float temperature, int32_t top_k = 0, float top_p = 1, float min_p = 0) {
  return {.temperature = temperature, .top_p = top_p, .top_k = top_k, .min_p = min_p};
}

std::vector<float> logs(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

void expect_distribution(const Distribution& d, const Ids& ids, const std::vector<double>& probabilities) {
  EXPECT_EQ(d.ids, ids);
  ASSERT_EQ(d.weights.size(), probabilities.size());
  for (size_t i = 0; i < probabilities.size(); ++i) EXPECT_NEAR(d.probability(d.ids[i]), probabilities[i], 1e-6) << i;
}

TEST(MakeDistribution, SoftmaxInTheOrderOfIds) {
  const auto d = make_distribution(logs({0.1, 0.2, 0.3, 0.4}), filters(1));
  expect_distribution(d, {0, 1, 2, 3}, {0.1, 0.2, 0.3, 0.4});
  EXPECT_NEAR(d.probability(2), 0.3, 1e-6);
  EXPECT_EQ(d.probability(4), 0.0);
}

TEST(MakeDistribution, TemperatureFlattensAndSharpens) {
  expect_distribution(make_distribution(logs({0.1, 0.9}), filters(2)), {0, 1}, {0.25, 0.75});
  expect_distribution(make_distribution(logs({0.25, 0.75}), filters(0.5F)), {0, 1}, {0.1, 0.9});
  expect_distribution(make_distribution(std::vector<float>{3, 3.001F, 3.001F}, filters(2e-6F)), {1, 2}, {0.5, 0.5});
  expect_distribution(make_distribution(std::vector<float>{-90, 0, 90}, filters(1e30F)), {0, 1, 2},
                      {1.0 / 3, 1.0 / 3, 1.0 / 3});
}

TEST(MakeDistribution, TopK) {
  const auto logits = logs({0.1, 0.2, 0.3, 0.4});
  expect_distribution(make_distribution(logits, filters(1, 2)), {2, 3}, {3.0 / 7, 4.0 / 7});
  expect_distribution(make_distribution(logits, filters(1, 4)), {0, 1, 2, 3}, {0.1, 0.2, 0.3, 0.4});
  expect_distribution(make_distribution(logits, filters(1, 1000)), {0, 1, 2, 3}, {0.1, 0.2, 0.3, 0.4});
  expect_distribution(make_distribution(logits, filters(1, -1)), {0, 1, 2, 3}, {0.1, 0.2, 0.3, 0.4});
  // Ties at the border: the lower ids stay.
  expect_distribution(make_distribution(std::vector<float>{0, 1, 1, 1, 0}, filters(1, 2)), {1, 2}, {0.5, 0.5});
}

TEST(MakeDistribution, TopPKeepsTheShortestHeadThatReachesIt) {
  const std::vector<float> even(4, 0.0F);  // four quarters, exactly
  const auto kept = [&](float top_p) { return make_distribution(even, filters(1, 0, top_p)).ids; };
  EXPECT_EQ(kept(1e-9F), (Ids{0}));
  EXPECT_EQ(kept(0.25F), (Ids{0}));
  EXPECT_EQ(kept(0.2501F), (Ids{0, 1}));
  EXPECT_EQ(kept(0.5F), (Ids{0, 1}));
  EXPECT_EQ(kept(0.75F), (Ids{0, 1, 2}));
  EXPECT_EQ(kept(std::nextafter(1.0F, 0.0F)), (Ids{0, 1, 2, 3}));
  expect_distribution(make_distribution(logs({0.1, 0.6, 0.3}), filters(1, 0, 0.8F)), {1, 2}, {2.0 / 3, 1.0 / 3});
}

TEST(MakeDistribution, MinPIsRelativeToTheMostLikely) {
  const auto logits = logs({0.5, 0.3, 0.15, 0.05});
  EXPECT_EQ(make_distribution(logits, filters(1, 0, 1, 0.2F)).ids, (Ids{0, 1, 2}));
  EXPECT_EQ(make_distribution(logits, filters(1, 0, 1, 0.5F)).ids, (Ids{0, 1}));
  EXPECT_EQ(make_distribution(logits, filters(1, 0, 1, 0.7F)).ids, (Ids{0}));
  EXPECT_EQ(make_distribution(std::vector<float>(3, 2.0F), filters(1, 0, 1, 0.999F)).ids, (Ids{0, 1, 2}));
}

TEST(MakeDistribution, EachFilterWorksOnWhatTheOneBeforeLeft) {
  const auto logits = logs({0.4, 0.3, 0.2, 0.1});
  EXPECT_EQ(make_distribution(logits, filters(1, 0, 0.5F)).ids, (Ids{0, 1}));
  // Of the two that top-k leaves, the first has 4/7 and reaches 0.5 alone.
  EXPECT_EQ(make_distribution(logits, filters(1, 2, 0.5F)).ids, (Ids{0}));
  // 0.1 is a quarter of 0.4, whatever top-k and top-p left.
  EXPECT_EQ(make_distribution(logits, filters(1, 4, 0.95F, 0.3F)).ids, (Ids{0, 1, 2}));
}

TEST(MakeDistribution, NanAndMinusInfinityHaveNoProbability) {
  const std::vector<float> logits = {kNan, 1, -kInf, 1, kNan};
  for (const auto& params : {filters(1), filters(1, 3), filters(1, 0, 0.9F), filters(1, 0, 1, 0.1F)}) {
    expect_distribution(make_distribution(logits, params), {1, 3}, {0.5, 0.5});
  }
}

TEST(MakeDistribution, WhenNothingIsLeftTheArgmaxHasEverything) {
  for (const auto& params : {filters(1), filters(0.5F, 2, 0.9F, 0.1F)}) {
    expect_distribution(make_distribution(std::vector<float>(3, -kInf), params), {0}, {1});
    expect_distribution(make_distribution(std::vector<float>(3, kNan), params), {0}, {1});
    expect_distribution(make_distribution(std::vector<float>{kNan, -kInf}, params), {0}, {1});
    expect_distribution(make_distribution(std::vector<float>{1, kInf, kNan, kInf}, params), {1}, {1});
  }
}

TEST(MakeDistribution, OneTokenIsCertain) {
  expect_distribution(make_distribution(std::vector<float>{-88}, filters(1, 5, 0.1F, 0.9F)), {0}, {1});
}

// The filters by their definitions, token by token in double; nothing but the definitions is shared with the code.
std::vector<double> by_definition(const std::vector<float>& logits, const SamplingParams& params, bool& near_border) {
  const size_t n = logits.size();
  std::vector<double> p(n);
  const double top = *std::max_element(logits.begin(), logits.end());
  for (size_t i = 0; i < n; ++i) p[i] = std::exp((static_cast<double>(logits[i]) - top) / params.temperature);
  const auto before = [&](size_t a, size_t b) { return p[a] > p[b] || (p[a] == p[b] && a < b); };
  std::vector<bool> kept(n, true);
  const auto sum_kept = [&] {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += kept[i] ? p[i] : 0;
    return sum;
  };
  if (params.top_k > 0) {
    for (size_t i = 0; i < n; ++i) {
      int32_t ahead = 0;
      for (size_t j = 0; j < n; ++j) ahead += before(j, i) ? 1 : 0;
      kept[i] = ahead < params.top_k;
    }
  }
  if (params.top_p < 1) {
    const double sum = sum_kept();
    std::vector<bool> next = kept;
    for (size_t i = 0; i < n; ++i) {
      double ahead = 0;  // share of the kept ones before it
      for (size_t j = 0; j < n; ++j) ahead += kept[j] && before(j, i) ? p[j] / sum : 0;
      next[i] = kept[i] && ahead < params.top_p;
      near_border |= kept[i] && std::fabs(ahead - params.top_p) < 1e-5;
    }
    kept = next;
  }
  for (size_t i = 0; i < n; ++i) {
    near_border |= params.min_p > 0 && std::fabs(p[i] - params.min_p) < 1e-5;
    kept[i] = kept[i] && p[i] >= params.min_p;  // the best has p = 1 here
  }
  const double sum = sum_kept();
  for (size_t i = 0; i < n; ++i) p[i] = kept[i] ? p[i] / sum : 0;
  return p;
}

TEST(MakeDistribution, AgreesWithTheDefinitions) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 2);
  std::uniform_real_distribution<float> uniform01(0.01F, 0.99F);
  int compared = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<float> logits(1 + random() % 60);
    for (float& logit : logits) logit = random() % 8 == 0 ? 1.0F : normal(random);  // with ties
    SamplingParams params = filters(0.2F + 3 * uniform01(random));
    if (random() % 2 == 0) params.top_k = 2 + static_cast<int32_t>(random() % 30);
    if (random() % 2 == 0) params.top_p = uniform01(random);
    if (random() % 2 == 0) params.min_p = uniform01(random) * 0.3F;
    bool near_border = false;
    const auto expected = by_definition(logits, params, near_border);
    if (near_border) continue;
    const auto d = make_distribution(logits, params);
    for (size_t i = 0; i < logits.size(); ++i) {
      EXPECT_NEAR(d.probability(static_cast<int32_t>(i)), expected[i], 2e-6) << "round " << round << ", token " << i;
    }
    for (size_t i = 1; i < d.ids.size(); ++i) EXPECT_LT(d.ids[i - 1], d.ids[i]);
    ++compared;
  }
  EXPECT_GT(compared, 350);
}

TEST(MakeDistributionDeathTest, GreedyParametersHaveNoDistribution) {
  const std::vector<float> logits = {1, 2};
  EXPECT_DEATH(static_cast<void>(make_distribution(logits, filters(0))), "temperature = 0");
  EXPECT_DEATH(static_cast<void>(make_distribution(logits, filters(1, 1))), "top_k = 1");
}

// ---- sample ----

TEST(Sample, TheCumulativeDistributionDecides) {
  const Distribution d{{3, 7, 9}, {1, 2, 1}};
  EXPECT_EQ(sample(d, 0), 3);
  EXPECT_EQ(sample(d, std::nextafter(0.25, 0.0)), 3);
  EXPECT_EQ(sample(d, 0.25), 7);
  EXPECT_EQ(sample(d, std::nextafter(0.75, 0.0)), 7);
  EXPECT_EQ(sample(d, 0.75), 9);
  EXPECT_EQ(sample(d, kAlmostOne), 9);
}

TEST(Sample, TheLeastWeightIsDrawnAtItsVeryEnd) {
  const Distribution d{{4, 5}, {uint64_t{1} << 52, 1}};
  EXPECT_EQ(sample(d, std::nextafter(kAlmostOne, 0.0)), 4);
  EXPECT_EQ(sample(d, kAlmostOne), 5);
}

// ---- the law in whole numbers ----

TEST(DrawWeight, IsTheExponentialInUnits) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> logits(-30, 0), temperatures(0.1F, 3);
  for (int i = 0; i < 100000; ++i) {
    const float logit = logits(random), temperature = temperatures(random);
    const double exact = std::exp(static_cast<double>((0 - logit) / temperature) * -1) * 0x1p42;
    const auto weight = static_cast<double>(kernel::draw_weight(logit, 0, temperature));
    EXPECT_LE(std::fabs(weight - exact), 1 + exact * 0x1p-38) << logit << " / " << temperature;
  }
}

TEST(DrawWeight, NeverFallsWithTheLogitAndHasItsEnds) {
  EXPECT_EQ(kernel::draw_weight(-3, -3, 0.7F), kernel::kLargestDrawWeight);
  EXPECT_EQ(kernel::draw_weight(-kInf, 5, 1), 0U);
  EXPECT_EQ(kernel::draw_weight(kNan, 5, 1), 0U);
  EXPECT_EQ(kernel::draw_weight(-3e38F, 3e38F, 1e-6F), 0U);
  EXPECT_GT(kernel::draw_weight(-29, 0, 1), 0U);
  EXPECT_EQ(kernel::draw_weight(-29.2F, 0, 1), 0U);
  uint64_t last = 0;
  for (float logit = -29.5F; logit <= 0; logit += 1e-4F) {
    const uint64_t weight = kernel::draw_weight(logit, 0, 1);
    EXPECT_GE(weight, last) << logit;
    last = weight;
  }
  float next = -0.6932F;  // neighbours around 2^-1, where the power of two changes
  for (int i = 0; i < 5000; ++i) {
    const float logit = next;
    next = std::nextafter(logit, 0.0F);
    EXPECT_LE(kernel::draw_weight(logit, 0, 1), kernel::draw_weight(next, 0, 1)) << logit;
  }
}

// The share of the logits that floating point leaves to the law.
double share_left_by_quick_draw(float largest, float temperature, const std::vector<float>& logits) {
  constexpr kernel::QuickTerms kTerms;
  const kernel::QuickDraw quick(largest, temperature);
  int left = 0;
  for (const float logit : logits) {
    uint64_t weight = 0;
    if (!quick.weight(logit, kTerms, weight)) {
      ++left;
      continue;
    }
    EXPECT_EQ(weight, kernel::draw_weight(logit, largest, temperature))
        << largest << ", " << logit << ", " << temperature;
  }
  return left / static_cast<double>(logits.size());
}

TEST(QuickDraw, IsTheLaw) {
  std::mt19937 random(12);
  std::uniform_real_distribution<float> even(0, 1);
  for (const float temperature : {1.0F, 0.1F, 0.7F, 1.3F, 0.99999994F, 3.0F, 1e-6F, 2e-9F, 1e9F}) {
    for (const float largest : {0.0F, -7.25F, 31.7F}) {
      std::vector<float> logits;
      for (int i = 0; i < 20000; ++i) logits.push_back(largest - temperature * 44 * even(random));
      const double left = share_left_by_quick_draw(largest, temperature, logits);
      // A colder one leaves few steps between the largest logit and the last that has a weight.
      if (temperature > 0.01F) {
        EXPECT_LT(left, 0.001) << temperature;
      }
      logits.clear();
      for (int i = 0; i < 20000; ++i) {
        // Near whole powers of two, where a weight changes its exponent, and near the largest.
        const auto edge = static_cast<float>(largest - temperature * std::floor(43 * even(random)) * std::log(2.0));
        const float near = largest - temperature * std::exp2(-40 * even(random));
        for (const float logit : {std::nextafter(edge, -kInf), edge, std::nextafter(edge, kInf), near}) {
          if (logit <= largest) logits.push_back(logit);
        }
      }
      for (const float logit : {largest, -kInf, kNan, -3e38F}) logits.push_back(logit);
      share_left_by_quick_draw(largest, temperature, logits);
    }
  }
}

TEST(QuickDraw, LeavesToTheLawWhatItCannotDivide) {
  for (const float temperature : {1e-10F, 1e-40F, 3e38F}) {
    EXPECT_EQ(share_left_by_quick_draw(2, temperature, {2, 1.5F, -kInf, kNan}), 1);
  }
}

TEST(Argmax, TiesNanAndNothing) {
  EXPECT_EQ(argmax(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(argmax(std::vector<float>{kNan, -5, kNan, -4}), 3);
  EXPECT_EQ(argmax(std::vector<float>{kNan, kNan}), 0);
  EXPECT_EQ(argmax(std::vector<float>{-kInf, -kInf}), 0);
  EXPECT_EQ(argmax(std::vector<float>{-1, kInf, kInf}), 1);
  EXPECT_EQ(argmax(std::vector<float>{-kInf, -1e38F}), 1);
}

// ---- uniform ----

TEST(Uniform, IsInRangeAndDependsOnItsArgumentsAlone) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    for (const int64_t position : {int64_t{0}, int64_t{1}, int64_t{1} << 40}) {
      const double u = uniform(seed * 0x123456789abcdefULL, position);
      EXPECT_GE(u, 0.0);
      EXPECT_LT(u, 1.0);
      EXPECT_EQ(u, uniform(seed * 0x123456789abcdefULL, position));
    }
  }
}

TEST(Uniform, SeedsAndPositionsGiveDifferentNumbers) {
  std::set<double> seen;
  int drawn = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (int64_t position = 0; position < 200; ++position) {
      seen.insert(uniform(seed, position));
      ++drawn;
    }
  }
  EXPECT_EQ(static_cast<int>(seen.size()), drawn);  // 4,000 of 2^53: a clash would be a one in 10^9 chance
}

constexpr int kBins = 100;
constexpr int kDraws = 100000;

double uniformity(const std::function<double(int)>& draw) {
  std::vector<int64_t> counts(kBins);
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(draw(i) * kBins)];
  return chi_square_p(counts, std::vector<double>(kBins, 1.0 / kBins));
}

TEST(Uniform, FillsTheRangeEvenly) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    EXPECT_GT(uniformity([&](int i) { return uniform(seed, i); }), 1e-3) << "positions of seed " << seed;
  }
  EXPECT_GT(uniformity([](int i) { return uniform(static_cast<uint64_t>(i), 17); }), 1e-3) << "seeds";
}

// Pairs that a text uses together must not know of each other: 10 x 10 squares filled evenly.
double independence(const std::function<std::pair<double, double>(int)>& draw) {
  std::vector<int64_t> counts(kBins);
  for (int i = 0; i < kDraws; ++i) {
    const auto [a, b] = draw(i);
    ++counts[static_cast<size_t>(a * 10) * 10 + static_cast<size_t>(b * 10)];
  }
  return chi_square_p(counts, std::vector<double>(kBins, 1.0 / kBins));
}

TEST(Uniform, NeighborsAndSeedsAreIndependent) {
  EXPECT_GT(independence([](int i) { return std::pair(uniform(5, i), uniform(5, i + 1)); }), 1e-3);
  EXPECT_GT(independence([](int i) {
              const auto seed = static_cast<uint64_t>(i);
              return std::pair(uniform(seed, 9), uniform(seed + 1, 9));
            }),
            1e-3);
  EXPECT_LT(independence([](int i) {
              const double u = uniform(5, i);
              return std::pair(u, u);
            }),
            1e-6)
      << "the test must see dependence";
}

}  // namespace
}  // namespace strobe::engine
