// From request fields to what the generator takes: the same for every dialect.
#pragma once

#include <cstdint>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/generator.h"
#include "serve/fields.h"
#include "serve/server_info.h"
#include "serve/text_service.h"

namespace strobe::serve {

// Random bits for seeds and ids. Safe to call from several threads at once.
class RandomBits {
 public:
  RandomBits() : engine_((uint64_t{std::random_device{}()} << 32) ^ std::random_device{}()) {}
  uint64_t next() {
    const std::lock_guard lock(mutex_);
    return engine_();
  }
  // `prefix` and 32 hexadecimal digits.
  std::string id(std::string_view prefix);

 private:
  std::mutex mutex_;
  std::mt19937_64 engine_;
};

// Tokens of one prompt, and its text when it was given as text.
struct Prompt {
  std::vector<int32_t> ids;
  std::string text;
  bool is_text = false;
};

// The refusal of a field: "request body: NAME is VALUE; accepted: ACCEPTED".
[[nodiscard]] ApiError refuse_field(std::string_view name, const nlohmann::json& value, std::string_view accepted);

// A string, an array of strings, an array of ids, or an array of arrays of ids; which of them, `texts` and `ids` say.
// `single` tells whether it was one prompt or an array of prompts. Refused: empty prompts, more than `prompts_max`, ids
// outside the vocabulary.
struct PromptForms {
  bool texts = true;
  bool ids = true;
};
Refusal read_prompts(const nlohmann::json& value, std::string_view name, PromptForms forms, const TextService& text,
                     int32_t vocab_tokens, size_t prompts_max, std::vector<Prompt>& out, bool& single);

// Token ids as an array; refuses ids outside the vocabulary.
Refusal read_ids(const nlohmann::json& value, std::string_view name, int32_t vocab_tokens, std::vector<int32_t>& out);

// The request's sampling and stop rules, but for max_new_tokens. `prefix` ("sampling_params.") stands before field
// names in messages. A missing seed is drawn.
Refusal build_sampling(const RequestFields& fields, const SamplingDefaults& defaults, int32_t vocab_tokens,
                       std::string_view prefix, RandomBits& random, schedule::GenerateRequest& out);

// Sets max_new_tokens. `asked`: the field's value, 0 when absent; `fallback` is cut to what the context leaves, a value
// that was asked for is not: then prompt and answer must fit the context.
struct LengthRule {
  std::string_view prompt_name;
  std::string_view max_name;
  std::string_view min_name;
  int64_t asked = 0;
  int64_t fallback = 0;
  int64_t context_tokens = 0;
};
Refusal build_length(const LengthRule& rule, const RequestFields& fields, schedule::GenerateRequest& out);

}  // namespace strobe::serve
