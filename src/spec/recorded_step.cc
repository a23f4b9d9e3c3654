#include "spec/recorded_step.h"

#include <algorithm>

#include "base/check.h"
#include "base/mix.h"
#include "base/stopwatch.h"
#include "cache/page_pool.h"
#include "engine/token_choice.h"
#include "spec/acceptance.h"
#include "spec/draft_window.h"

namespace strobe::spec {
namespace {

// What sets the recordings of one layout apart.
enum Part : uint64_t { kWholeStep = 1, kDraftAndVerify, kCommit };

}  // namespace

RecordedStep::RecordedStep(ops::Exec& exec, const engine::TargetModel& target, const model::DflashDraft& draft,
                           const cache::KvStore& draft_store, const DflashOptions& options)
    : exec_(exec),
      target_(target),
      draft_(draft),
      draft_store_(draft_store),
      options_(options),
      rows_(exec, options.block_tokens, options.page_size) {}

engine::StepResult RecordedStep::run(const engine::StepPlan& plan) {
  engine::StepResult result;
  Stopwatch watch;
  place(plan);
  ops::WorkspaceFrame frame(exec_.workspace());
  const Outcome outcome = make_outcome(frame);
  engine::TargetOutputs outputs = engine::make_outputs(exec_, frame, target_, rows_.rows(), rows_.rows());
  outputs.best = outcome.best;
  if (std::none_of(plan.sequences.begin(), plan.sequences.end(), engine::needs_logits)) {
    exec_.run_recorded(mix(rows_.tag(), kWholeStep), [&] {
      draft_and_verify(outcome, outputs);
      ops::accept_greedy(exec_, rows_.blocks(), rows_.filled_ids(), outcome.best, rows_.batch().slots, outcome.accepted,
                         outcome.committed);
      commit(outcome, outputs);
    });
    take_best(plan, outcome, result);
    result.times.target_ms = watch.lap_ms();
    return result;
  }
  exec_.run_recorded(mix(rows_.tag(), kDraftAndVerify), [&] { draft_and_verify(outcome, outputs); });
  words_.fetch(exec_, outputs.logits, outcome.best, true);
  result.times.target_ms = watch.lap_ms();
  choose_on_host(plan, outcome, result);
  result.times.accept_ms = watch.lap_ms();
  exec_.run_recorded(mix(rows_.tag(), kCommit), [&] { commit(outcome, outputs); });
  exec_.kernels().wait();
  result.times.commit_ms = watch.lap_ms();
  return result;
}

RecordedStep::Outcome RecordedStep::make_outcome(ops::WorkspaceFrame& frame) const {
  const int64_t rows = rows_.rows(), sequences = rows_.sequences();
  Outcome outcome;
  outcome.all = frame.tensor(DType::kI32, {3 * rows + sequences});
  outcome.drafted = outcome.all.slice(0, 0, rows);
  outcome.best = outcome.all.slice(0, rows, 2 * rows);
  outcome.accepted = outcome.all.slice(0, 2 * rows, 2 * rows + sequences);
  outcome.committed = outcome.all.slice(0, 2 * rows + sequences, 3 * rows + sequences);
  return outcome;
}

void RecordedStep::place(const engine::StepPlan& plan) {
  first_visible_.clear();
  for (const engine::StepSequence& sequence : plan.sequences) {
    first_visible_.push_back(
        first_visible_position(sequence.first_position, options_.window_tokens, options_.page_size));
  }
  rows_.place(plan, draft_.mask_token(), first_visible_);
}

void RecordedStep::draft_and_verify(const Outcome& outcome, const engine::TargetOutputs& outputs) {
  draft_.draft(exec_, rows_.ids(), rows_.batch(), draft_store_, outcome.drafted);
  ops::fill_drafts(exec_, rows_.blocks(), outcome.drafted, rows_.filled_ids());
  engine::run_target(exec_, target_, rows_.filled_ids(), rows_.batch(), std::nullopt, outputs);
}

void RecordedStep::commit(const Outcome& outcome, const engine::TargetOutputs& outputs) {
  draft_.write_context(exec_, outputs.features, rows_.batch().positions, outcome.committed, draft_store_);
}

void RecordedStep::take_best(const engine::StepPlan& plan, const Outcome& outcome, engine::StepResult& result) {
  const int64_t rows = rows_.rows();
  const Tensor heard = ops::to_host(exec_, outcome.all.slice(0, 0, 2 * rows + rows_.sequences()), transfer_);
  const int32_t* drafted = heard.as<int32_t>();
  const int32_t* best = drafted + rows;
  const int32_t* accepted = best + rows;
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const auto first = static_cast<int64_t>(i) * options_.block_tokens;
    engine::StepOutput& output = result.outputs.emplace_back();
    output.drafted = plan.sequences[i].block_tokens - 1;
    output.accepted = accepted[i];
    output.tokens.assign(drafted + first + 1, drafted + first + 1 + accepted[i]);
    output.tokens.push_back(best[first + accepted[i]]);
  }
}

void RecordedStep::choose_on_host(const engine::StepPlan& plan, const Outcome& outcome, engine::StepResult& result) {
  const int64_t rows = rows_.rows();
  const auto* drafted = ops::to_host(exec_, outcome.drafted, transfer_).as<int32_t>();
  committed_.assign(static_cast<size_t>(rows), -1);
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const engine::StepSequence& sequence = plan.sequences[i];
    const auto first = static_cast<int64_t>(i) * options_.block_tokens;
    const int32_t tokens = sequence.block_tokens;
    result.outputs.push_back(choose_tokens(sequence, words_.rows(first, tokens),
                                           {drafted + first + 1, static_cast<size_t>(tokens - 1)}, options_.rule));
    for (int32_t r = 0; r <= result.outputs.back().accepted; ++r) {
      committed_[static_cast<size_t>(first + r)] =
          cache::slot_of(sequence.pages, sequence.first_position + r, options_.page_size);
    }
  }
  exec_.memory().upload(outcome.committed.data(), committed_.data(), rows * static_cast<int64_t>(sizeof(int32_t)));
}

}  // namespace strobe::spec
