#include "engine/plain_stepper.h"

#include <algorithm>
#include <utility>

#include "base/stopwatch.h"
#include "engine/token_choice.h"

namespace strobe::engine {

PlainStepper::PlainStepper(ops::Exec& exec, TargetModel target, int32_t page_size, int32_t max_rows, bool recorded)
    : exec_(exec),
      pass_(std::move(target), page_size),
      max_rows_(max_rows),
      recorded_(recorded),
      blocks_(exec, 1, page_size),
      clock_(exec) {}

StepResult PlainStepper::run(const StepPlan& plan) {
  StepResult result;
  Stopwatch watch;
  clock_.start(plan.timed);
  ops::WorkspaceFrame frame(exec_.workspace());
  const TargetOutputs outputs = recorded_ && only_decodes(plan) ? run_recorded(plan, frame) : run_rows(plan, frame);
  words_.fetch(exec_, outputs.logits, outputs.best,
               std::any_of(plan.sequences.begin(), plan.sequences.end(), needs_logits));
  result.times.target_ms = watch.lap_ms();
  if (clock_.on()) clock_.tell({.target = clock_.span(Mark::kTarget, Mark::kTargetEnd)}, result.times);
  int64_t row = 0;
  for (const StepSequence& sequence : plan.sequences) {
    StepOutput& output = result.outputs.emplace_back();
    if (!sequence.wants_token) continue;
    const TokenChoice choice(words_.rows(row++, 1), sequence, {});
    output.tokens.push_back(choice.choose(0));
    output.logprobs = choice.logprobs(output.tokens);
  }
  result.times.accept_ms = watch.lap_ms();
  return result;
}

TargetOutputs PlainStepper::run_rows(const StepPlan& plan, ops::WorkspaceFrame& frame) {
  pass_.clear();
  for (const StepSequence& sequence : plan.sequences) {
    pass_.add(sequence.tokens, sequence.first_position, sequence.pages, sequence.wants_token ? 1 : 0);
  }
  clock_.mark(Mark::kTarget);
  pass_.run(exec_, frame);
  clock_.mark(Mark::kTargetEnd);
  return pass_.outputs();
}

TargetOutputs PlainStepper::run_recorded(const StepPlan& plan, ops::WorkspaceFrame& frame) {
  blocks_.place(plan, 0);
  const TargetOutputs outputs = make_outputs(exec_, frame, pass_.target(), blocks_.rows(), blocks_.rows());
  exec_.run_recorded(clock_.tag(blocks_.tag()), [&] {
    clock_.mark(Mark::kTarget);
    run_target(exec_, pass_.target(), blocks_.ids(), blocks_.batch(), std::nullopt, outputs);
    clock_.mark(Mark::kTargetEnd);
  });
  return outputs;
}

}  // namespace strobe::engine
