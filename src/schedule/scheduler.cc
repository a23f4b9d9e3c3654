#include "schedule/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace strobe::schedule {
namespace {

double ms_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - start).count();
}

double ms_since(Clock::time_point start) {
  return ms_between(start, Clock::now());
}

}  // namespace

Scheduler::Scheduler(engine::Stepper& stepper, cache::PagePool& pages, const Tokenizer& tokenizer,
                     SchedulerOptions options)
    : stepper_(stepper),
      pages_(pages),
      tokenizer_(tokenizer),
      options_(std::move(options)),
      tree_(pages, options_.prefix_cache),
      trace_(options_.trace),
      lookahead_([this] { prepare_next_step(); }) {
  STROBE_CHECK(options_.max_context_tokens > 1 && options_.max_running_requests > 0, "context {}, running {}",
               options_.max_context_tokens, options_.max_running_requests);
  STROBE_CHECK(options_.max_running_requests * stepper.max_block_tokens() <= stepper.max_rows(),
               "{} requests of {} rows in steps of {}", options_.max_running_requests, stepper.max_block_tokens(),
               stepper.max_rows());
  counts_.total_slots = int64_t{pages.capacity_pages()} * pages.page_size();
  counts_.max_running_requests = options_.max_running_requests;
  counts_.max_context_tokens = options_.max_context_tokens;
  counts_.draft_block_tokens = stepper.max_block_tokens();
  published_ = counts_;
  thread_ = std::thread([this] { loop(); });
}

Scheduler::~Scheduler() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Scheduler::loop() {
  while (take_in()) {
    apply_timeouts();
    admit();
    plan_step();
    if (!plan_.sequences.empty()) run_step();
    publish();
  }
  const Finish shutdown{.reason = FinishReason::kAbort, .message = "the server is shutting down"};
  for (auto& sequence : running_) finish(*sequence, shutdown);
  for (auto& sequence : waiting_) finish(*sequence, shutdown);
  running_.clear();
  waiting_.clear();
  publish();
}

// ---- what comes from outside ----

bool Scheduler::take_in() {
  std::unordered_set<std::string> aborts;
  {
    std::unique_lock lock(mutex_);
    if (running_.empty() && waiting_.empty()) {
      check_idle_pages();
      trace_.pause();
    }
    wake_.wait(lock, [&] {
      return stopping_ || flushing_ || !inbox_.empty() || !aborts_.empty() || !running_.empty() || !waiting_.empty();
    });
    if (std::exchange(flushing_, false)) {
      tree_.evict(tree_.pages());
      published_.cached_slots = counts_.cached_slots = 0;
      idle_.notify_all();
    }
    move_inbox();
    aborts.swap(aborts_);
    if (stopping_) return false;
  }
  if (!aborts.empty()) apply_aborts(aborts);
  return true;
}

void Scheduler::move_inbox() {
  for (auto& sequence : inbox_) {
    timed_requests_ += sequence->timed() ? 1 : 0;
    waiting_.push_back(std::move(sequence));
  }
  inbox_.clear();
}

void Scheduler::apply_aborts(const std::unordered_set<std::string>& ids) {
  const auto aborted = [&](const SequencePtr& sequence) {
    if (!ids.contains(sequence->request.id)) return false;
    finish(*sequence, {.reason = FinishReason::kAbort, .message = "the request was aborted"});
    return true;
  };
  std::erase_if(running_, aborted);
  std::erase_if(waiting_, aborted);
}

void Scheduler::apply_timeouts() {
  if (timed_requests_ == 0) return;  // thousands may wait, and this is done before every step
  const Clock::time_point now = Clock::now();
  const auto expired = [&](const SequencePtr& sequence) {
    if (!sequence->expired(now)) return false;
    finish(*sequence,
           {.reason = FinishReason::kAbort,
            .message = fmt::format("the request's time limit of {} ms is over", sequence->request.timeout_ms)});
    return true;
  };
  std::erase_if(running_, expired);
  std::erase_if(waiting_, expired);
}

// ---- pages ----

