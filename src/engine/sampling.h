// From logits to a token: pure functions on the host, the same for plain decoding and for DFlash's verify rows.
//
// Order: logit bias and penalties on the raw logits; then temperature; then top-k, top-p and min-p on the
// probabilities, each on what the one before left, renormalised at the end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling_params.h"

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

// A token's probability of being chosen; tokens not listed have none. In the order of their ids when no filter (top-k,
// top-p, min-p) is on; else in descending order of probability, ties by id.
struct Distribution {
  std::vector<int32_t> ids;
  std::vector<float> probabilities;  // sum 1

  [[nodiscard]] double probability(int32_t id) const;
};

// params must not be greedy. Logits that are -inf or NaN have no probability. When none is left, or one is +inf, the
// argmax has all of it.
[[nodiscard]] Distribution make_distribution(std::span<const float> logits, const SamplingParams& params);

// The token at `uniform` in [0, 1) of the cumulative distribution.
[[nodiscard]] int32_t sample(const Distribution& distribution, double uniform);
// The same from the distribution without one token, renormalised. When that token had everything, it is returned.
[[nodiscard]] int32_t sample_without(const Distribution& distribution, int32_t excluded, double uniform);

// The largest logit's id, ties to the lowest; NaN never wins.
[[nodiscard]] int32_t argmax(std::span<const float> logits);

// What a random number is for. Each use at each position has its own, so that a request's text depends on its seed
// alone.
enum class RandomUse : uint64_t { kSample = 1, kAccept = 2, kResample = 3 };

// Uniform in [0, 1), a pure function of its arguments (SplitMix64 of the three).
[[nodiscard]] double uniform(uint64_t seed, int64_t position, RandomUse use);

}  // namespace strobe::engine
