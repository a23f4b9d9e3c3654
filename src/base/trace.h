// TraceRecorder: what the engine did when, as Chrome-trace JSON (chrome://tracing, Perfetto) and as a table.
//
// Off it costs one relaxed load a step. On, spans are kept in memory and written at the end: one file a stage, named
// RUN-bsN-STAGE.rank0.trace.json with N the largest batch that was seen.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"

namespace strobe {

// A step that reads prompts (decode rows may ride along) is prefill; one that only decodes is decode.
enum class TraceStage { kPrefill, kDecode };

[[nodiscard]] std::string_view to_string(TraceStage stage);

// Who is busy: the engine's thread on the host, or the stream of a device beside it.
enum class TraceRow { kEngine, kStream };

[[nodiscard]] std::string_view to_string(TraceRow row);

struct TraceSpan {
  using Clock = std::chrono::steady_clock;

  TraceStage stage = TraceStage::kDecode;
  TraceRow row = TraceRow::kEngine;
  const char* name = "";  // of static storage
  Clock::time_point begin;
  double ms = 0;
  int32_t sequences = 0;
  int32_t rows = 0;
  int32_t accepted = 0;
};

struct TraceRequest {
  std::string folder;  // exists
  std::string run;     // the files' names begin with it
  int64_t steps = 0;   // ends by itself after so many; 0: by stop()
};

struct TraceFiles {
  std::vector<std::string> paths;
  std::string summary;  // a table of time by stage, row and span; shares are those of a row
};

class TraceRecorder {
 public:
  [[nodiscard]] bool on() const { return on_.load(std::memory_order_relaxed); }

  // Errors: it records already, or the folder cannot be written.
  Result<void> start(TraceRequest request);
  // Writes the files. An Error when nothing was started, or they cannot be written; a recording that ended by itself is
  // stopped once.
  Result<TraceFiles> stop();

  // The engine's thread, when on(): all spans of one step.
  void add_step(const std::vector<TraceSpan>& spans);

 private:
  std::atomic<bool> on_ = false;
  std::mutex mutex_;
  bool started_ = false;
  TraceRequest request_;
  TraceSpan::Clock::time_point start_;
  std::vector<TraceSpan> spans_;
  int64_t steps_ = 0;
  int64_t dropped_ = 0;
};

// What a file of spans holds, and the table; pure.
[[nodiscard]] std::string to_chrome_trace(const std::vector<TraceSpan>& spans, TraceSpan::Clock::time_point start);
[[nodiscard]] std::string trace_summary(const std::vector<TraceSpan>& spans);

}  // namespace strobe
