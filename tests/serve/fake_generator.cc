#include "fake_generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace strobe::serve {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

FakeGenerator::Script FakeGenerator::words(milliseconds delay) {
  return [delay](const schedule::GenerateRequest& request, int k) -> std::optional<FakeStep> {
    const int most = request.stop.max_new_tokens;
    const int first = k == 0 ? 0 : 1 + (k - 1) * 3;
    FakeStep step{.tokens = std::min(k == 0 ? 1 : 3, most - first),
                  .verify = k > 0 && request.drafting != schedule::Drafting::kOff};
    step.delay = delay;
    for (int i = 0; i < step.tokens; ++i) step.text += fmt::format(" w{}", first + i);
    if (first + step.tokens == most) step.finish = schedule::Finish{.reason = schedule::FinishReason::kLength};
    return step;
  };
}

FakeGenerator::Script FakeGenerator::steps(std::vector<FakeStep> list) {
  return [list = std::move(list)](const schedule::GenerateRequest&, int k) -> std::optional<FakeStep> {
    if (static_cast<size_t>(k) >= list.size()) return std::nullopt;
    return list[static_cast<size_t>(k)];
  };
}

FakeGenerator::Script FakeGenerator::silence() {
  return steps({});
}

FakeGenerator::Script FakeGenerator::endless(milliseconds delay, std::string word) {
  return [delay, word = std::move(word)](const schedule::GenerateRequest&, int) -> std::optional<FakeStep> {
    FakeStep step;
    step.text = word;
    step.delay = delay;
    return step;
  };
}

FakeGenerator::FakeGenerator() {
  stats_.max_context_tokens = 512;
  stats_.max_running_requests = 64;
  stats_.total_slots = 8192;
  stats_.draft_block_tokens = 8;
  thread_ = std::thread([this] { run(); });
}

FakeGenerator::~FakeGenerator() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

engine::TokenLogprobs FakeGenerator::logprobs(int32_t id, int32_t top) {
  engine::TokenLogprobs result{.logprob = -0.5F * static_cast<float>(id % 10)};
  for (int32_t k = 0; k < top; ++k) result.top.emplace_back(id + k, -0.1F * static_cast<float>(k + 1));
  return result;
}

Result<std::string> FakeGenerator::submit(schedule::GenerateRequest request, schedule::ChunkSink sink) {
  if (on_submit) on_submit(request);
  const std::lock_guard lock(mutex_);
  requests_.push_back(request);
  changed_.notify_all();
  if (!refusal_.empty()) return Error{refusal_};
  if (request.id.empty()) request.id = fmt::format("made-{}", made_ids_++);
  const std::string id = request.id;
  Running running{.request = std::move(request), .sink = std::move(sink), .script = script_};
  running.start = running.due = steady_clock::now();
  running.usage.prompt_tokens = static_cast<int32_t>(running.request.prompt_ids.size());
  advance(running);
  if (!running_.emplace(id, std::move(running)).second) return error("the id {} is in use", id);
  return id;
}

void FakeGenerator::abort(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (!running_.contains(id)) return;
  ++aborts_;
  to_abort_.push_back(id);
  changed_.notify_all();
}

schedule::GeneratorStats FakeGenerator::stats() const {
  const std::lock_guard lock(mutex_);
  schedule::GeneratorStats stats = stats_;
  stats.running_requests = static_cast<int32_t>(running_.size());
  return stats;
}

void FakeGenerator::play(Script script) {
  const std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

void FakeGenerator::refuse_with(std::string message) {
  const std::lock_guard lock(mutex_);
  refusal_ = std::move(message);
}

void FakeGenerator::set_stats(schedule::GeneratorStats stats) {
  const std::lock_guard lock(mutex_);
  stats_ = stats;
}

std::vector<schedule::GenerateRequest> FakeGenerator::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

Result<void> FakeGenerator::flush_cache() {
  const std::lock_guard lock(mutex_);
  if (!running_.empty()) return error("{} requests are not done", running_.size());
  ++flushes_;
  return {};
}

int FakeGenerator::flushes() const {
  const std::lock_guard lock(mutex_);
  return flushes_;
}

int FakeGenerator::live() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(running_.size());
}

