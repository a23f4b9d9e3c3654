// DraftAccount: whether drafting pays a request, by what its drafted steps were worth so far.
//
// It is kept in plain steps. A step with a draft costs as much as so many of them, and is worth as many as tokens came
// out of it; what it gave beyond its cost is gained, what was missing is lost. While the account is overdrawn the
// request takes plain steps, and each puts a little back, so that drafting is tried again: after a longer time where a
// try costs more. So drafting loses a request at most one wholly refused block, the last one begun, and a share of
// kTryShare of its plain steps; and a text that takes a turn the draft knows is drafted from its next try on.
//
// It knows nothing but its request's own steps and what these cost: no times, and of other requests only how many there
// were.
#pragma once

#include <algorithm>
#include <cstdint>

namespace strobe::schedule {

// What a step with a draft costs in plain steps of as many requests; 0: nothing, drafting always pays. The rows of
// requests that decode together share the reading of weights, so the fewer there are, the less do a block's rows cost.
struct DraftCost {
  double alone = 0;     // of one request
  double together = 0;  // of each of `requests` that decode together
  int32_t requests = 1;

  DraftCost(double any_number = 0) : alone(any_number), together(any_number) {}
  DraftCost(double of_one, double of_each, int32_t of_requests)
      : alone(of_one), together(of_each), requests(of_requests) {}
  // In a step of so many requests: between the two in a straight line.
  [[nodiscard]] double of(int32_t count) const {
    if (requests <= 1 || count <= 1) return alone;
    return alone + (together - alone) * (std::min(count, requests) - 1) / (requests - 1);
  }
};

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
  void drafted(int32_t tokens) { drafted(tokens, step_cost_); }
  // The same of a step that cost so much.
  void drafted(int32_t tokens, double cost) { balance_ = std::min(balance_ + tokens - cost, kMostSteps * cost); }
  // After a plain step that was taken because drafting does not pay.
  void held_back() { balance_ += kTryShare; }

 private:
  double step_cost_;
  double balance_;
};

}  // namespace strobe::schedule
