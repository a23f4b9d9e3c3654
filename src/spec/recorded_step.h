// RecordedStep: draft, verify, accept and commit of a step that only decodes, for devices that record (CUDA graphs).
// Rows lie as engine::BlockRows lays them; draft and verify share them. When every sequence takes the best tokens or
// draws from plain logits, the whole step is one recording and the host only hears the outcome; else the host chooses
// between two recordings. What comes out is what DflashStepper's other path yields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/stopwatch.h"
#include "cache/kv_store.h"
#include "engine/block_rows.h"
#include "engine/stage_clock.h"
#include "engine/target_pass.h"
#include "model/dflash_draft.h"
#include "spec/dflash_options.h"

namespace strobe::spec {

class RecordedStep {
 public:
  // Borrows all but the options. Blocks of 1 token: of steps without a draft.
  RecordedStep(ops::Exec& exec, const engine::TargetModel& target, const model::DflashDraft& draft,
               const cache::KvStore& draft_store, const DflashOptions& options);

  // engine::only_decodes(plan).
  engine::StepResult run(const engine::StepPlan& plan);

 private:
  // What the host hears of a step, in one piece of device memory.
  struct Outcome {
    Tensor all;        // i32
    Tensor drafted;    // [rows]
    Tensor best;       // [rows]; of sequences that draw: the drawn tokens
    Tensor accepted;   // [sequences]
    Tensor committed;  // [rows]
  };
  Outcome make_outcome(ops::WorkspaceFrame& frame) const;
  void place(const engine::StepPlan& plan);
  void run_whole(const engine::StepPlan& plan, bool draws, const Outcome& outcome, const engine::TargetOutputs& outputs,
                 Stopwatch& watch, engine::StepResult& result);
  void run_halves(const engine::StepPlan& plan, const Outcome& outcome, const engine::TargetOutputs& outputs,
                  Stopwatch& watch, engine::StepResult& result);
  void draft_and_verify(const Outcome& outcome, const engine::TargetOutputs& outputs);
  [[nodiscard]] engine::StageSpan draft_span() const;  // of a timed step
  void commit(const Outcome& outcome, const engine::TargetOutputs& outputs);
  void take_outcome(const engine::StepPlan& plan, const Outcome& outcome, engine::StepResult& result);
  void choose_on_host(const engine::StepPlan& plan, const Outcome& outcome, engine::StepResult& result);

  ops::Exec& exec_;
  const engine::TargetModel& target_;
  const model::DflashDraft& draft_;
  const cache::KvStore& draft_store_;
  DflashOptions options_;
  engine::BlockRows rows_;
  engine::HostRows words_;
  engine::StageClock clock_;
  std::vector<int32_t> first_visible_;
  std::vector<int32_t> committed_;
  std::vector<std::byte> transfer_;
};

}  // namespace strobe::spec
