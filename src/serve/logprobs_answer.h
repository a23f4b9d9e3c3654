// Log probabilities in the words of each dialect.
//
// One entry a token that was emitted, the one that ended the text included: as many as usage counts. A value that is no
// number (a token that cannot come) is -9999, as OpenAI has it.
#pragma once

#include <cstdint>
#include <span>

#include "engine/logprobs.h"
#include "serve/json_writer.h"
#include "serve/text_service.h"

namespace strobe::serve {

// Tokens of one text, in order.
struct LoggedTokens {
  std::span<const int32_t> ids;
  std::span<const engine::TokenLogprobs> logprobs;  // one a token
};

// /v1/completions: {tokens, token_logprobs, top_logprobs, text_offset}. A token that is not whole characters is
// "bytes:\xe2\x80". `offset`: characters of the text before the first token; moved behind the last.
void write_completion_logprobs(JsonWriter& json, const TextService& text, const LoggedTokens& tokens,
                               bool skip_special_tokens, int64_t& offset);
// Chat: {"content": [{token, logprob, bytes, top_logprobs}], "refusal": null}.
void write_chat_logprobs(JsonWriter& json, const TextService& text, const LoggedTokens& tokens);

// /generate: the fields of meta_info, [logprob, id, text or null] a token.
struct SglangLogprobsShape {
  bool top = false;        // the most likely ones were asked for
  bool with_text = false;  // return_text_in_logprobs
};
void write_sglang_logprobs(JsonWriter& json, const TextService& text, const LoggedTokens& tokens,
                           const SglangLogprobsShape& shape);

}  // namespace strobe::serve
