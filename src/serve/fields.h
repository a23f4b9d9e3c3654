// The request fields: one table for parsing, for refusing and for docs/REQUEST_FIELDS.md.
//
// Every field of every request body stands in the table with what is done about it. Applied fields are checked and
// stored; ignored ones are accepted for the sake of clients that send them and change nothing; refused ones name
// something that is not served, and anything but a value that leaves it off is a 400. A field that is not in the table
// is a 400 too, so that a misspelt one cannot be lost in silence. JSON null always counts as absent.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/api_error.h"

namespace strobe::serve {

// Empty: all is well.
using Refusal = std::optional<ApiError>;

// The kinds of request body; bits, so that a row can name several.
enum Dialect : unsigned {
  kCompletions = 1,     // POST /v1/completions
  kChat = 2,            // POST /v1/chat/completions
  kGenerate = 4,        // POST /generate
  kSamplingParams = 8,  // `sampling_params` inside it
  kStreamOptions = 16,  // `stream_options` of the OpenAI endpoints
  kTokenize = 32,       // POST /tokenize
  kDetokenize = 64,     // POST /detokenize
  kAbortRequest = 128,  // POST /abort_request
};

// The values of one body, as far as they were given. Raw JSON points into the body, which must outlive this.
struct RequestFields {
  using Raw = const nlohmann::json*;

  // What to write
  std::optional<std::string> model;
  Raw prompt = nullptr;
  Raw messages = nullptr;
  Raw text = nullptr;
  Raw input_ids = nullptr;
  Raw chat_template_kwargs = nullptr;
  Raw tokens = nullptr;

  // How to answer
  std::optional<bool> stream;
  Raw stream_options = nullptr;
  std::optional<bool> include_usage;
  std::optional<bool> continuous_usage_stats;
  std::optional<int64_t> stream_interval;
  std::optional<bool> echo;
  std::optional<bool> return_token_ids;
  std::optional<bool> return_token_origins;
  std::optional<bool> skip_special_tokens;
  Raw rid = nullptr;
  std::optional<bool> abort_all;
  std::optional<std::string> speculative;

  // How tokens are chosen
  Raw sampling_params = nullptr;
  std::optional<int64_t> n;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<int64_t> seed;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<double> repetition_penalty;
  Raw logit_bias = nullptr;

  // What is said about the tokens
  std::optional<int64_t> logprobs;    // completions: how many most likely ones
  std::optional<bool> want_logprobs;  // chat and /generate
  std::optional<int64_t> top_logprobs;
  std::optional<int64_t> logprob_start_len;
  std::optional<bool> text_in_logprobs;

  // When it ends
  std::optional<int64_t> max_tokens;
  std::optional<int64_t> max_completion_tokens;
  std::optional<int64_t> min_tokens;
  Raw stop = nullptr;
  Raw stop_token_ids = nullptr;
  std::optional<bool> ignore_eos;
  std::optional<int64_t> timeout_ms;
  std::optional<bool> include_stop;
};

enum class FieldUse { kApplied, kIgnored, kRefused };

struct FieldRange {
  double min = 0;
  double max = 0;  // min == max: no limits
  bool above_min = false;
  bool below_max = false;
};

struct Field {
  using Slot = std::variant<std::monostate, std::optional<bool> RequestFields::*,
                            std::optional<int64_t> RequestFields::*, std::optional<double> RequestFields::*,
                            std::optional<std::string> RequestFields::*, RequestFields::Raw RequestFields::*>;

  std::string_view name;
  unsigned dialects = 0;
  FieldUse use = FieldUse::kApplied;
  Slot slot;              // of applied fields
  FieldRange range;       // of numbers
  std::string_view type;  // in words, where the slot does not tell it
  std::string_view off;   // of refused fields: a JSON array of the values that leave it off, null aside
  std::string_view meaning;
};

// All rows, in the order of the documentation.
[[nodiscard]] std::span<const Field> request_fields();
// "a number from 0 to 100": what the field takes.
[[nodiscard]] std::string accepted_values(const Field& field);

// Reads `body`, which must be an object, as `dialect`. `where` begins the messages ("request body"); `param_prefix`
// stands before the field's name in ApiError::param.
Refusal read_fields(const nlohmann::json& body, Dialect dialect, std::string_view where, std::string_view param_prefix,
                    RequestFields& out);

// The text of docs/REQUEST_FIELDS.md.
[[nodiscard]] std::string request_fields_markdown();

}  // namespace strobe::serve
