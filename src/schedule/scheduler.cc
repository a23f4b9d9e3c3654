#include "schedule/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/failure.h"
#include "base/log.h"

namespace strobe::schedule {
namespace {

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

Scheduler::Scheduler(engine::Stepper& stepper, cache::PagePool& pages, const Tokenizer& tokenizer,
                     SchedulerOptions options)
    : stepper_(stepper), pages_(pages), tokenizer_(tokenizer), options_(std::move(options)) {
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

// ---- the callers' side ----

Result<std::string> Scheduler::submit(GenerateRequest request, ChunkSink sink) {
  const auto prompt = static_cast<int32_t>(request.prompt_ids.size());
  if (prompt == 0) return error("the prompt is empty; at least one token is needed");
  for (const int32_t id : request.prompt_ids) {
    if (id < 0 || id >= options_.vocab)
      return error("prompt token {} is outside the vocabulary [0, {})", id, options_.vocab);
  }
  if (prompt >= options_.max_context_tokens) {
    return error("the prompt has {} tokens; at most {} fit into the context of {} with room for an answer", prompt,
                 options_.max_context_tokens - 1, options_.max_context_tokens);
  }
  if (request.stop.max_new_tokens < 1)
    return error("max_new_tokens is {}; at least 1 is needed", request.stop.max_new_tokens);
  request.stop.max_new_tokens = std::min(request.stop.max_new_tokens, options_.max_context_tokens - prompt);

  std::lock_guard lock(mutex_);
  if (stopping_ || draining_) return error("the server is shutting down");
  if (std::ssize(live_ids_) >= int64_t{options_.max_running_requests} + options_.max_queued_requests) {
    return error("the queue is full ({} requests waiting)", options_.max_queued_requests);
  }
  if (request.id.empty()) {
    do request.id = fmt::format("{:016x}", next_id_++);
    while (live_ids_.contains(request.id));
  }
  if (!live_ids_.insert(request.id).second) return error("a request with id '{}' is running already", request.id);
  std::string id = request.id;
  auto sequence = std::make_unique<Sequence>(std::move(request), std::move(sink), tokenizer_, options_.eos_ids);
  if (pages_needed(*sequence) > pages_.capacity_pages()) {
    live_ids_.erase(id);
    return error("prompt and answer may take {} tokens; the cache holds {}",
                 sequence->usage.prompt_tokens + sequence->request.stop.max_new_tokens,
                 int64_t{pages_.capacity_pages()} * pages_.page_size());
  }
  inbox_.push_back(std::move(sequence));
  wake_.notify_one();
  return id;
}

void Scheduler::abort(const std::string& id) {
  std::lock_guard lock(mutex_);
  if (!live_ids_.contains(id)) return;
  aborts_.insert(id);
  wake_.notify_one();
}

GeneratorStats Scheduler::stats() const {
  std::lock_guard lock(mutex_);
  return published_;
}

void Scheduler::drain(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  if (idle_.wait_for(lock, patience, [&] { return live_ids_.empty(); })) return;
  aborts_ = live_ids_;
  wake_.notify_one();
  idle_.wait(lock, [&] { return live_ids_.empty(); });
}

// ---- the scheduler's thread ----

void Scheduler::loop() {
  while (take_in()) {
    admit();
    plan_step();
    if (!plan_.sequences.empty()) run_step();
    publish_stats();
  }
  const Finish shutdown{.reason = FinishReason::kAbort, .message = "the server is shutting down"};
  for (auto& sequence : running_) finish(*sequence, shutdown);
  for (auto& sequence : waiting_) finish(*sequence, shutdown);
  publish_stats();
}

bool Scheduler::take_in() {
  std::unordered_set<std::string> aborts;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] {
      return stopping_ || !inbox_.empty() || !aborts_.empty() || !running_.empty() || !waiting_.empty();
    });
    for (auto& sequence : inbox_) waiting_.push_back(std::move(sequence));
    inbox_.clear();
    aborts.swap(aborts_);
    if (stopping_) return false;
  }
  if (!aborts.empty()) apply_aborts(aborts);
  return true;
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

int32_t Scheduler::pages_needed(const Sequence& sequence) const {
  // A block may reach behind the last token that is emitted; its rows need slots all the same.
  const int64_t longest = int64_t{sequence.usage.prompt_tokens} + sequence.request.stop.max_new_tokens;
  return pages_.pages_for(std::min<int64_t>(longest + stepper_.max_block_tokens(), options_.max_context_tokens));
}

void Scheduler::admit() {
  while (!waiting_.empty() && static_cast<int32_t>(running_.size()) < options_.max_running_requests) {
    Sequence& next = *waiting_.front();
    const int32_t needed = pages_needed(next);
    if (needed > pages_.free_pages()) return;
    for (int32_t i = 0; i < needed; ++i) next.pages.push_back(pages_.take().value());
    next.usage.queue_ms = ms_since(next.submitted);
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

int32_t Scheduler::block_tokens(const Sequence& sequence) const {
  if (!sequence.request.speculative) return 1;
  return std::min(stepper_.max_block_tokens(), options_.max_context_tokens - sequence.committed);
}

void Scheduler::plan_step() {
  plan_.sequences.clear();
  planned_.clear();
  int32_t rows_left = stepper_.max_rows();
  for (const bool prefilling : {false, true}) {
    for (const auto& sequence : running_) {
      if (sequence->prefilling() != prefilling || rows_left <= 0) continue;
      const auto pending = static_cast<int32_t>(sequence->tokens.size()) - sequence->committed;
      const int32_t fed = std::min(pending, rows_left);
      const bool wants_token = fed == pending;
      const int32_t block = prefilling ? 1 : block_tokens(*sequence);
      const std::span<const int32_t> all = sequence->tokens;
      plan_.sequences.push_back(
          {.tokens = all.subspan(static_cast<size_t>(sequence->committed), static_cast<size_t>(fed)),
           .first_position = sequence->committed,
           .pages = sequence->pages,
           .wants_token = wants_token,
           .block_tokens = block,
           .sampling = &sequence->request.sampling,
           .history = all,
           .prompt_tokens = sequence->usage.prompt_tokens,
           .forbidden_early = sequence->answer.end_tokens(),
           .forbidden_rows = sequence->answer.forbidden_tokens()});
      planned_.push_back(sequence.get());
      rows_left -= fed + block - 1;
    }
  }
}

void Scheduler::run_step() {
  engine::StepResult result;
  try {
    result = stepper_.run(plan_);
  } catch (const Failure& failure) {
    log_error("a step failed: {}", failure.what());
    for (Sequence* sequence : planned_) {
      finish(*sequence,
             {.reason = FinishReason::kAbort, .message = fmt::format("the engine failed: {}", failure.what())});
    }
    drop_finished();
    return;
  }
  digest(result);
}

void Scheduler::digest(const engine::StepResult& result) {
  for (size_t i = 0; i < planned_.size(); ++i) {
    Sequence& sequence = *planned_[i];
    const bool decoding = !sequence.prefilling();
    const engine::StepSequence& asked = plan_.sequences[i];
    const engine::StepOutput& output = result.outputs[i];
    sequence.committed += static_cast<int32_t>(asked.tokens.size()) + output.accepted;
    if (asked.wants_token) emit_tokens(sequence, output, decoding);
  }
  drop_finished();
}

void Scheduler::emit_tokens(Sequence& sequence, const engine::StepOutput& output, bool decoding) {
  Usage& usage = sequence.usage;
  if (decoding) ++usage.decode_steps;
  Chunk chunk;
  for (const int32_t token : output.tokens) {
    sequence.tokens.push_back(token);
    const auto place = static_cast<int32_t>(chunk.token_ids.size());
    chunk.token_ids.push_back(token);
    chunk.origins.push_back({.step = usage.decode_steps, .block_position = place < output.accepted ? place + 1 : 0});
    if (sequence.answer.push(token)) break;
  }
  const auto emitted = static_cast<int32_t>(chunk.token_ids.size());
  if (usage.completion_tokens == 0) usage.first_token_ms = ms_since(sequence.submitted);
  usage.completion_tokens += emitted;
  if (output.drafted > 0) {
    const int32_t accepted = output.accepted;
    ++usage.verify_steps;
    usage.drafted_tokens += output.drafted;
    usage.accepted_tokens += accepted;
    ++usage.accept_histogram[static_cast<size_t>(std::min(accepted, kMaxBlockTokens - 1))];
    ++counts_.verify_steps_total;
    counts_.drafted_tokens_total += output.drafted;
    counts_.accepted_tokens_total += accepted;
    ++counts_.accept_histogram[static_cast<size_t>(std::min(accepted, kMaxBlockTokens - 1))];
  }
  counts_.generated_tokens_total += emitted;
  window_tokens_ += emitted;
  chunk.text = sequence.answer.take_text();
  if (sequence.answer.finish()) {
    finish(sequence, *sequence.answer.finish(), std::move(chunk));
    return;
  }
  usage.total_ms = ms_since(sequence.submitted);
  chunk.usage = usage;
  sequence.sink(std::move(chunk));
}

void Scheduler::finish(Sequence& sequence, Finish reason, Chunk chunk) {
  pages_.release(sequence.pages);
  sequence.pages.clear();
  counts_.prompt_tokens_total += sequence.usage.prompt_tokens;
  ++counts_.requests_total;
  if (reason.reason == FinishReason::kAbort) ++counts_.aborted_total;
  sequence.usage.total_ms = ms_since(sequence.submitted);
  chunk.finish = std::move(reason);
  chunk.usage = sequence.usage;
  sequence.sink(std::move(chunk));
  sequence.sink = nullptr;
  std::lock_guard lock(mutex_);
  live_ids_.erase(sequence.request.id);
  aborts_.erase(sequence.request.id);  // came too late; the next request of this id must not see it
  if (live_ids_.empty()) idle_.notify_all();
}

void Scheduler::drop_finished() {
  std::erase_if(running_, [](const SequencePtr& sequence) { return !sequence->sink; });
}

void Scheduler::publish_stats() {
  constexpr double kWindowMs = 1000;
  counts_.running_requests = static_cast<int32_t>(running_.size());
  counts_.queued_requests = static_cast<int32_t>(waiting_.size());
  counts_.used_slots = int64_t{pages_.capacity_pages() - pages_.free_pages()} * pages_.page_size();
  if (const double ms = ms_since(window_start_); ms >= kWindowMs) {
    counts_.recent_tokens_per_second = static_cast<double>(std::exchange(window_tokens_, 0)) * 1000 / ms;
    window_start_ = Clock::now();
  }
  std::lock_guard lock(mutex_);
  published_ = counts_;
}

}  // namespace strobe::schedule
