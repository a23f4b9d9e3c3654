#include "serve/logprobs_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace strobe::serve {
namespace {

constexpr float kNever = -9999;

float shown(float logprob) {
  return std::isfinite(logprob) ? logprob : kNever;
}

// As a completion names a token: distinct also where it is a part of a character.
std::string token_name(const TextService& text, int32_t id) {
  std::string bytes = text.token_bytes(id);
  if (is_valid_utf8(bytes)) return bytes;
  std::string name = "bytes:";
  for (const char c : bytes) fmt::format_to(std::back_inserter(name), "\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

// How many characters begin in the token's part of the text.
int64_t characters(const TextService& text, int32_t id, bool skip_special_tokens) {
  if (text.decode({&id, 1}, skip_special_tokens).empty()) return 0;
  const std::string bytes = text.token_bytes(id);
  return std::count_if(bytes.begin(), bytes.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

void write_chat_token(JsonWriter& json, const TextService& text, int32_t id, float logprob) {
  const std::string bytes = text.token_bytes(id);
  json.field("token", bytes).key("logprob").number(shown(logprob)).key("bytes").begin_array();
  for (const char c : bytes) json.integer(static_cast<unsigned char>(c));
  json.end_array();
}

void write_sglang_token(JsonWriter& json, const TextService& text, int32_t id, float logprob, bool with_text) {
  json.begin_array().number(shown(logprob)).integer(id);
  if (with_text) {
    json.string(text.decode({&id, 1}, false));
  } else {
    json.null();
  }
  json.end_array();
}

void write_top_of_completion(JsonWriter& json, const TextService& text, const engine::TokenLogprobs& token) {
  std::vector<std::string> names;  // a name may stand only once: the more likely token has it
  json.begin_object();
  for (const auto& [id, logprob] : token.top) {
    std::string name = token_name(text, id);
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    json.key(name).number(shown(logprob));
    names.push_back(std::move(name));
  }
  json.end_object();
}

}  // namespace

void write_completion_logprobs(JsonWriter& json, const TextService& text, const LoggedTokens& tokens,
                               bool skip_special_tokens, int64_t& offset) {
  json.begin_object().key("tokens").begin_array();
  for (const int32_t id : tokens.ids) json.string(token_name(text, id));
  json.end_array().key("token_logprobs").begin_array();
  for (const auto& token : tokens.logprobs) json.number(shown(token.logprob));
  json.end_array().key("top_logprobs").begin_array();
  for (const auto& token : tokens.logprobs) write_top_of_completion(json, text, token);
  json.end_array().key("text_offset").begin_array();
  for (const int32_t id : tokens.ids) {
    json.integer(offset);
    offset += characters(text, id, skip_special_tokens);
  }
  json.end_array().end_object();
}

void write_chat_logprobs(JsonWriter& json, const TextService& text, const LoggedTokens& tokens) {
  json.begin_object().key("content").begin_array();
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    const engine::TokenLogprobs& token = tokens.logprobs[i];
    json.begin_object();
    write_chat_token(json, text, tokens.ids[i], token.logprob);
    json.key("top_logprobs").begin_array();
    for (const auto& [id, logprob] : token.top) {
      json.begin_object();
      write_chat_token(json, text, id, logprob);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().null_field("refusal").end_object();
}

void write_sglang_logprobs(JsonWriter& json, const TextService& text, const LoggedTokens& tokens,
                           const SglangLogprobsShape& shape) {
  json.key("input_token_logprobs").begin_array().end_array();
  json.key("output_token_logprobs").begin_array();
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    write_sglang_token(json, text, tokens.ids[i], tokens.logprobs[i].logprob, shape.with_text);
  }
  json.end_array();
  if (!shape.top) return;
  json.key("input_top_logprobs").begin_array().end_array();
  json.key("output_top_logprobs").begin_array();
  for (const auto& token : tokens.logprobs) {
    json.begin_array();
    for (const auto& [id, logprob] : token.top) write_sglang_token(json, text, id, logprob, shape.with_text);
    json.end_array();
  }
  json.end_array();
}

}  // namespace strobe::serve
