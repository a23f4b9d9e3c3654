// DflashStepper: draft -> verify -> accept -> commit, batched over sequences with different lengths and accept counts.
//
// 1. Draft: for each sequence that speculates, the block [last token, MASK x (B - 1)] through the draft in one pass.
// 2. Verify: one pass of the target over [last token, d1 .. d(B-1)] of these, the single rows of plain sequences, and
// the prompt
//    chunks of new ones; features are captured for all rows.
// 3. Accept: the drafts that the target agrees with, and one token of its own (acceptance.h).
// 4. Commit: the draft's context keys and values of every committed row, from the features: accepted rows, plain rows
// and
//    prompt chunks alike, so the draft's context never has a hole. Rejected rows keep stale contents in both caches and
//    are overwritten by the next step.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/kv_store.h"
#include "engine/row_draws.h"
#include "engine/stage_clock.h"
#include "engine/step.h"
#include "engine/target_pass.h"
#include "model/dflash_draft.h"
#include "ops/exec.h"
#include "spec/dflash_options.h"
#include "spec/recorded_step.h"

namespace strobe::spec {

class DflashStepper : public engine::Stepper {
 public:
  // Borrows the draft and its store. target.capture_layers are the draft's features.
  DflashStepper(ops::Exec& exec, engine::TargetModel target, const model::DflashDraft& draft,
                const cache::KvStore& draft_store, const DflashOptions& options);

  DflashStepper(const DflashStepper&) = delete;
  DflashStepper& operator=(const DflashStepper&) = delete;

  [[nodiscard]] int32_t max_block_tokens() const override { return options_.block_tokens; }
  [[nodiscard]] int32_t max_rows() const override { return options_.max_rows; }
  engine::StepResult run(const engine::StepPlan& plan) override;

 private:
  void draft_blocks(const engine::StepPlan& plan);
  void verify(const engine::StepPlan& plan, ops::WorkspaceFrame& frame);
  void accept_tokens(const engine::StepPlan& plan, engine::StepResult& result);
  void commit_context(const engine::StepPlan& plan, const engine::StepResult& result);
  // Of a timed step: what the device says of it.
  void tell_device_times(engine::StepTimes& times);
  // The drafted tokens of sequence i (none when it does not speculate).
  [[nodiscard]] std::span<const int32_t> drafted(size_t i) const;

  ops::Exec& exec_;
  engine::TargetPass pass_;
  const model::DflashDraft& draft_;
  const cache::KvStore& draft_store_;
  DflashOptions options_;
  RecordedStep recorded_;
  RecordedStep recorded_plain_;  // of steps in which nobody has a block

  // Of the step in hand.
  engine::RowList blocks_;
  std::vector<int32_t> first_visible_;    // per block
  std::vector<int32_t> block_tokens_;     // [block rows]: what the draft said
  std::vector<int32_t> block_begin_;      // [sequences + 1]: rows of block_tokens_
  std::vector<int32_t> fed_;              // a sequence's rows, being put together
  std::vector<int32_t> committed_slots_;  // [rows of the pass], -1 = rejected
  engine::RowDraws draws_;
  bool drawn_ = false;  // the words are drawn tokens
  engine::HostRows words_;
  engine::StageClock clock_;
  std::vector<std::byte> transfer_;
};

}  // namespace strobe::spec
