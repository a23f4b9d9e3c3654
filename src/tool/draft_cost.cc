#include "tool/draft_cost.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/stopwatch.h"

namespace strobe::tool {
namespace {

constexpr int32_t kContextTokens = 32;
// The best of so many; fewer when they take long.
constexpr int kSteps = 6;
constexpr double kLongMs = 200;

}  // namespace

StepCosts measure_step_costs(System& system) {
  engine::Stepper& stepper = *system.stepper;
  const int32_t block = stepper.max_block_tokens();
  const int64_t room = std::min(system.context_tokens, system.memory.pages * system.options.page_size);
  const auto context = static_cast<int32_t>(std::min<int64_t>({kContextTokens, room - block, stepper.max_rows()}));
  if (context < 1) return {};
  std::vector<int32_t> pages(static_cast<size_t>(system.pages->pages_for(context + block)));
  std::iota(pages.begin(), pages.end(), 1);  // page 0 takes padding
  // Tokens from all over the vocabulary, so that experts get what texts give them.
  std::vector<int32_t> text(static_cast<size_t>(context) + 1);
  constexpr int64_t kStride = 7919;
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<int32_t>(static_cast<int64_t>(i) * kStride % system.config.vocab_size);
  }
  const std::span<const int32_t> tokens = text;
  engine::StepPlan reading;
  reading.sequences.push_back({.tokens = tokens.first(static_cast<size_t>(context)), .pages = pages});
  stepper.run(reading);
  const engine::SamplingParams greedy{.temperature = 0};
  const auto step_ms = [&](int32_t block_tokens) {
    engine::StepPlan plan;
    plan.sequences.push_back({.tokens = tokens.last(1),
                              .first_position = context,
                              .pages = pages,
                              .wants_token = true,
                              .block_tokens = block_tokens,
                              .sampling = &greedy});
    Stopwatch watch;
    stepper.run(plan);
    return watch.lap_ms();
  };
  step_ms(block);  // the first of each gets memory, and is recorded where steps are
  step_ms(1);
  StepCosts best{step_ms(block), step_ms(1)};
  double spent_ms = best.drafted_ms + best.plain_ms;
  for (int i = 1; i < kSteps && spent_ms < kLongMs; ++i) {
    const StepCosts again{step_ms(block), step_ms(1)};
    spent_ms += again.drafted_ms + again.plain_ms;
    best = {std::min(best.drafted_ms, again.drafted_ms), std::min(best.plain_ms, again.plain_ms)};
  }
  return best;
}

}  // namespace strobe::tool