bool FakeGenerator::wait_until_live(int count) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return static_cast<int>(running_.size()) == count; });
}

bool FakeGenerator::wait_until_submitted(size_t count) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return requests_.size() >= count; });
}

void FakeGenerator::advance(Running& running) {
  running.step = running.script(running.request, running.next++);
  running.due = running.step ? running.due + running.step->delay : steady_clock::time_point::max();
}

// The step's text shared out among its tokens.
static std::vector<schedule::TextPiece> even_pieces(const FakeStep& step, int32_t first) {
  std::vector<schedule::TextPiece> pieces;
  auto left = static_cast<int32_t>(step.text.size());
  for (int32_t i = 0; i < step.tokens && left > 0; ++i) {
    const int32_t bytes = i + 1 == step.tokens ? left : std::min(left, left / (step.tokens - i));
    if (bytes > 0) pieces.push_back({.token = first + i, .bytes = bytes});
    left -= bytes;
  }
  return pieces;
}

schedule::Chunk FakeGenerator::make_chunk(Running& running, const FakeStep& step) {
  schedule::Chunk chunk;
  schedule::Usage& usage = running.usage;
  for (int i = 0; i < step.tokens; ++i) {
    const int32_t id = step.ids.empty() ? 1000 + usage.completion_tokens + i : step.ids.at(static_cast<size_t>(i));
    chunk.token_ids.push_back(id);
    const auto& asked = running.request.sampling.logprobs;
    if (asked) chunk.logprobs.push_back(logprobs(id, *asked));
    chunk.origins.push_back({.step = running.next, .block_position = i, .drafted = step.verify ? 7 : 0});
  }
  chunk.text = step.text;
  chunk.pieces = even_pieces(step, usage.completion_tokens);
  chunk.finish = step.finish;
  const double now_ms = std::chrono::duration<double, std::milli>(steady_clock::now() - running.start).count();
  if (usage.completion_tokens == 0) usage.first_token_ms = now_ms;
  usage.total_ms = now_ms;
  usage.completion_tokens += step.tokens;
  usage.held_back_steps += step.held_back ? 1 : 0;
  if (step.verify) {
    ++usage.verify_steps;
    usage.drafted_tokens += 7;
    usage.accepted_tokens += step.tokens - 1;
    ++usage.accept_histogram[static_cast<size_t>(step.tokens - 1)];
  }
  chunk.usage = usage;
  return chunk;
}

void FakeGenerator::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    for (const std::string& id : std::exchange(to_abort_, {})) {
      const auto found = running_.find(id);
      if (found == running_.end()) continue;
      Running running = std::move(found->second);
      running_.erase(found);
      FakeStep last{.tokens = 0};
      last.finish = schedule::Finish{.reason = schedule::FinishReason::kAbort, .message = "aborted"};
      schedule::Chunk chunk = make_chunk(running, last);
      lock.unlock();
      running.sink(std::move(chunk));
      running.sink = nullptr;
      lock.lock();
      changed_.notify_all();
    }
    auto next = running_.end();
    for (auto each = running_.begin(); each != running_.end(); ++each) {
      if (next == running_.end() || each->second.due < next->second.due) next = each;
    }
    if (next == running_.end() || next->second.due > steady_clock::now()) {
      // Not wait_until(max): its arithmetic overflows.
      const auto wake = next == running_.end()
                            ? steady_clock::now() + std::chrono::seconds(1)
                            : std::min(next->second.due, steady_clock::now() + std::chrono::seconds(1));
      changed_.wait_until(lock, wake);
      continue;
    }
    schedule::Chunk chunk = make_chunk(next->second, *next->second.step);
    const schedule::ChunkSink sink = next->second.sink;
    if (chunk.finish) {
      running_.erase(next);
    } else {
      advance(next->second);
    }
    lock.unlock();
    sink(std::move(chunk));
    lock.lock();
    changed_.notify_all();
  }
}

}  // namespace strobe::serve
