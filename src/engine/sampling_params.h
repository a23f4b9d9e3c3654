// SamplingParams: how the next token is chosen from logits. The same meaning for every request dialect, plain or under
// DFlash.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace strobe::engine {

struct SamplingParams {
  float temperature = 1.0F;  // below 1e-6: greedy
  float top_p = 1.0F;        // (0, 1]
  int32_t top_k = 0;         // 0 = all; 1 = greedy
  float min_p = 0.0F;        // [0, 1): drops tokens below min_p times the most likely one
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  float repetition_penalty = 1.0F;                    // (0, 2]
  std::vector<std::pair<int32_t, float>> logit_bias;  // (token, added to its logit)
  uint64_t seed = 0;  // of this request's own random stream; the caller draws one when the user gave none
  // Given: log probabilities of each emitted token are wanted, and those of so many most likely ones at its place.
  std::optional<int32_t> logprobs;

  [[nodiscard]] bool greedy() const { return temperature < 1e-6F || top_k == 1; }
  // Whether a token's logits depend on more than the model: then the argmax of raw logits is not the answer.
  [[nodiscard]] bool changes_logits() const {
    return presence_penalty != 0 || frequency_penalty != 0 || repetition_penalty != 1 || !logit_bias.empty();
  }
};

}  // namespace strobe::engine
