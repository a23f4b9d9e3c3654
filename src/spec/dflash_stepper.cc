#include "spec/dflash_stepper.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/stopwatch.h"
#include "engine/token_choice.h"
#include "spec/draft_window.h"

namespace strobe::spec {

using engine::Mark;

namespace {

bool has_blocks(const engine::StepPlan& plan) {
  return std::ranges::any_of(plan.sequences, [](const auto& sequence) { return sequence.block_tokens > 1; });
}

DflashOptions without_blocks(DflashOptions options) {
  options.block_tokens = 1;
  return options;
}

}  // namespace

DflashStepper::DflashStepper(ops::Exec& exec, engine::TargetModel target, const model::DflashDraft& draft,
                             const cache::KvStore& draft_store, const DflashOptions& options)
    : exec_(exec),
      pass_(std::move(target), options.page_size),
      draft_(draft),
      draft_store_(draft_store),
      options_(options),
      recorded_(exec, pass_.target(), draft, draft_store, options),
      recorded_plain_(exec, pass_.target(), draft, draft_store, without_blocks(options)),
      blocks_(options.page_size),
      clock_(exec) {
  STROBE_CHECK(options.block_tokens >= 2, "block_tokens = {}", options.block_tokens);
  STROBE_CHECK(!pass_.target().capture_layers.empty(), "a DFlash target must capture features");
}

engine::StepResult DflashStepper::run(const engine::StepPlan& plan) {
  if (options_.recorded && engine::only_decodes(plan))
    return (has_blocks(plan) ? recorded_ : recorded_plain_).run(plan);
  engine::StepResult result;
  clock_.start(plan.timed);
  Stopwatch watch;
  draft_blocks(plan);
  result.times.draft_ms = watch.lap_ms();
  ops::WorkspaceFrame frame(exec_.workspace());
  verify(plan, frame);
  result.times.target_ms = watch.lap_ms();
  accept_tokens(plan, result);
  result.times.accept_ms = watch.lap_ms();
  commit_context(plan, result);
  result.times.commit_ms = watch.lap_ms();
  if (clock_.on()) tell_device_times(result.times);
  return result;
}

void DflashStepper::tell_device_times(engine::StepTimes& times) {
  engine::StageSpans spans;
  if (blocks_.rows() > 0) spans.draft = clock_.span(Mark::kDraft, Mark::kDraftEnd);
  if (pass_.rows().rows() > 0) {
    spans.target = clock_.span(Mark::kTarget, Mark::kTargetEnd);
    spans.commit = clock_.span(Mark::kCommit, Mark::kCommitEnd);
  }
  clock_.tell(spans, times);
}

void DflashStepper::draft_blocks(const engine::StepPlan& plan) {
  blocks_.clear();
  first_visible_.clear();
  block_begin_.assign(1, 0);
  for (const engine::StepSequence& sequence : plan.sequences) {
    if (sequence.block_tokens > 1) {
      STROBE_CHECK(
          sequence.wants_token && sequence.tokens.size() == 1 && sequence.block_tokens <= options_.block_tokens,
          "{} fed tokens, block of {}", sequence.tokens.size(), sequence.block_tokens);
      fed_.assign(1, sequence.tokens[0]);
      fed_.resize(static_cast<size_t>(sequence.block_tokens), draft_.mask_token());
      blocks_.add(fed_, sequence.first_position, sequence.pages);
      first_visible_.push_back(
          first_visible_position(sequence.first_position, options_.window_tokens, options_.page_size));
    }
    block_begin_.push_back(static_cast<int32_t>(blocks_.rows()));
  }
  if (blocks_.rows() == 0) return;
  ops::WorkspaceFrame frame(exec_.workspace());
  clock_.mark(Mark::kDraft);
  const engine::RowList::Placed placed = blocks_.place(exec_, frame, first_visible_);
  const Tensor tokens = frame.tensor(DType::kI32, {blocks_.rows()});
  draft_.draft(exec_, placed.ids, placed.batch, draft_store_, tokens);
  clock_.mark(Mark::kDraftEnd);
  const auto* said = ops::to_host(exec_, tokens, transfer_).as<int32_t>();
  block_tokens_.assign(said, said + blocks_.rows());
}

std::span<const int32_t> DflashStepper::drafted(size_t i) const {
  const auto begin = static_cast<size_t>(block_begin_[i]), end = static_cast<size_t>(block_begin_[i + 1]);
  if (begin == end) return {};
  // Row 0 holds the token that was fed; what the draft says there means nothing.
  return std::span(block_tokens_).subspan(begin + 1, end - begin - 1);
}

void DflashStepper::verify(const engine::StepPlan& plan, ops::WorkspaceFrame& frame) {
  pass_.clear();
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const engine::StepSequence& sequence = plan.sequences[i];
    const std::span<const int32_t> drafts = drafted(i);
    fed_.assign(sequence.tokens.begin(), sequence.tokens.end());
    fed_.insert(fed_.end(), drafts.begin(), drafts.end());
    pass_.add(fed_, sequence.first_position, sequence.pages,
              sequence.wants_token ? static_cast<int32_t>(drafts.size()) + 1 : 0);
  }
  clock_.mark(Mark::kTarget);
  pass_.run(exec_, frame);
  clock_.mark(Mark::kTargetEnd);
  drawn_ = false;
  if (pass_.rows().rows() == 0) return;
  const engine::ChoiceWork work = engine::choice_work(plan, pass_.target().recipe->vocab);
  // On the host only rows that are reached are drawn from; a device draws from all at once.
  drawn_ = work == engine::ChoiceWork::kDraw && options_.rule == AcceptRule{accept} && !exec_.on_host();
  if (drawn_) {
    draws_.clear();
    for (size_t i = 0; i < plan.sequences.size(); ++i) {
      if (plan.sequences[i].wants_token) draws_.add(plan.sequences[i], static_cast<int32_t>(drafted(i).size()));
    }
    draws_.run(exec_, frame, pass_.outputs().logits, pass_.outputs().best);
  }
  words_.fetch(exec_, pass_.outputs().logits, pass_.outputs().best, !drawn_ && work != engine::ChoiceWork::kBest);
}

