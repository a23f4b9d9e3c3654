// Log probabilities of emitted tokens, for clients that ask.
//
// They are the target's own word: log-softmax of a row's logits as the model gave them, before logit bias, penalties,
// early bans, temperature and filters. So they do not depend on how a token was chosen, and row j of a verify pass
// gives the bytes that plain decoding gives at that place.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace strobe::engine {

struct TokenLogprobs {
  float logprob = 0;                           // of the emitted token
  std::vector<std::pair<int32_t, float>> top;  // the most likely tokens at its place, best first, ties by id

  friend bool operator==(const TokenLogprobs&, const TokenLogprobs&) = default;
};

// logits: of one row. `top`: how many of the most likely tokens; fewer come back when there are not so many. A logit
// that is NaN counts as -inf, and is never among the most likely.
[[nodiscard]] TokenLogprobs token_logprobs(std::span<const float> logits, int32_t token, int32_t top);

}  // namespace strobe::engine
