#include "tool/draft_cost.h"

#include <algorithm>
#include <vector>

#include "base/stopwatch.h"

namespace strobe::tool {
namespace {

// Behind so many tokens a step is measured; attention over them is a part of its cost. Only the first ones are read,
// once: their pages stand for the others, too.
constexpr int32_t kContextTokens = 256;
constexpr int32_t kReadTokens = 32;
// The best of so many, of one request or of several; fewer when they take long.
constexpr int kSteps = 6;
constexpr int kStepsTogether = 2;
constexpr double kLongMs = 200;

// Tokens from all over the vocabulary, so that experts get what texts give them.
std::vector<int32_t> some_tokens(int32_t count, int64_t vocab) {
  constexpr int64_t kStride = 7919;
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i * kStride % vocab));
  return tokens;
}

// A context of whole pages of which the first ones are read and stand for the others, or of less than one that is read;
// then a block of each request, in pages of its own. Page 0 takes padding.
struct Context {
  int32_t tokens = 0;
  int32_t read_tokens = 0;
  std::vector<std::vector<int32_t>> pages;  // of each request
  int32_t last_page = 0;
};

Context make_context(const cache::PagePool& pool, int32_t room, int32_t block, int32_t requests) {
  const int32_t page = pool.page_size(), whole = room / page;
  const int32_t read_pages = std::min(whole, pool.pages_for(kReadTokens));
  Context context{.tokens = whole * page, .read_tokens = read_pages * page};
  if (whole == 0) context.tokens = context.read_tokens = std::min(room, kReadTokens);
  context.last_page = read_pages;
  const int32_t all = pool.pages_for(context.tokens + block);
  for (int32_t r = 0; r < requests; ++r) {
    std::vector<int32_t>& pages = context.pages.emplace_back();
    for (int32_t i = 0; i < whole; ++i) pages.push_back(1 + i % read_pages);
    for (int32_t i = whole; i < all; ++i) pages.push_back(++context.last_page);
  }
  return context;
}

}  // namespace

void read_text(engine::Stepper& stepper, std::span<const int32_t> text, std::span<const int32_t> pages, int32_t most) {
  for (size_t at = 0; at < text.size(); at += static_cast<size_t>(most)) {
    engine::StepPlan plan;
    plan.sequences.push_back({.tokens = text.subspan(at, std::min(static_cast<size_t>(most), text.size() - at)),
                              .first_position = static_cast<int32_t>(at),
                              .pages = pages});
    stepper.run(plan);
  }
}

StepCosts measure_step_costs(System& system, int32_t requests) {
  engine::Stepper& stepper = *system.stepper;
  const int32_t block = stepper.max_block_tokens();
  const auto room = static_cast<int32_t>(std::min<int64_t>(kContextTokens, system.context_tokens - block));
  if (room < 1) return {};
  const Context context = make_context(*system.pages, room, block, requests);
  if (context.last_page > system.pages->capacity_pages()) return {};
  const std::vector<int32_t> text = some_tokens(context.read_tokens + 1, system.config.vocab_size);
  const std::span<const int32_t> tokens = text;
  for (const std::vector<int32_t>& pages : context.pages) {  // what is not in whole pages is each one's own
    read_text(stepper, tokens.first(static_cast<size_t>(context.read_tokens)), pages, stepper.max_rows());
    if (context.tokens > context.read_tokens) break;
  }
  const engine::SamplingParams greedy{.temperature = 0};
  const auto step_ms = [&](int32_t block_tokens) {
    engine::StepPlan plan;
    for (const std::vector<int32_t>& pages : context.pages) {
      plan.sequences.push_back({.tokens = tokens.last(1),
                                .first_position = context.tokens,
                                .pages = pages,
                                .wants_token = true,
                                .block_tokens = block_tokens,
                                .sampling = &greedy});
    }
    Stopwatch watch;
    stepper.run(plan);
    return watch.lap_ms();
  };
  step_ms(block);  // the first of each gets memory, and is recorded where steps are
  step_ms(1);
  StepCosts best{step_ms(block), step_ms(1)};
  double spent_ms = best.drafted_ms + best.plain_ms;
  for (int i = 1; i < (requests == 1 ? kSteps : kStepsTogether) && spent_ms < kLongMs; ++i) {
    const StepCosts again{step_ms(block), step_ms(1)};
    spent_ms += again.drafted_ms + again.plain_ms;
    best = {std::min(best.drafted_ms, again.drafted_ms), std::min(best.plain_ms, again.plain_ms)};
  }
  return best;
}

double believed_cost(const StepCosts& costs, int32_t block_tokens) {
  return std::min(costs.ratio(), static_cast<double>(block_tokens));
}

}  // namespace strobe::tool
