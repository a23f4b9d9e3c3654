// Scheduler: many requests, one engine. A thread of its own takes requests in, plans steps, runs them and hands out
// what they emit. Start reading at loop() in scheduler.cc.
//
// A request waits (first come, first served) until a running place and the pages of its text are free; what of the text
// is in the prefix tree needs no pages and no reading. The rest is read in chunks, between the decode steps of the
// others; then it decodes, taking pages as it grows, until its answer ends. When no page is left, the youngest running
// request gives its own back and waits again, at the head of the queue: nothing of it is lost, for its text is read
// again, and what follows is what would have followed.
//
// Rows of a step: every decoding request first, then prompt chunks up to a limit, so decoding never waits for a long
// prompt. While a step runs, the chunks of the step before are delivered (postman.h) and the step after is prepared:
// new requests are taken in and admitted to free places, and running ones get the pages they may reach (lookahead.h).
// Only what depends on the step's tokens is done between two steps.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cache/page_pool.h"
#include "cache/prefix_tree.h"
#include "engine/step.h"
#include "schedule/generator.h"
#include "schedule/lookahead.h"
#include "schedule/postman.h"
#include "schedule/sequence.h"
#include "schedule/step_trace.h"

namespace strobe::schedule {

struct SchedulerOptions {
  int32_t max_running_requests = 48;
  int32_t max_queued_requests = 1024;
  int32_t max_context_tokens = 0;  // prompt and answer of one request
  int32_t vocab = 0;
  std::vector<int32_t> eos_ids;
  bool prefix_cache = true;
  int32_t chunk_tokens = 0;  // prompt tokens read in one step by all requests together; 0: as many as the step has rows
  DraftCost draft_cost;      // draft_account.h
  TraceRecorder* trace = nullptr;  // profiles of the steps; may be null
};

class Scheduler : public Generator {
 public:
  // Borrows all three; they must outlive it. The pool's pages are the scheduler's alone until its end.
  Scheduler(engine::Stepper& stepper, cache::PagePool& pages, const Tokenizer& tokenizer, SchedulerOptions options);
  ~Scheduler() override;

  Result<std::string> submit(GenerateRequest request, ChunkSink sink) override;
  void abort(const std::string& id) override;
  Result<void> flush_cache() override;
  [[nodiscard]] GeneratorStats stats() const override;

  // Refuses new requests and waits until the others have ended, at most this long; then aborts what is left.
  void drain(std::chrono::milliseconds patience);

 private:
  using SequencePtr = std::unique_ptr<Sequence>;

  // submit.cc, any thread
  Result<void> check(GenerateRequest& request) const;

  void loop();
  // Moves new requests and aborts from the callers' side to the scheduler's; waits when there is nothing to do.
  bool take_in();
  void move_inbox();  // under the lock
  void apply_aborts(const std::unordered_set<std::string>& ids);
  void apply_timeouts();
  void admit();
  // Takes pages for positions [0, reach), from the prefix tree if need be; false when there are not enough.
  bool grow(Sequence& sequence, int32_t reach);
  // The youngest running request's pages for the others.
  void preempt_youngest();
  void make_room_for_decoding();
  void plan_step();
  // While a step runs, on another thread. What it does, the thread that waits for the step would otherwise do after it.
  void prepare_next_step();
  // Positions that a planned request's next step may fill.
  [[nodiscard]] int32_t next_reach(const Sequence& sequence, const engine::StepSequence& planned) const;
  // At most `rows` rows of one request; returns how many it takes.
  int32_t plan_part(Sequence& sequence, int32_t rows);
  void run_step();
  void digest(engine::StepResult& result);
  void emit_tokens(Sequence& sequence, engine::StepOutput output, bool decoding);
  // A decode step's, before its tokens are emitted.
  void count_drafting(Sequence& sequence, const engine::StepOutput& output);
  void count_verify(Usage& usage, const engine::StepOutput& output);
  // What is committed of the text becomes known to others.
  void remember(Sequence& sequence);
  void release_pages(Sequence& sequence);
  // Posts the last chunk (with whatever `last`, the newest of letters_, holds already) and gives back what the request
  // had. It stays in its list, without a sink, until drop_finished.
  void finish(Sequence& sequence, Finish reason, Letter& last);
  void finish(Sequence& sequence, Finish reason) { finish(sequence, std::move(reason), letters_.emplace_back()); }
  void drop_finished();
  // Positions that a request may ever fill.
  [[nodiscard]] int32_t longest_reach(const GenerateRequest& request) const;
  [[nodiscard]] int32_t block_tokens(const Sequence& sequence) const;
  [[nodiscard]] int32_t available_pages() const { return pages_.free_pages() + tree_.evictable_pages(); }
  // With nothing running, every page is free or in the tree.
  void check_idle_pages() const;
  void publish_counts();
  void publish();

  engine::Stepper& stepper_;
  cache::PagePool& pages_;
  const Tokenizer& tokenizer_;
  const SchedulerOptions options_;

  // Of the scheduler's thread, and of lookahead_ while that thread waits for a step.
  cache::PrefixTree tree_;
  std::deque<SequencePtr> waiting_;
  std::vector<SequencePtr> running_;  // in the order of their admission
  int64_t timed_requests_ = 0;        // of waiting_ and running_: those with a time limit
  int32_t hopeless_pages_ = -1;       // so few available pages were not enough for the head of the queue
  engine::StepPlan plan_;
  std::vector<Sequence*> planned_;  // whose part of plan_ it is
  bool planned_growth_ = false;     // one of them may want pages for its next step
  bool planned_knowledge_ = false;  // one of them will have read its text, and others may begin like it
  std::vector<Letter> letters_;     // to be posted when the books are closed
  Clock::time_point now_;           // when the newest step had ended
  GeneratorStats counts_;
  Clock::time_point window_start_ = Clock::now();
  int64_t window_tokens_ = 0;
  StepTrace trace_;

  // Shared with callers.
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<SequencePtr> inbox_;
  std::unordered_set<std::string> aborts_;
  std::unordered_set<std::string> live_ids_;
  GeneratorStats published_;
  uint64_t next_id_ = 1;
  bool quiet_ = true;  // no request lives, and what there was to say is posted
  bool flushing_ = false;
  bool draining_ = false;
  bool stopping_ = false;
  Lookahead lookahead_;
  std::thread thread_;
  Postman postman_;  // the last member: at the end its sinks may still ask the others
};

}  // namespace strobe::schedule
