// DraftAccount: whether drafting pays a request, by what its drafted steps were worth so far.
//
// It is kept in plain steps. A step with a draft costs as much as so many of them, and is worth as many as tokens came
// out of it; what it gave beyond its cost is gained, what was missing is lost. While the account is overdrawn the
// request takes plain steps, and each puts a little back, so that drafting is tried again: after a longer time where a
// try costs more. So drafting loses a request at most one wholly refused block, the last one begun, and a share of
// kTryShare of its plain steps; and a text that takes a turn the draft knows is drafted from its next try on.
//
// It knows nothing but its request's own steps: neither times nor other requests.
#pragma once

#include <algorithm>
#include <cstdint>

namespace strobe::schedule {

class DraftAccount {
 public:
  // Plain steps that tries may cost for each plain step.
  static constexpr double kTryShare = 1.0 / 48;
  // No more than this many drafted steps' cost is saved up: a text that was easy for long may turn.
  static constexpr double kMostSteps = 2;

  // step_cost: of a step with a draft, in plain steps; 0: drafting always pays. A request begins with one such step's
  // cost, for the first block of an answer often says little about the rest.
  explicit DraftAccount(double step_cost) : step_cost_(step_cost), balance_(step_cost) {}

  [[nodiscard]] bool pays() const { return step_cost_ == 0 || balance_ >= 0; }
  // After a step with a draft that gave so many tokens, the target's own included.
  void drafted(int32_t tokens) { balance_ = std::min(balance_ + tokens - step_cost_, kMostSteps * step_cost_); }
  // After a plain step that was taken because drafting does not pay.
  void held_back() { balance_ += kTryShare; }

 private:
  double step_cost_;
  double balance_;
};

}  // namespace strobe::schedule
