#include "spec/acceptance.h"

#include <algorithm>

namespace strobe::spec {

std::vector<int32_t> accept(const engine::TokenChoice& choice, std::span<const int32_t> drafted) {
  std::vector<int32_t> tokens;
  for (const int32_t draft : drafted) {
    tokens.push_back(choice.choose(static_cast<int64_t>(tokens.size())));
    if (tokens.back() != draft) return tokens;
  }
  tokens.push_back(choice.choose(static_cast<int64_t>(tokens.size())));
  return tokens;
}

engine::StepOutput choose_tokens(const engine::StepSequence& sequence, const engine::RowLogits& rows,
                                 std::span<const int32_t> drafted, AcceptRule rule) {
  const engine::TokenChoice choice(rows, sequence, drafted);
  engine::StepOutput output;
  output.tokens = rule(choice, drafted);
  output.logprobs = choice.logprobs(output.tokens);
  output.drafted = static_cast<int32_t>(drafted.size());
  output.accepted = static_cast<int32_t>(output.tokens.size()) - 1;
  return output;
}

engine::StepOutput accept_drawn(std::span<const int32_t> drawn, std::span<const int32_t> drafted) {
  engine::StepOutput output;
  output.drafted = static_cast<int32_t>(drafted.size());
  const auto [draw, draft] = std::mismatch(drawn.begin(), drawn.end() - 1, drafted.begin());
  output.accepted = static_cast<int32_t>(draw - drawn.begin());
  output.tokens.assign(drawn.begin(), draw + 1);
  return output;
}

}  // namespace strobe::spec
