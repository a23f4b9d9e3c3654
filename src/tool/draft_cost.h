// What a step with a draft costs in plain steps: so many tokens must come out of it to pay. Measured once at start, for
// it depends on model, kernels and machine alike: 1.5 where weights are read from memory once for all rows of a block,
// over 5 where a core must multiply each row by itself.
#pragma once

#include <span>

#include "tool/assembly.h"

namespace strobe::tool {

// Reads a text from position 0 on, up to `most` tokens a step.
void read_text(engine::Stepper& stepper, std::span<const int32_t> text, std::span<const int32_t> pages, int32_t most);

struct StepCosts {
  double drafted_ms = 0;  // a block of each request: draft, verify, accept, commit
  double plain_ms = 0;    // one row of each
  [[nodiscard]] double ratio() const { return plain_ms > 0 ? drafted_ms / plain_ms : 0; }
};

// Of so many requests that decode together, in a system with a draft whose pages nobody uses yet; it leaves some of
// them written. The ratio is 0 where the context holds no block, or there are too few pages.
[[nodiscard]] StepCosts measure_step_costs(System& system, int32_t requests = 1);

// Pure: what DraftAccount is told. Never more than a block of so many tokens can give: its rows cost at most what as
// many plain steps do, and more than that was measured only where other programs took the processors, which a plain
// step of fewer threads' work hardly feels. A server that starts in such a moment must not go without drafts for good.
[[nodiscard]] double believed_cost(const StepCosts& costs, int32_t block_tokens);

}  // namespace strobe::tool