void DflashStepper::accept_tokens(const engine::StepPlan& plan, engine::StepResult& result) {
  int64_t row = 0;
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const engine::StepSequence& sequence = plan.sequences[i];
    engine::StepOutput& output = result.outputs.emplace_back();
    if (!sequence.wants_token) continue;
    const std::span<const int32_t> drafts = drafted(i);
    const auto rows = static_cast<int64_t>(drafts.size()) + 1;
    const engine::RowLogits said = words_.rows(row, rows);
    output = drawn_ ? accept_drawn(said.argmax, drafts) : choose_tokens(sequence, said, drafts, options_.rule);
    row += rows;
  }
}

void DflashStepper::commit_context(const engine::StepPlan& plan, const engine::StepResult& result) {
  engine::RowList& rows = pass_.rows();
  if (rows.rows() == 0) return;
  const int32_t* slots = rows.slots().as<int32_t>();
  committed_slots_.assign(slots, slots + rows.rows());
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const auto& request = rows.requests()[i];
    const auto committed = static_cast<int32_t>(plan.sequences[i].tokens.size()) + result.outputs[i].accepted;
    for (int32_t r = committed; r < request.row_count; ++r)
      committed_slots_[static_cast<size_t>(request.row_begin + r)] = -1;
  }
  ops::WorkspaceFrame frame(exec_.workspace());
  clock_.mark(Mark::kCommit);
  const Tensor slots_left = ops::to_device(exec_, frame, Tensor(committed_slots_.data(), DType::kI32, {rows.rows()}));
  draft_.write_context(exec_, pass_.outputs().features, pass_.batch().positions, slots_left, draft_store_);
  clock_.mark(Mark::kCommitEnd);
}

}  // namespace strobe::spec
