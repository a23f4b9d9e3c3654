#include "serve/sglang_answer.h"

#include <algorithm>

#include "serve/sse.h"

namespace strobe::serve {
namespace {

// A client that is behind gets fewer, later events: each holds all the text so far, so none is missed.
constexpr size_t kLagBytes = 256 << 10;
// With log probabilities an event is long: beyond this many tokens events come after each 1/64 more of them.
constexpr int64_t kLoggedTokensShare = 64;

}  // namespace

void write_sglang_finish(JsonWriter& json, const schedule::Finish* finish, int64_t completion_tokens) {
  if (finish == nullptr) {
    json.null();
    return;
  }
  json.begin_object().field("type", finish_word(finish->reason));
  switch (finish->reason) {
    case schedule::FinishReason::kStop:
      json.key("matched");
      write_matched(json, *finish);
      break;
    case schedule::FinishReason::kLength:
      json.field("length", completion_tokens);
      break;
    case schedule::FinishReason::kAbort:
      json.field("message", finish->message);
      break;
  }
  json.end_object();
}

void SglangAnswer::write_meta(JsonWriter& json, const Choice& choice) const {
  const schedule::Usage& usage = choice.usage;
  const schedule::Finish* finish = choice.finish ? &*choice.finish : nullptr;
  json.begin_object().field("id", shape_.ids[static_cast<size_t>(choice.index)]).key("finish_reason");
  write_sglang_finish(json, finish, usage.completion_tokens);
  json.field("prompt_tokens", usage.prompt_tokens);
  json.field("completion_tokens", usage.completion_tokens);
  json.field("cached_tokens", usage.cached_tokens);
  json.field("weight_version", "default").field("num_retractions", usage.preemptions).field("reasoning_tokens", 0);
  json.null_field("dp_rank");
  if (shape_.logprobs) write_sglang_logprobs(json, *shape_.text, {choice.token_ids, choice.logprobs}, *shape_.logprobs);
  if (finish != nullptr) {
    const auto verify_steps = static_cast<double>(usage.verify_steps);
    json.field("e2e_latency", usage.total_ms / 1000).field("queue_time", usage.queue_ms / 1000);
    json.field("spec_verify_ct", usage.verify_steps).field("held_back_steps", usage.held_back_steps);
    if (usage.verify_steps > 0) {
      // SGLang's own sum: the prefill's token is in it, and so is a last step that was cut. Tokens of steps that held
      // back are not.
      json.field("spec_accept_length", (usage.completion_tokens - usage.held_back_steps) / verify_steps);
      json.field("spec_accept_rate",
                 usage.drafted_tokens == 0 ? 0.0 : static_cast<double>(usage.accepted_tokens) / usage.drafted_tokens);
    }
    for (const auto* name : {"spec_num_correct_drafts", "spec_accepted_drafts"}) {
      json.field(name, usage.accepted_tokens);
    }
    for (const auto* name : {"spec_num_proposed_drafts", "spec_proposed_drafts"}) {
      json.field(name, usage.drafted_tokens);
    }
    for (const auto* name : {"spec_correct_drafts_histogram", "spec_accept_histogram"}) {
      json.key(name);
      write_accept_histogram(json, usage.accept_histogram, shape_.draft_block_tokens);
    }
  }
  json.end_object();
}

void SglangAnswer::write_choice(JsonWriter& json, const Choice& choice, bool with_index) const {
  json.begin_object().field("text", choice.text).key("output_ids").integers(choice.token_ids).key("meta_info");
  write_meta(json, choice);
  if (with_index) json.field("index", choice.index);
  json.end_object();
}

void SglangAnswer::begin(Exchange& exchange) {
  if (shape_.stream) exchange.begin_stream(sse_head());
}

void SglangAnswer::chunk(Exchange& exchange, const Choice& choice, const schedule::Chunk& /*chunk*/) {
  if (!shape_.stream) return;
  const auto index = static_cast<size_t>(choice.index);
  const int32_t news = choice.usage.completion_tokens - sent_[index];
  const int64_t interval =
      std::max(shape_.interval[index], shape_.logprobs ? sent_[index] / kLoggedTokensShare : int64_t{0});
  // The first token always has an event of its own: clients time it.
  const bool due =
      choice.finish || (news > 0 && (sent_[index] == 0 || (news >= interval && exchange.backlog_bytes() < kLagBytes)));
  if (!due) return;
  sent_[index] = choice.usage.completion_tokens;
  JsonWriter json;
  write_choice(json, choice, shape_.list);
  exchange.write(sse_event(json.text()));
}

void SglangAnswer::finish(Exchange& exchange, std::span<const Choice> choices) {
  if (shape_.stream) {
    exchange.write(std::string(kSseDone));
    return exchange.end();
  }
  JsonWriter json;
  if (shape_.list) json.begin_array();
  for (const Choice& choice : choices) write_choice(json, choice, false);
  if (shape_.list) json.end_array();
  exchange.send({.body = json.take()});
}

void SglangAnswer::fail(Exchange& exchange, const ApiError& error) {
  if (!shape_.stream) return exchange.send(to_response(error));
  exchange.write(sse_event(to_json(error)));
  exchange.write(std::string(kSseDone));
  exchange.end();
}

}  // namespace strobe::serve
