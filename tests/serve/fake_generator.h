// FakeGenerator: a Generator that plays scripts from a thread of its own, as the scheduler would.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "schedule/generator.h"

namespace strobe::serve {

// One chunk. Token ids are made up: 1000, 1001, ... in each request.
struct FakeStep {
  int tokens = 1;
  std::string text;
  bool verify = false;  // a step with a draft of 7 tokens, of which tokens - 1 were accepted
  std::optional<schedule::Finish> finish;
  std::chrono::milliseconds delay{0};  // after the step before
  std::vector<int32_t> ids = {};       // not empty: of the tokens, instead of made-up ones
  bool held_back = false;              // a step of one token, without a draft for it would not pay
};

class FakeGenerator final : public schedule::Generator {
 public:
  // Step number `k` of a request; nullopt: nothing until it is aborted.
  using Script = std::function<std::optional<FakeStep>(const schedule::GenerateRequest&, int k)>;

  // Words up to max_new_tokens: " w0" alone, then steps of up to three.
  static Script words(std::chrono::milliseconds delay = std::chrono::milliseconds(0));
  // These steps.
  static Script steps(std::vector<FakeStep> steps);
  // Nothing, ever.
  static Script silence();
  // A word after each delay, without end.
  static Script endless(std::chrono::milliseconds delay, std::string word = "word ");

  // Said of a token when the request asks for log probabilities: of the token and of the `top` ids from it on.
  static engine::TokenLogprobs logprobs(int32_t id, int32_t top);

  // Called with each request before anything else, on the caller's thread. To be set before the first.
  std::function<void(const schedule::GenerateRequest&)> on_submit;

  FakeGenerator();
  ~FakeGenerator() override;

  Result<std::string> submit(schedule::GenerateRequest request, schedule::ChunkSink sink) override;
  void abort(const std::string& id) override;
  // Counts; an Error while a request lives.
  Result<void> flush_cache() override;
  [[nodiscard]] schedule::GeneratorStats stats() const override;

  // For requests submitted from now on.
  void play(Script script);
  // The next submits are refused with this message; empty: not.
  void refuse_with(std::string message);
  void set_stats(schedule::GeneratorStats stats);

  [[nodiscard]] std::vector<schedule::GenerateRequest> requests() const;
  [[nodiscard]] int aborts() const { return aborts_; }  // of live requests
  [[nodiscard]] int live() const;
  [[nodiscard]] int flushes() const;
  // Waits for it, a minute at most.
  [[nodiscard]] bool wait_until_live(int count) const;
  [[nodiscard]] bool wait_until_submitted(size_t count) const;

 private:
  struct Running {
    schedule::GenerateRequest request;
    schedule::ChunkSink sink;
    Script script;
    int next = 0;
    std::chrono::steady_clock::time_point due;
    std::optional<FakeStep> step;
    schedule::Usage usage;
    std::chrono::steady_clock::time_point start;
  };
  void run();
  static void advance(Running& running);
  static schedule::Chunk make_chunk(Running& running, const FakeStep& step);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<std::string, Running> running_;
  std::vector<std::string> to_abort_;
  std::vector<schedule::GenerateRequest> requests_;
  Script script_ = words();
  std::string refusal_;
  schedule::GeneratorStats stats_;
  std::atomic<int> aborts_ = 0;
  int made_ids_ = 0;
  int flushes_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace strobe::serve
