// Server-sent events, and the pieces of JSON that the dialects share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "schedule/generator.h"
#include "serve/http.h"
#include "serve/job.h"
#include "serve/json_writer.h"

namespace strobe::serve {

constexpr std::string_view kSseDone = "data: [DONE]\n\n";

// The head of a stream of events: never cached, never held back by a proxy.
[[nodiscard]] Response sse_head();
// One event; `json` has no line ends.
[[nodiscard]] std::string sse_event(std::string_view json);

// "stop", "length", "abort".
[[nodiscard]] std::string_view finish_word(schedule::FinishReason reason);
// The stop string or token that was met, or null.
void write_matched(JsonWriter& json, const schedule::Finish& finish);

// accept_histogram[a] for a up to the longest block that can be: steps that accepted exactly a draft tokens.
void write_accept_histogram(JsonWriter& json, std::span<const int32_t> histogram, int32_t draft_block_tokens);

// Counts of one or several texts.
struct UsageTotals {
  int64_t prompt_tokens = 0;  // each prompt once, however many texts continue it
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t verify_steps = 0;
  int64_t held_back_steps = 0;
  int64_t drafted_tokens = 0;
  int64_t accepted_tokens = 0;
  std::array<int32_t, schedule::kMaxBlockTokens> accept_histogram{};
};
[[nodiscard]] UsageTotals add_up(std::span<const Choice> choices);

// The OpenAI usage object with the counts of speculation.
void write_usage(JsonWriter& json, const UsageTotals& usage, int32_t draft_block_tokens);

}  // namespace strobe::serve
