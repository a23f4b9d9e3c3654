// The scheduler as its callers see it: any thread.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schedule/scheduler.h"

namespace strobe::schedule {

// A block may reach behind the last token that is emitted; its rows need slots all the same.
int32_t Scheduler::longest_reach(const GenerateRequest& request) const {
  const int64_t longest = std::ssize(request.prompt_ids) + int64_t{request.stop.max_new_tokens};
  return static_cast<int32_t>(std::min<int64_t>(longest + stepper_.max_block_tokens(), options_.max_context_tokens));
}

Result<void> Scheduler::check(GenerateRequest& request) const {
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
  if (request.timeout_ms < 0) return error("timeout_ms is {}; 0 (no limit) or more is accepted", request.timeout_ms);
  request.stop.max_new_tokens = std::min(request.stop.max_new_tokens, options_.max_context_tokens - prompt);
  if (pages_.pages_for(longest_reach(request)) > pages_.capacity_pages()) {
    return error("prompt and answer may take {} tokens; the cache holds {}", prompt + request.stop.max_new_tokens,
                 int64_t{pages_.capacity_pages()} * pages_.page_size());
  }
  return {};
}

Result<std::string> Scheduler::submit(GenerateRequest request, ChunkSink sink) {
  STROBE_TRY(check(request));
  // Made before the lock is taken: the scheduler's thread must not wait for it.
  auto sequence = std::make_unique<Sequence>(std::move(request), std::move(sink), tokenizer_, options_.eos_ids,
                                             options_.draft_cost.alone);
  std::string& id = sequence->request.id;
  std::lock_guard lock(mutex_);
  if (stopping_ || draining_) return error("the server is shutting down");
  if (std::ssize(live_ids_) >= int64_t{options_.max_running_requests} + options_.max_queued_requests) {
    return error("the queue is full ({} requests waiting)", options_.max_queued_requests);
  }
  if (id.empty()) {
    do id = fmt::format("{:016x}", next_id_++);
    while (live_ids_.contains(id));
  }
  if (!live_ids_.insert(id).second) return error("a request with id '{}' is running already", id);
  std::string told = id;
  inbox_.push_back(std::move(sequence));
  quiet_ = false;
  wake_.notify_one();
  lookahead_.ring();
  return told;
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

Result<void> Scheduler::flush_cache() {
  std::unique_lock lock(mutex_);
  if (!live_ids_.empty())
    return error("the cache is in use by {} requests; flush it when there are none", live_ids_.size());
  if (stopping_) return error("the server is shutting down");
  flushing_ = true;
  wake_.notify_one();
  idle_.wait(lock, [&] { return !flushing_; });
  return {};
}

void Scheduler::drain(std::chrono::milliseconds patience) {
  {
    std::unique_lock lock(mutex_);
    draining_ = true;
    if (!idle_.wait_for(lock, patience, [&] { return quiet_; })) {
      aborts_ = live_ids_;
      wake_.notify_one();
      idle_.wait(lock, [&] { return quiet_; });
    }
  }
  postman_.wait_until_delivered();
}

}  // namespace strobe::schedule
