#include "engine/plain_stepper.h"

#include <algorithm>
#include <utility>

#include "base/mix.h"
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
  const ChoiceWork work = choice_work(plan, pass_.target().recipe->vocab);
  const bool recorded = recorded_ && only_decodes(plan);
  // On the host only rows that are reached are drawn from; a device draws from all at once.
  const bool drawn = work == ChoiceWork::kDraw && (recorded || !exec_.on_host());
  const TargetOutputs outputs = recorded ? run_recorded(plan, frame, drawn) : run_rows(plan, frame, drawn);
  words_.fetch(exec_, outputs.logits, outputs.best, !drawn && work != ChoiceWork::kBest);
  result.times.target_ms = watch.lap_ms();
  if (clock_.on()) clock_.tell({.target = clock_.span(Mark::kTarget, Mark::kTargetEnd)}, result.times);
  int64_t row = 0;
  for (const StepSequence& sequence : plan.sequences) {
    StepOutput& output = result.outputs.emplace_back();
    if (!sequence.wants_token) continue;
    const RowLogits said = words_.rows(row++, 1);
    const TokenChoice choice(said, sequence, {});
    output.tokens.push_back(drawn ? said.argmax[0] : choice.choose(0));
    output.logprobs = choice.logprobs(output.tokens);
  }
  result.times.accept_ms = watch.lap_ms();
  return result;
}

TargetOutputs PlainStepper::run_rows(const StepPlan& plan, ops::WorkspaceFrame& frame, bool draws) {
  pass_.clear();
  for (const StepSequence& sequence : plan.sequences) {
    pass_.add(sequence.tokens, sequence.first_position, sequence.pages, sequence.wants_token ? 1 : 0);
  }
  clock_.mark(Mark::kTarget);
  pass_.run(exec_, frame);
  if (draws) {
    draws_.clear();
    for (const StepSequence& sequence : plan.sequences) {
      if (sequence.wants_token) draws_.add(sequence, 0);
    }
    draws_.run(exec_, frame, pass_.outputs().logits, pass_.outputs().best);
  }
  clock_.mark(Mark::kTargetEnd);
  return pass_.outputs();
}

TargetOutputs PlainStepper::run_recorded(const StepPlan& plan, ops::WorkspaceFrame& frame, bool draws) {
  blocks_.place(plan, 0);
  const TargetOutputs outputs = make_outputs(exec_, frame, pass_.target(), blocks_.rows(), blocks_.rows());
  exec_.run_recorded(clock_.tag(mix(blocks_.tag(), draws ? 1 : 0)), [&] {
    clock_.mark(Mark::kTarget);
    run_target(exec_, pass_.target(), blocks_.ids(), blocks_.batch(), std::nullopt, outputs);
    if (draws) blocks_.draw(outputs.logits, outputs.best);
    clock_.mark(Mark::kTargetEnd);
  });
  return outputs;
}

}  // namespace strobe::engine
