// Sequence: one request on its way through the engine. Touched by the scheduler's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cache/page_pool.h"
#include "schedule/answer_stream.h"
#include "schedule/generator.h"

namespace strobe::schedule {

using Clock = std::chrono::steady_clock;

struct Sequence {
  Sequence(GenerateRequest asked, ChunkSink to, const Tokenizer& tokenizer, std::span<const int32_t> eos_ids)
      : request(std::move(asked)),
        sink(std::move(to)),
        answer(tokenizer, request.stop, eos_ids, request.skip_special_tokens),
        tokens(request.prompt_ids) {
    usage.prompt_tokens = static_cast<int32_t>(request.prompt_ids.size());
  }

  GenerateRequest request;
  ChunkSink sink;
  AnswerStream answer;
  std::vector<int32_t> tokens;       // prompt and emitted tokens
  int32_t committed = 0;             // positions [0, committed) have their keys and values in the caches
  std::vector<cache::PageId> pages;  // page i holds positions [i * page_size, (i + 1) * page_size)
  Usage usage;
  Clock::time_point submitted = Clock::now();

  // Committed < tokens.size() - 1: still reading the prompt (or, after a preemption, its own answer) again.
  [[nodiscard]] bool prefilling() const {
    return committed + 1 < static_cast<int32_t>(tokens.size()) || usage.completion_tokens == 0;
  }
};

}  // namespace strobe::schedule
