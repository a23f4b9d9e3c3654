// Sequence: one request on its way through the engine. Touched by the scheduler's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/page_pool.h"
#include "cache/prefix_tree.h"
#include "schedule/answer_stream.h"
#include "schedule/draft_account.h"
#include "schedule/generator.h"

namespace strobe::schedule {

using Clock = std::chrono::steady_clock;

struct Sequence {
  // draft_cost: as DraftAccount takes it.
  Sequence(GenerateRequest asked, ChunkSink to, const Tokenizer& tokenizer, std::span<const int32_t> eos_ids,
           double draft_cost)
      : request(std::move(asked)),
        sink(std::make_unique<const ChunkSink>(std::move(to))),
        answer(tokenizer, request.stop, eos_ids, request.skip_special_tokens),
        tokens(request.prompt_ids),
        drafting(request.drafting == Drafting::kAlways ? 0 : draft_cost) {
    usage.prompt_tokens = static_cast<int32_t>(request.prompt_ids.size());
  }

  GenerateRequest request;
  std::unique_ptr<const ChunkSink> sink;  // nullptr: the last chunk is on its way
  AnswerStream answer;
  std::vector<int32_t> tokens;                // prompt and emitted tokens
  int32_t committed = 0;                      // positions [0, committed) have their keys and values in the caches
  std::vector<cache::PageId> pages;           // page i holds positions [i * page_size, (i + 1) * page_size)
  cache::PrefixTree::Node* prefix = nullptr;  // the locked end of what of it is in the prefix tree
  DraftAccount drafting;
  Usage usage;
  Clock::time_point submitted = Clock::now();

  // Still reading the prompt, or, after a preemption, its text so far.
  [[nodiscard]] bool prefilling() const {
    return committed + 1 < static_cast<int32_t>(tokens.size()) || usage.completion_tokens == 0;
  }
  // What reading feeds altogether. A text that goes on leaves its last token to a decode step, as it was before the
  // preemption: its blocks begin where they would have begun.
  [[nodiscard]] int32_t tokens_to_read() const {
    return static_cast<int32_t>(tokens.size()) - (usage.completion_tokens > 0 ? 1 : 0);
  }
  // Whether feeding so many more tokens ends the reading.
  [[nodiscard]] bool reads_all_with(int64_t fed) const { return prefilling() && committed + fed == tokens_to_read(); }
  [[nodiscard]] bool timed() const { return request.timeout_ms > 0; }
  [[nodiscard]] bool expired(Clock::time_point now) const {
    return timed() && now - submitted >= std::chrono::milliseconds(request.timeout_ms);
  }
};

}  // namespace strobe::schedule
