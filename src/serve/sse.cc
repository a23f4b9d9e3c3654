#include "serve/sse.h"

#include <algorithm>

namespace strobe::serve {

Response sse_head() {
  return {.content_type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};
}

std::string sse_event(std::string_view json) {
  std::string event;
  event.reserve(json.size() + 8);
  event += "data: ";
  event += json;
  event += "\n\n";
  return event;
}

std::string_view finish_word(schedule::FinishReason reason) {
  switch (reason) {
    case schedule::FinishReason::kStop:
      return "stop";
    case schedule::FinishReason::kLength:
      return "length";
    case schedule::FinishReason::kAbort:
      return "abort";
  }
  return "abort";
}

void write_matched(JsonWriter& json, const schedule::Finish& finish) {
  if (finish.matched_string) {
    json.string(*finish.matched_string);
  } else if (finish.matched_token) {
    json.integer(*finish.matched_token);
  } else {
    json.null();
  }
}

void write_accept_histogram(JsonWriter& json, std::span<const int32_t> histogram, int32_t draft_block_tokens) {
  size_t shown = draft_block_tokens > 1 ? static_cast<size_t>(draft_block_tokens) : 0;
  for (size_t i = shown; i < histogram.size(); ++i) {
    if (histogram[i] != 0) shown = i + 1;
  }
  json.integers(histogram.first(std::min(shown, histogram.size())));
}

UsageTotals add_up(std::span<const Choice> choices) {
  UsageTotals sum;
  int last_prompt = -1;
  for (const Choice& choice : choices) {  // in order of their prompts
    const schedule::Usage& usage = choice.usage;
    if (choice.prompt_index != last_prompt) {
      sum.prompt_tokens += usage.prompt_tokens;
      sum.cached_tokens += usage.cached_tokens;
    }
    last_prompt = choice.prompt_index;
    sum.completion_tokens += usage.completion_tokens;
    sum.verify_steps += usage.verify_steps;
    sum.held_back_steps += usage.held_back_steps;
    sum.drafted_tokens += usage.drafted_tokens;
    sum.accepted_tokens += usage.accepted_tokens;
    for (size_t i = 0; i < sum.accept_histogram.size(); ++i) sum.accept_histogram[i] += usage.accept_histogram[i];
  }
  return sum;
}

void write_usage(JsonWriter& json, const UsageTotals& usage, int32_t draft_block_tokens) {
  json.begin_object();
  json.field("prompt_tokens", usage.prompt_tokens);
  json.field("completion_tokens", usage.completion_tokens);
  json.field("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  json.key("prompt_tokens_details").begin_object().field("cached_tokens", usage.cached_tokens).end_object();
  json.field("spec_verify_ct", usage.verify_steps);
  json.field("held_back_steps", usage.held_back_steps);
  json.field("drafted_tokens", usage.drafted_tokens);
  json.field("accepted_tokens", usage.accepted_tokens);
  json.field("accept_length", schedule::accept_length(usage.accepted_tokens, usage.verify_steps));
  json.key("accept_histogram");
  write_accept_histogram(json, usage.accept_histogram, draft_block_tokens);
  json.end_object();
}

}  // namespace strobe::serve