void Scheduler::admit() {
  while (!waiting_.empty() && std::ssize(running_) < options_.max_running_requests) {
    if (available_pages() <= hopeless_pages_) return;
    Sequence& next = *waiting_.front();
    const std::span<const int32_t> tokens = next.tokens;
    // Its last token is always fed: the next one comes from its row.
    auto known = tree_.match_and_lock(tokens.first(tokens.size() - 1));
    next.pages = std::move(known.pages);
    // Never moved: the plan of a running step points to them while more are added.
    next.pages.reserve(static_cast<size_t>(pages_.pages_for(longest_reach(next.request))));
    next.prefix = known.node;
    next.committed = static_cast<int32_t>(next.pages.size()) * pages_.page_size();
    // Those who run shall not have to give way at once: a page is left for each.
    const int32_t wanted = pages_.pages_for(std::ssize(tokens)) - static_cast<int32_t>(next.pages.size());
    if (wanted + std::ssize(running_) > available_pages()) {
      release_pages(next);
      hopeless_pages_ = available_pages();
      return;
    }
    STROBE_CHECK(grow(next, static_cast<int32_t>(tokens.size())), "{} pages of {}", wanted, available_pages());
    hopeless_pages_ = -1;
    if (next.usage.preemptions == 0) {
      next.usage.cached_tokens = next.committed;
      next.usage.queue_ms = ms_since(next.submitted);
      counts_.cached_tokens_total += next.committed;
    }
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

bool Scheduler::grow(Sequence& sequence, int32_t reach) {
  const int32_t more = pages_.pages_for(reach) - static_cast<int32_t>(sequence.pages.size());
  if (more <= 0) return true;
  if (more > available_pages()) return false;
  tree_.evict(more - pages_.free_pages());
  for (int32_t i = 0; i < more; ++i) sequence.pages.push_back(pages_.take().value());
  return true;
}

void Scheduler::preempt_youngest() {
  SequencePtr youngest = std::move(running_.back());
  running_.pop_back();
  release_pages(*youngest);
  ++youngest->usage.preemptions;
  ++counts_.preemptions_total;
  log_debug("request {} gives way after {} tokens", youngest->request.id, youngest->usage.completion_tokens);
  waiting_.push_front(std::move(youngest));
  hopeless_pages_ = -1;
}

// Ends: the oldest request alone always finds room (submit refuses what the whole pool cannot hold).
void Scheduler::make_room_for_decoding() {
  for (size_t i = 0; i < running_.size(); ++i) {
    const Sequence& sequence = *running_[i];
    if (sequence.prefilling()) continue;
    const int32_t reach = sequence.committed + block_tokens(sequence);
    while (i < running_.size() && !grow(*running_[i], reach)) preempt_youngest();
  }
}

void Scheduler::remember(Sequence& sequence) {
  const auto known = std::min(sequence.tokens.size(), static_cast<size_t>(sequence.committed));
  sequence.prefix =
      tree_.insert_and_lock(std::span<const int32_t>(sequence.tokens).first(known), sequence.pages, sequence.prefix);
}

void Scheduler::release_pages(Sequence& sequence) {
  remember(sequence);
  tree_.unlock(std::exchange(sequence.prefix, nullptr));
  pages_.release(sequence.pages);
  sequence.pages.clear();
  sequence.committed = 0;
}

void Scheduler::check_idle_pages() const {
  STROBE_CHECK(
      pages_.free_pages() + tree_.pages() == pages_.capacity_pages() && tree_.evictable_pages() == tree_.pages(),
      "nothing runs, but of {} pages {} are free, {} cached, {} of these not in use", pages_.capacity_pages(),
      pages_.free_pages(), tree_.pages(), tree_.evictable_pages());
}

// ---- a step ----

int32_t Scheduler::block_tokens(const Sequence& sequence) const {
  if (sequence.request.drafting == Drafting::kOff || !sequence.drafting.pays()) return 1;
  return std::min(stepper_.max_block_tokens(), options_.max_context_tokens - sequence.committed);
}

void Scheduler::plan_step() {
  make_room_for_decoding();
  plan_.sequences.clear();
  planned_.clear();
  planned_growth_ = planned_knowledge_ = false;
  int32_t rows_left = stepper_.max_rows();
  const auto plan_all = [&](bool prefilling) {
    for (const auto& sequence : running_) {
      if (sequence->prefilling() == prefilling && rows_left > 0) rows_left -= plan_part(*sequence, rows_left);
    }
  };
  plan_all(false);
  if (options_.chunk_tokens > 0) rows_left = std::min(rows_left, options_.chunk_tokens);
  plan_all(true);
}

int32_t Scheduler::plan_part(Sequence& sequence, int32_t rows) {
  const std::span<const int32_t> all = sequence.tokens;
  const bool reading = sequence.prefilling();
  const int32_t pending = (reading ? sequence.tokens_to_read() : static_cast<int32_t>(all.size())) - sequence.committed;
  const int32_t fed = std::min(pending, rows);
  const int32_t block = reading ? 1 : block_tokens(sequence);
  plan_.sequences.push_back({.tokens = all.subspan(static_cast<size_t>(sequence.committed), static_cast<size_t>(fed)),
                             .first_position = sequence.committed,
                             .pages = sequence.pages,
                             .wants_token = sequence.committed + fed == static_cast<int32_t>(all.size()),
                             .block_tokens = block,
                             .sampling = &sequence.request.sampling,
                             .history = all,
                             .prompt_tokens = sequence.usage.prompt_tokens,
                             .forbidden_early = sequence.answer.end_tokens(),
                             .forbidden_rows = sequence.answer.forbidden_tokens()});
  planned_.push_back(&sequence);
  planned_knowledge_ = planned_knowledge_ || sequence.reads_all_with(fed);
  const int32_t next_pages = pages_.pages_for(next_reach(sequence, plan_.sequences.back()));
  planned_growth_ = planned_growth_ || next_pages > std::ssize(sequence.pages);
  return fed + block - 1;
}

int32_t Scheduler::next_reach(const Sequence& sequence, const engine::StepSequence& planned) const {
  const int32_t committed =
      planned.first_position + static_cast<int32_t>(planned.tokens.size()) + planned.block_tokens - 1;
  const int32_t block = sequence.request.drafting == Drafting::kOff ? 1 : stepper_.max_block_tokens();
  return std::min(committed + block, longest_reach(sequence.request));
}

// Aborts, time limits and preemption wait for the end of the step: they take pages from requests that it may hold. Nor
// is anybody admitted who may find more of his text known when it has ended.
void Scheduler::prepare_next_step() {
  {
    const std::lock_guard lock(mutex_);
    move_inbox();
  }
  for (size_t i = 0; i < planned_.size(); ++i) grow(*planned_[i], next_reach(*planned_[i], plan_.sequences[i]));
  if (!planned_knowledge_) admit();
  publish_counts();
}

void Scheduler::run_step() {
  engine::StepResult result;
  const bool traced = trace_.on();
  plan_.timed = traced;
  traced ? trace_.begin() : trace_.pause();
  const bool admissible =
      !planned_knowledge_ && !waiting_.empty() && std::ssize(running_) < options_.max_running_requests;
  lookahead_.open(planned_growth_ || admissible);
  std::string failure;
  try {
    result = stepper_.run(plan_);
  } catch (const std::exception& thrown) {
    failure = fmt::format("the engine failed: {}", thrown.what());
  }
  lookahead_.close();
  if (!failure.empty()) {
    log_error("a step failed: {}", failure);
    for (Sequence* sequence : planned_) finish(*sequence, {.reason = FinishReason::kAbort, .message = failure});
    drop_finished();
    return;
  }
  if (traced) trace_.end(plan_, result);
  digest(result);
}

// The result's tokens become the chunks'.
void Scheduler::digest(engine::StepResult& result) {
  now_ = Clock::now();
  for (size_t i = 0; i < planned_.size(); ++i) {
    Sequence& sequence = *planned_[i];
    const engine::StepSequence& asked = plan_.sequences[i];
    const bool decoding = !sequence.prefilling();
    const bool read_all = sequence.reads_all_with(std::ssize(asked.tokens));
    engine::StepOutput& output = result.outputs[i];
    sequence.committed += static_cast<int32_t>(asked.tokens.size()) + output.accepted;
    if (read_all) remember(sequence);  // others may begin like it
    if (asked.wants_token) emit_tokens(sequence, std::move(output), decoding);
  }
  drop_finished();
}

void Scheduler::emit_tokens(Sequence& sequence, engine::StepOutput output, bool decoding) {
  Usage& usage = sequence.usage;
  if (decoding) count_drafting(sequence, output);
  size_t emitted = 0;
  for (bool ended = false; emitted < output.tokens.size() && !ended; ++emitted) {
    ended = sequence.answer.push(output.tokens[emitted]);
  }
  output.tokens.resize(emitted);
  if (!output.logprobs.empty()) output.logprobs.resize(emitted);
  sequence.tokens.insert(sequence.tokens.end(), output.tokens.begin(), output.tokens.end());
  if (usage.completion_tokens == 0) usage.first_token_ms = ms_between(sequence.submitted, now_);
  usage.completion_tokens += static_cast<int32_t>(emitted);
  counts_.generated_tokens_total += static_cast<int64_t>(emitted);
  window_tokens_ += static_cast<int64_t>(emitted);
  AnswerText news = sequence.answer.take_text();
  Letter& letter = letters_.emplace_back();
  letter.block = {.step = usage.decode_steps, .drafted = output.drafted, .accepted = output.accepted};
  letter.chunk.token_ids = std::move(output.tokens);
  letter.chunk.logprobs = std::move(output.logprobs);
  letter.chunk.text = std::move(news.text);
  letter.chunk.pieces = std::move(news.pieces);
  if (sequence.answer.finish()) return finish(sequence, *sequence.answer.finish(), letter);
  usage.total_ms = ms_between(sequence.submitted, now_);
  letter.chunk.usage = usage;
  letter.sink = sequence.sink.get();
}

void Scheduler::count_drafting(Sequence& sequence, const engine::StepOutput& output) {
  ++sequence.usage.decode_steps;
  if (output.drafted > 0) {
    count_verify(sequence.usage, output);
    sequence.drafting.drafted(output.accepted + 1, options_.draft_cost.of(static_cast<int32_t>(planned_.size())));
  } else if (sequence.request.drafting != Drafting::kOff && !sequence.drafting.pays()) {
    ++sequence.usage.held_back_steps;
    ++counts_.held_back_steps_total;
    sequence.drafting.held_back();
  }
}

void Scheduler::count_verify(Usage& usage, const engine::StepOutput& output) {
  const auto place = static_cast<size_t>(std::min(output.accepted, kMaxBlockTokens - 1));
  ++usage.verify_steps;
  usage.drafted_tokens += output.drafted;
  usage.accepted_tokens += output.accepted;
  ++usage.accept_histogram[place];
  ++counts_.verify_steps_total;
  counts_.drafted_tokens_total += output.drafted;
  counts_.accepted_tokens_total += output.accepted;
  ++counts_.accept_histogram[place];
}

void Scheduler::finish(Sequence& sequence, Finish reason, Letter& last) {
  release_pages(sequence);
  counts_.prompt_tokens_total += sequence.usage.prompt_tokens;
  ++counts_.requests_total;
  if (reason.reason == FinishReason::kAbort) ++counts_.aborted_total;
  sequence.usage.total_ms = ms_since(sequence.submitted);
  last.chunk.finish = std::move(reason);
  last.chunk.usage = sequence.usage;
  last.sink = sequence.sink.get();
  last.last_of = std::move(sequence.sink);
  hopeless_pages_ = -1;
  timed_requests_ -= sequence.timed() ? 1 : 0;
  std::lock_guard lock(mutex_);
  live_ids_.erase(sequence.request.id);
  aborts_.erase(sequence.request.id);  // came too late; the next request of this id must not see it
}

void Scheduler::drop_finished() {
  std::erase_if(running_, [](const SequencePtr& sequence) { return !sequence->sink; });
}

void Scheduler::publish_counts() {
  constexpr double kWindowMs = 1000;
  counts_.running_requests = static_cast<int32_t>(running_.size());
  counts_.queued_requests = static_cast<int32_t>(waiting_.size());
  counts_.used_slots = int64_t{pages_.capacity_pages() - available_pages()} * pages_.page_size();
  counts_.cached_slots = int64_t{tree_.evictable_pages()} * pages_.page_size();
  if (const double ms = ms_since(window_start_); ms >= kWindowMs) {
    counts_.recent_tokens_per_second = static_cast<double>(std::exchange(window_tokens_, 0)) * 1000 / ms;
    window_start_ = Clock::now();
  }
  const std::lock_guard lock(mutex_);
  published_ = counts_;
}

void Scheduler::publish() {
  publish_counts();
  postman_.post(letters_);
  std::lock_guard lock(mutex_);
  quiet_ = live_ids_.empty();
  if (quiet_) idle_.notify_all();
}

}  // namespace strobe::schedule
