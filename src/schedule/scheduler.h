// Scheduler: many requests, one engine. A thread of its own takes requests in, plans steps, runs them and hands out
// what they emit.
//
// A request waits (first come, first served) until a running place and all the pages it may ever need are free; then
// its prompt is read in chunks, between the decode steps of the others; then it decodes until its answer ends. Rows of
// a step: every decoding request first, then prompt chunks up to the step's row limit, so decoding never waits for a
// long prompt.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "cache/page_pool.h"
#include "engine/step.h"
#include "schedule/generator.h"
#include "schedule/sequence.h"

namespace strobe::schedule {

struct SchedulerOptions {
  int32_t max_running_requests = 48;
  int32_t max_queued_requests = 1024;
  int32_t max_context_tokens = 0;  // prompt and answer of one request
  int32_t vocab = 0;
  std::vector<int32_t> eos_ids;
};

class Scheduler : public Generator {
 public:
  // Borrows all three; they must outlive it.
  Scheduler(engine::Stepper& stepper, cache::PagePool& pages, const Tokenizer& tokenizer, SchedulerOptions options);
  ~Scheduler() override;

  Result<std::string> submit(GenerateRequest request, ChunkSink sink) override;
  void abort(const std::string& id) override;
  [[nodiscard]] GeneratorStats stats() const override;

  // Refuses new requests and waits until the others have ended, at most this long; then aborts what is left.
  void drain(std::chrono::milliseconds patience);

 private:
  using SequencePtr = std::unique_ptr<Sequence>;

  void loop();
  // Moves new requests and aborts from the callers' side to the scheduler's; waits when there is nothing to do.
  bool take_in();
  void apply_aborts(const std::unordered_set<std::string>& ids);
  void admit();
  void plan_step();
  void run_step();
  void digest(const engine::StepResult& result);
  void emit_tokens(Sequence& sequence, const engine::StepOutput& output, bool decoding);
  // Sends the last chunk (with whatever `chunk` holds already) and gives back what the request had. It stays in its
  // list, without a sink, until drop_finished.
  void finish(Sequence& sequence, Finish reason, Chunk chunk = {});
  void drop_finished();
  [[nodiscard]] int32_t pages_needed(const Sequence& sequence) const;
  [[nodiscard]] int32_t block_tokens(const Sequence& sequence) const;
  void publish_stats();

  engine::Stepper& stepper_;
  cache::PagePool& pages_;
  const Tokenizer& tokenizer_;
  const SchedulerOptions options_;

  // Of the scheduler's thread.
  std::deque<SequencePtr> waiting_;
  std::vector<SequencePtr> running_;
  engine::StepPlan plan_;
  std::vector<Sequence*> planned_;  // whose part of plan_ it is
  GeneratorStats counts_;
  Clock::time_point window_start_ = Clock::now();
  int64_t window_tokens_ = 0;

  // Shared with callers.
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<SequencePtr> inbox_;
  std::unordered_set<std::string> aborts_;
  std::unordered_set<std::string> live_ids_;
  GeneratorStats published_;
  uint64_t next_id_ = 1;
  bool draining_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace strobe::schedule
