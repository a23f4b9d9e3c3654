#include "engine/plain_stepper.h"

#include <utility>

#include "base/stopwatch.h"
#include "engine/token_choice.h"

namespace strobe::engine {

PlainStepper::PlainStepper(ops::Exec& exec, TargetModel target, int32_t page_size, int32_t max_rows)
    : exec_(exec), pass_(std::move(target), page_size), max_rows_(max_rows) {}

StepResult PlainStepper::run(const StepPlan& plan) {
  StepResult result;
  Stopwatch watch;
  ops::WorkspaceFrame frame(exec_.workspace());
  pass_.clear();
  for (const StepSequence& sequence : plan.sequences) {
    pass_.add(sequence.tokens, sequence.first_position, sequence.pages, sequence.wants_token ? 1 : 0);
  }
  pass_.run(exec_, frame);
  result.times.target_ms = watch.lap_ms();
  int64_t row = 0;
  for (const StepSequence& sequence : plan.sequences) {
    StepOutput& output = result.outputs.emplace_back();
    if (!sequence.wants_token) continue;
    const TokenChoice choice(pass_.logits(row++, 1), sequence, {});
    output.tokens.push_back(choice.choose(0));
    output.logprobs = choice.logprobs(output.tokens);
  }
  result.times.accept_ms = watch.lap_ms();
  return result;
}

}  // namespace strobe::engine
