#include "spec/recorded_step.h"

#include <algorithm>

#include "base/check.h"
#include "base/mix.h"
#include "cache/page_pool.h"
#include "engine/token_choice.h"
#include "spec/acceptance.h"
#include "spec/draft_window.h"

namespace strobe::spec {

using engine::Mark;

namespace {

// What sets the recordings of one layout apart.
enum Part : uint64_t { kBestStep = 1, kDrawnStep, kDraftAndVerify, kCommit };

}  // namespace

RecordedStep::RecordedStep(ops::Exec& exec, const engine::TargetModel& target, const model::DflashDraft& draft,
                           const cache::KvStore& draft_store, const DflashOptions& options)
    : exec_(exec),
      target_(target),
      draft_(draft),
      draft_store_(draft_store),
      options_(options),
      rows_(exec, options.block_tokens, options.page_size),
      clock_(exec) {}

engine::StepResult RecordedStep::run(const engine::StepPlan& plan) {
  engine::StepResult result;
  clock_.start(plan.timed);
  Stopwatch watch;
  place(plan);
  ops::WorkspaceFrame frame(exec_.workspace());
  const Outcome outcome = make_outcome(frame);
  engine::TargetOutputs outputs = engine::make_outputs(exec_, frame, target_, rows_.rows(), rows_.rows());
  outputs.best = outcome.best;
  const auto work = engine::choice_work(plan, target_.recipe->vocab);
  const bool draws = work == engine::ChoiceWork::kDraw && options_.rule == AcceptRule{accept};
  if (draws || work == engine::ChoiceWork::kBest) {
    run_whole(plan, draws, outcome, outputs, watch, result);
  } else {
    run_halves(plan, outcome, outputs, watch, result);
  }
  return result;
}

void RecordedStep::run_whole(const engine::StepPlan& plan, bool draws, const Outcome& outcome,
                             const engine::TargetOutputs& outputs, Stopwatch& watch, engine::StepResult& result) {
  exec_.run_recorded(clock_.tag(mix(rows_.tag(), draws ? kDrawnStep : kBestStep)), [&] {
    draft_and_verify(outcome, outputs);
    clock_.mark(Mark::kAccept);
    if (draws) rows_.draw(outputs.logits, outcome.best);
    ops::accept_greedy(exec_, rows_.blocks(), rows_.filled_ids(), outcome.best, rows_.batch().slots, outcome.accepted,
                       outcome.committed);
    clock_.mark(Mark::kCommit);
    commit(outcome, outputs);
    clock_.mark(Mark::kCommitEnd);
  });
  take_outcome(plan, outcome, result);
  engine::StepTimes& times = result.times;
  times.recorded_ms = watch.lap_ms();
  if (!clock_.on()) return;
  const engine::StageSpans spans{.draft = draft_span(),
                                 .target = clock_.span(Mark::kTarget, Mark::kAccept),
                                 .accept = clock_.span(Mark::kAccept, Mark::kCommit),
                                 .commit = clock_.span(Mark::kCommit, Mark::kCommitEnd)};
  times.draft_ms = spans.draft.ms;
  times.target_ms = spans.target.ms;
  times.accept_ms = spans.accept.ms;
  times.commit_ms = spans.commit.ms;
  clock_.tell(spans, times);
}

void RecordedStep::run_halves(const engine::StepPlan& plan, const Outcome& outcome,
                              const engine::TargetOutputs& outputs, Stopwatch& watch, engine::StepResult& result) {
  engine::StepTimes& times = result.times;
  exec_.run_recorded(clock_.tag(mix(rows_.tag(), kDraftAndVerify)), [&] {
    draft_and_verify(outcome, outputs);
    clock_.mark(Mark::kTargetEnd);
  });
  words_.fetch(exec_, outputs.logits, outcome.best, true);
  times.target_ms = watch.lap_ms();
  choose_on_host(plan, outcome, result);
  times.accept_ms = watch.lap_ms();
  exec_.run_recorded(clock_.tag(mix(rows_.tag(), kCommit)), [&] {
    clock_.mark(Mark::kCommit);
    commit(outcome, outputs);
    clock_.mark(Mark::kCommitEnd);
  });
  exec_.kernels().wait();
  times.commit_ms = watch.lap_ms();
  if (!clock_.on()) return;
  const engine::StageSpans spans{.draft = draft_span(),
                                 .target = clock_.span(Mark::kTarget, Mark::kTargetEnd),
                                 .commit = clock_.span(Mark::kCommit, Mark::kCommitEnd)};
  // The host waited for both at once.
  times.draft_ms = spans.draft.ms;
  times.target_ms -= spans.draft.ms;
  clock_.tell(spans, times);
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
  clock_.mark(Mark::kDraft);
  if (options_.block_tokens > 1) {
    draft_.draft(exec_, rows_.ids(), rows_.batch(), draft_store_, outcome.drafted);
    ops::fill_drafts(exec_, rows_.blocks(), outcome.drafted, rows_.filled_ids());
  }
  clock_.mark(Mark::kTarget);
  engine::run_target(exec_, target_, rows_.filled_ids(), rows_.batch(), std::nullopt, outputs);
}

engine::StageSpan RecordedStep::draft_span() const {
  return options_.block_tokens > 1 ? clock_.span(Mark::kDraft, Mark::kTarget) : engine::StageSpan{};
}

void RecordedStep::commit(const Outcome& outcome, const engine::TargetOutputs& outputs) {
  draft_.write_context(exec_, outputs.features, rows_.batch().positions, outcome.committed, draft_store_);
}

void RecordedStep::take_outcome(const engine::StepPlan& plan, const Outcome& outcome, engine::StepResult& result) {
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
