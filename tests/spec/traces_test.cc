// Greedy DFlash against whole texts of the independent implementation (tests/golden/README.md, traces.json): the same
// tokens, and as many of them in each verify step.
//
// Two right implementations may part where the model itself is nearly undecided, and from then on the texts are
// different texts. So each trace is compared up to the first difference, and there the oracle's own gap (its best minus
// second-best logit) must be small. A draft may differ in the same way: then the step accepts more or fewer, and the
// lengths are compared no further.
//   reference kernels  f32 throughout, as the oracle; only e4m3 roundings of the cache can fall otherwise (README:
//                      up to 0.13 in a logit)
//   fast kernels       products read bf16, so logits differ by rounding, and a row whose routing is close goes to
//                      another expert (README: up to 1.4 in a logit, so 2.8 between two)
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "conversation.h"

namespace strobe::spec {
namespace {

struct Comparison {
  std::string name;
  size_t same_tokens = 0;
  size_t tokens = 0;
  float token_gap = 0;  // the oracle's where the texts part
  size_t same_steps = 0;
  size_t steps = 0;
  float draft_gap = 0;  // the draft's where the lengths part
  bool lengths_part = false;

  [[nodiscard]] bool whole() const { return same_tokens == tokens; }
};

Comparison compare(Pocket& pocket, const nlohmann::json& trace, DType draft_kv, size_t most_tokens) {
  const Ids prompt = trace.at("prompt_ids"), expected = trace.at("output_ids");
  Comparison c;
  c.name = trace.at("name");
  c.tokens = std::min(expected.size(), most_tokens);
  Ids pages;
  for (int32_t i = 0; i < 8; ++i) pages.push_back((i * 7 + 5) % (Pocket::kPages - 1) + 1);
  Stage stage(pocket, DType::kE4m3, draft_kv);
  Speaker s(prompt, pages);
  Speaker* const one[] = {&s};
  auto stepper = stage.dflash(8);
  step(stepper, one, {});
  const auto& steps = trace.at("steps");
  c.steps = steps.size();
  for (;;) {
    const Ids answer = s.answer(s.said());
    while (c.same_tokens < std::min(c.tokens, answer.size()) && answer[c.same_tokens] == expected[c.same_tokens]) {
      ++c.same_tokens;
    }
    if (c.same_tokens < std::min(c.tokens, answer.size())) {
      c.token_gap = trace.at("gaps").at(c.same_tokens);
      break;
    }
    if (!s.accepted.empty() && !c.lengths_part) {
      const int32_t theirs = steps.at(c.same_steps).at("accepted"), ours = s.accepted.back();
      if (theirs == ours) {
        ++c.same_steps;
      } else {
        c.lengths_part = true;
        // All drafts before the shorter one's end are the target's own tokens in both.
        c.draft_gap = steps.at(c.same_steps).at("draft_gaps").at(static_cast<size_t>(std::min(theirs, ours)));
      }
    }
    if (c.same_tokens == c.tokens) break;
    step(stepper, one, {.block_tokens = 8});
  }
  return c;
}

void expect_near_ties_only(const Comparison& c, float token_gap, float draft_gap) {
  if (!c.whole()) {
    EXPECT_LT(c.token_gap, token_gap) << c.name << ", token " << c.same_tokens;
  }
  if (c.lengths_part) {
    EXPECT_LT(c.draft_gap, draft_gap) << c.name << ", step " << c.same_steps;
  }
}

void print(const std::vector<Comparison>& all) {
  for (const Comparison& c : all) {
    std::printf("%-15s %3zu of %3zu tokens%s, %3zu of %3zu steps%s\n", c.name.c_str(), c.same_tokens, c.tokens,
                c.whole() ? "" : fmt::format(" (gap {:.3f})", c.token_gap).c_str(), c.same_steps, c.steps,
                c.lengths_part ? fmt::format(" (gap {:.3f})", c.draft_gap).c_str() : "");
  }
}

TEST(Traces, ReferenceKernels) {
  Pocket& pocket = lone_pocket(*model::platforms_here().front());
  std::vector<Comparison> all;
  for (const auto& trace : traces()) {
    const std::string name = trace.at("name");
    if (name == "wordproblem_04" || name == "wordproblem_09" || name == "prose_3" || name == "prose_5") {
      all.push_back(compare(pocket, trace, DType::kF32, 56));
    }
  }
  print(all);
  for (const Comparison& c : all) expect_near_ties_only(c, 0.2F, 0.2F);
}

TEST(Traces, BestKernels) {
  const model::Platform& platform = *model::platforms_here().back();
  Pocket& pocket = lone_pocket(platform);
  std::vector<Comparison> all;
  for (const auto& trace : traces()) all.push_back(compare(pocket, trace, plain_kv(platform), 1000));
  print(all);
  int whole = 0;
  for (const Comparison& c : all) {
    expect_near_ties_only(c, 2.8F, 2.8F);
    whole += c.whole() && c.same_steps == c.steps ? 1 : 0;
  }
  // The word problems, whose smallest gaps are about 1, come out whole; the prose, with many near-ties, does not.
  EXPECT_GE(whole, 17) << "of " << all.size();
}

}  // namespace
}  // namespace strobe::spec
