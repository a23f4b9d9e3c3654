// From logits to a token: pure functions on the host, the same for plain decoding and for DFlash's verify rows, and the
// same, token for token, as a device draws (kernel::DrawTokens).
//
// Order: logit bias and penalties on the raw logits; then temperature; then top-k, top-p and min-p on the
// probabilities, each on what the one before left.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling_params.h"
#include "kernel/args.h"
#include "kernel/draw_law.h"

namespace strobe::engine {

// What has been said before the token that is to be chosen.
struct TokenHistory {
  std::span<const int32_t> tokens;   // prompt and emitted tokens
  int32_t prompt_tokens = 0;         // how many of them are the prompt's
  std::span<const int32_t> drafted;  // the block's own earlier tokens, emitted if this row is reached at all
};

// In place: adds logit biases; repetition penalty (on prompt and answer: a positive logit is divided, a negative one
// multiplied); presence and frequency penalties (on the answer only, as OpenAI defines them).
void adjust_logits(std::span<float> logits, const SamplingParams& params, const TokenHistory& history);

// What a token is drawn from: weights in whole numbers (kernel/draw_law.h) of the tokens that the filters keep, in the
// order of their ids. Tokens not listed are never drawn.
struct Distribution {
  std::vector<int32_t> ids;
  std::vector<uint64_t> weights;

  [[nodiscard]] uint64_t sum() const;
  [[nodiscard]] uint64_t weight(int32_t id) const;
  // weight / sum
  [[nodiscard]] double probability(int32_t id) const;
};

// Bias and penalties apart, which are not its business: what DrawTokens is asked. Temperature 0 when greedy.
[[nodiscard]] kernel::DrawParams draw_params(const SamplingParams& params);

// params must not be greedy. Logits that are -inf or NaN have no probability. When none is left, or one is +inf, the
// argmax has all of it.
[[nodiscard]] Distribution make_distribution(std::span<const float> logits, const SamplingParams& params);

// The token at `uniform` in [0, 1) of the cumulative distribution.
[[nodiscard]] int32_t sample(const Distribution& distribution, double uniform);

// The largest logit's id, ties to the lowest; NaN never wins.
[[nodiscard]] int32_t argmax(std::span<const float> logits);

// Uniform in [0, 1), a pure function of its arguments: kernel::random_bits.
[[nodiscard]] double uniform(uint64_t seed, int64_t position);

}  // namespace strobe::engine
