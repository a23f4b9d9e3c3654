// TokenChoice: what the target says at the rows of one sequence, under its sampling parameters. Rows are asked for in
// order, and only as far as they are reached.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/row_logits.h"
#include "engine/sampling.h"
#include "engine/step.h"

namespace strobe::engine {

// What it takes to choose a sequence's tokens, the least first.
enum class ChoiceWork {
  kBest,  // the most likely token of each row
  kDraw,  // drawing from logits as they are (kernel::DrawTokens)
  kHost,  // TokenChoice: penalties, biases, banned tokens, log probabilities
};
[[nodiscard]] ChoiceWork choice_work(const StepSequence& sequence);
// The most of what it takes for any sequence of a plan. A vocabulary too large for kDraw makes it kHost.
[[nodiscard]] ChoiceWork choice_work(const StepPlan& plan, int64_t vocab);

class TokenChoice {
 public:
  // `drafted`: the block's tokens after the fed one. `rows`: one more than these; row t follows drafted[0..t). Borrows
  // all.
  TokenChoice(const RowLogits& rows, const StepSequence& sequence, std::span<const int32_t> drafted);

  // Greedy requests: the one token that may follow at row t, given drafted[0..t).
  [[nodiscard]] int32_t best(int64_t t) const;
  // Sampling requests: the distribution of the token at row t, given drafted[0..t).
  [[nodiscard]] Distribution distribution(int64_t t) const;
  // Uniform in [0, 1): what the token of row t is drawn by, keyed by the request's seed and the token's position.
  [[nodiscard]] double uniform(int64_t t) const;
  // The token of row t: best, or drawn.
  [[nodiscard]] int32_t choose(int64_t t) const;
  // Of the tokens chosen at rows 0, 1, ...; none when the sampling parameters do not ask.
  [[nodiscard]] std::vector<TokenLogprobs> logprobs(std::span<const int32_t> chosen) const;

 private:
  // Row t's logits with bias, penalties and early bans, in scratch_.
  [[nodiscard]] std::span<const float> adjusted(int64_t t) const;

  RowLogits rows_;
  const StepSequence& sequence_;
  std::span<const int32_t> drafted_;
  mutable std::vector<float> scratch_;
};

}  // namespace strobe::engine
