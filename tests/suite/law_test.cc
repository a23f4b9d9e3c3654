// The law at temperature 1: the first three tokens of many runs with DFlash are distributed as those of plain decoding,
// under every field that changes a distribution; a wrong rule in the same system is seen.
// (tests/spec/acceptance_test.cc holds the rule itself to the exact law, and knows more wrong ones.)
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "../engine/chi_square.h"
#include "system.h"

namespace strobe::suite {
namespace {

// Each run draws from a stream of its own. The nightly count sees deviations of a tenth of a likely start, the quick
// one of a third.
constexpr int kQuickRuns = 2000;
constexpr int kNightlyRuns = 20000;
constexpr size_t kTokens = 3;
using Start = std::array<int32_t, kTokens>;
using Counts = std::map<Start, std::array<int64_t, 2>>;  // plain, DFlash

struct Law {
  const char* name;
  engine::SamplingParams sampling;
};

schedule::GenerateRequest sampled(const std::vector<int32_t>& prompt, const engine::SamplingParams& sampling,
                                  uint64_t seed) {
  schedule::GenerateRequest request{.prompt_ids = prompt, .sampling = sampling};
  request.sampling.seed = seed;
  request.stop.max_new_tokens = kTokens;
  request.stop.ignore_eos = true;
  return request;
}

void count(RunningSystem& system, const Law& law, int runs, int place, Counts& counts) {
  // A beginning of the kind that the draft knows, and which leaves much open: its guesses are likely but far from sure.
  // Where it guesses nothing likely, no rule can be told from another.
  const auto prompt = system.text_ids("There are 15 red and");
  std::vector<schedule::GenerateRequest> requests;
  for (int i = 0; i < runs; ++i) {
    requests.push_back(sampled(prompt, law.sampling, static_cast<uint64_t>(2 * i + place)));
  }
  for (const Answer& answer : system.run(std::move(requests))) {
    ASSERT_EQ(answer.ids.size(), kTokens) << answer.finish.message;
    ++counts[{answer.ids[0], answer.ids[1], answer.ids[2]}][static_cast<size_t>(place)];
  }
}

// The p-value of "both columns have one law": Pearson's test of homogeneity for samples of equal size.
double same_law_p(const Counts& counts) {
  double statistic = 0;
  int cells = 0;
  std::array<double, 2> rare{};
  const auto add = [&](double a, double b) {
    statistic += (a - b) * (a - b) / (a + b);
    ++cells;
  };
  for (const auto& [start, pair] : counts) {
    const auto a = static_cast<double>(pair[0]), b = static_cast<double>(pair[1]);
    if (a + b >= 10) {
      add(a, b);
    } else {
      rare[0] += a;
      rare[1] += b;
    }
  }
  if (rare[0] + rare[1] >= 10) add(rare[0], rare[1]);
  EXPECT_GE(cells, 4) << "nothing to compare";
  return chi_square_tail(statistic, cells - 1);
}

// The p-value of "plain decoding and DFlash with this rule have one law".
double compare(const Law& law, int runs, spec::AcceptRule rule = spec::accept) {
  Counts counts;
  for (const bool dflash : {false, true}) {
    tool::EngineOptions options = pocket_options(dflash);
    options.max_running_requests = 64;
    options.max_queued_requests = runs;
    options.page_size = 4;  // almost all of the prompt is read once
    options.max_total_tokens = 16384;
    RunningSystem system(options, false, dflash ? rule : spec::accept);
    count(system, law, runs, dflash ? 1 : 0, counts);
  }
  const double p = same_law_p(counts);
  std::printf("%zu different starts, p = %.3g\n", counts.size(), p);
  return p;
}

// One of a thousand honest runs would be below; seeds are fixed, so a run that passes passes always.
constexpr double kLeastP = 1e-3;

engine::SamplingParams with(auto change) {
  engine::SamplingParams sampling;
  sampling.temperature = 1;
  change(sampling);
  return sampling;
}

const auto kLaws =
    testing::Values(Law{"all", with([](auto&) {})}, Law{"top_k", with([](auto& s) { s.top_k = 5; })},
                    Law{"top_p", with([](auto& s) { s.top_p = 0.8F; })},
                    Law{"min_p", with([](auto& s) { s.min_p = 0.1F; })}, Law{"penalties", with([](auto& s) {
                                                                               s.repetition_penalty = 1.1F;
                                                                               s.presence_penalty = 0.2F;
                                                                               s.frequency_penalty = 0.3F;
                                                                             })},
                    Law{"logit_bias", with([](auto& s) {
                          for (int32_t token = 0; token < 4000; token += 10) {
                            s.logit_bias.emplace_back(token, static_cast<float>(token % 7) - 3);
                          }
                        })});
const auto kLawName = [](const testing::TestParamInfo<Law>& law) { return std::string(law.param.name); };

class SameLaw : public testing::TestWithParam<Law> {};
TEST_P(SameLaw, DflashAndPlain) {
  EXPECT_GT(compare(GetParam(), kQuickRuns), kLeastP);
}
INSTANTIATE_TEST_SUITE_P(Fields, SameLaw, kLaws, kLawName);

class NightlyLaw : public testing::TestWithParam<Law> {};
TEST_P(NightlyLaw, DflashAndPlain) {
  EXPECT_GT(compare(GetParam(), kNightlyRuns), kLeastP);
}
INSTANTIATE_TEST_SUITE_P(Fields, NightlyLaw, kLaws, kLawName);

// The usual mistake: a refused draft may be drawn again. Its two coins are the first and the last bits of one number.
std::vector<int32_t> forgetful_rule(const engine::TokenChoice& choice, std::span<const int32_t> drafted) {
  std::vector<int32_t> tokens;
  for (const int32_t draft : drafted) {
    const auto row = static_cast<int64_t>(tokens.size());
    const engine::Distribution p = choice.distribution(row);
    const double coin = choice.uniform(row);
    const bool stands = coin < p.probability(draft);
    tokens.push_back(stands ? draft : engine::sample(p, std::fmod(coin * 0x1p24, 1)));
    if (!stands) return tokens;
  }
  tokens.push_back(choice.choose(static_cast<int64_t>(tokens.size())));
  return tokens;
}

class WrongLaw : public testing::TestWithParam<Law> {};
TEST_P(WrongLaw, IsSeen) {
  EXPECT_LT(compare(GetParam(), kQuickRuns, forgetful_rule), kLeastP);
}
INSTANTIATE_TEST_SUITE_P(Fields, WrongLaw, kLaws, kLawName);

TEST(LawTest, SeesALawThatIsSlightlyOff) {
  // Two dice, one of which falls on 1 a seventh more often.
  Counts counts;
  for (int32_t i = 0; i < 6; ++i)
    counts[{i, 0, 0}] = {kNightlyRuns / 6, kNightlyRuns / 6 + (i == 0 ? kNightlyRuns / 42 : -kNightlyRuns / 210)};
  EXPECT_LT(same_law_p(counts), kLeastP);
}

}  // namespace
}  // namespace strobe::suite
