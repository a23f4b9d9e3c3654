// PlainStepper: one token a decode step, no draft.
#pragma once

#include "engine/step.h"
#include "engine/target_pass.h"
#include "ops/exec.h"

namespace strobe::engine {

class PlainStepper : public Stepper {
 public:
  PlainStepper(ops::Exec& exec, TargetModel target, int32_t page_size, int32_t max_rows);

  [[nodiscard]] int32_t max_block_tokens() const override { return 1; }
  [[nodiscard]] int32_t max_rows() const override { return max_rows_; }
  StepResult run(const StepPlan& plan) override;

 private:
  ops::Exec& exec_;
  TargetPass pass_;
  int32_t max_rows_;
};

}  // namespace strobe::engine
