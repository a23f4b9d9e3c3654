#include "spec/acceptance.h"

#include <algorithm>

namespace strobe::spec {
namespace {

std::vector<int32_t> accept_greedy(const engine::TokenChoice& choice, std::span<const int32_t> drafted) {
  std::vector<int32_t> tokens;
  for (const int32_t draft : drafted) {
    tokens.push_back(choice.best(static_cast<int64_t>(tokens.size())));
    if (tokens.back() != draft) return tokens;
  }
  tokens.push_back(choice.best(static_cast<int64_t>(tokens.size())));
  return tokens;
}

std::vector<int32_t> accept_sampled(const engine::TokenChoice& choice, uint64_t seed,
                                    std::span<const int32_t> drafted) {
  std::vector<int32_t> tokens;
  for (const int32_t draft : drafted) {
    const auto t = static_cast<int64_t>(tokens.size());
    const engine::Distribution p = choice.distribution(t);
    const int64_t position = choice.position(t);
    if (engine::stands(p, draft, engine::uniform(seed, position, engine::RandomUse::kAccept))) {
      tokens.push_back(draft);
      continue;
    }
    tokens.push_back(engine::sample_without(p, draft, engine::uniform(seed, position, engine::RandomUse::kResample)));
    return tokens;
  }
  tokens.push_back(choice.choose(static_cast<int64_t>(tokens.size())));
  return tokens;
}

}  // namespace

std::vector<int32_t> accept(const engine::TokenChoice& choice, const engine::SamplingParams& sampling,
                            std::span<const int32_t> drafted) {
  return sampling.greedy() ? accept_greedy(choice, drafted) : accept_sampled(choice, sampling.seed, drafted);
}

engine::StepOutput choose_tokens(const engine::StepSequence& sequence, const engine::RowLogits& rows,
                                 std::span<const int32_t> drafted, AcceptRule rule) {
  const engine::TokenChoice choice(rows, sequence, drafted);
  engine::StepOutput output;
  output.tokens = rule(choice, *sequence.sampling, drafted);
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
