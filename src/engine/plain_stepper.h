// PlainStepper: one token a decode step, no draft.
#pragma once

#include <vector>

#include "engine/block_rows.h"
#include "engine/row_draws.h"
#include "engine/stage_clock.h"
#include "engine/step.h"
#include "engine/target_pass.h"
#include "ops/exec.h"

namespace strobe::engine {

class PlainStepper : public Stepper {
 public:
  // recorded: steps that only decode run in the layout of BlockRows and are recorded.
  PlainStepper(ops::Exec& exec, TargetModel target, int32_t page_size, int32_t max_rows, bool recorded = false);

  [[nodiscard]] int32_t max_block_tokens() const override { return 1; }
  [[nodiscard]] int32_t max_rows() const override { return max_rows_; }
  StepResult run(const StepPlan& plan) override;

 private:
  // Both yield what the target says for each sequence that wants a token, in their order; `draws`: the best tokens
  // become the drawn ones.
  TargetOutputs run_rows(const StepPlan& plan, ops::WorkspaceFrame& frame, bool draws);
  TargetOutputs run_recorded(const StepPlan& plan, ops::WorkspaceFrame& frame, bool draws);

  ops::Exec& exec_;
  TargetPass pass_;
  int32_t max_rows_;
  bool recorded_;
  BlockRows blocks_;
  RowDraws draws_;
  HostRows words_;
  StageClock clock_;
};

}  // namespace strobe::engine
