#include "serve/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/json_fields.h"
#include "base/nearest_name.h"

namespace strobe::serve {
namespace {

using nlohmann::json;
using F = RequestFields;

constexpr unsigned kOpenAi = kCompletions | kChat;
constexpr unsigned kSampling = kOpenAi | kSamplingParams;
constexpr unsigned kBodies = kOpenAi | kGenerate;
constexpr FieldUse kIgnored = FieldUse::kIgnored;
constexpr FieldUse kRefused = FieldUse::kRefused;

constexpr FieldRange kAny{};
constexpr FieldRange kCount{.min = 1, .max = 1 << 20};
constexpr FieldRange kCountOrZero{.min = 0, .max = 1 << 20};
constexpr FieldRange kPenalty{.min = -2, .max = 2};

Field applied(std::string_view name, unsigned dialects, Field::Slot slot, FieldRange range, std::string_view meaning) {
  return {.name = name, .dialects = dialects, .slot = slot, .range = range, .meaning = meaning};
}
Field raw(std::string_view name, unsigned dialects, F::Raw F::*slot, std::string_view type, std::string_view meaning) {
  return {.name = name, .dialects = dialects, .slot = slot, .type = type, .meaning = meaning};
}
Field ignored(std::string_view name, unsigned dialects, std::string_view meaning) {
  return {.name = name, .dialects = dialects, .use = kIgnored, .type = "anything", .meaning = meaning};
}
Field refused(std::string_view name, unsigned dialects, std::string_view off, std::string_view meaning) {
  return {.name = name, .dialects = dialects, .use = kRefused, .off = off, .meaning = meaning};
}

std::vector<Field> make_table() {
  return {
      // What to write
      applied("model", kBodies | kTokenize | kDetokenize, &F::model, kAny,
              "the served model's name; absent: the served model"),
      raw("prompt", kCompletions | kTokenize, &F::prompt,
          "a string, an array of strings, an array of token ids, or an array of such arrays",
          "the text to continue; an array of strings or of arrays is one request each (/tokenize: no token ids)"),
      raw("messages", kChat, &F::messages, "an array of messages",
          "the conversation: objects with `role` and `content` (a string, or an array of parts of type text)"),
      raw("text", kGenerate, &F::text, "a string or an array of strings", "the text to continue"),
      raw("input_ids", kGenerate, &F::input_ids, "an array of token ids or an array of such arrays",
          "the tokens to continue, instead of `text`"),
      raw("chat_template_kwargs", kChat, &F::chat_template_kwargs, "an object", "variables for the chat template"),
      raw("tokens", kDetokenize, &F::tokens, "an array of token ids or an array of such arrays", "the tokens to read"),

      // How tokens are chosen
      raw("sampling_params", kGenerate, &F::sampling_params, "an object, or an array with one object for each prompt",
          "the fields of this table that are marked `sampling_params`"),
      applied("n", kSampling, &F::n, {.min = 1, .max = 128}, "how many texts for each prompt"),
      applied("temperature", kSampling, &F::temperature, {.min = 0, .max = 100},
              "divides the logits; below 1e-6: always the most likely token. Default 1, OpenAI endpoints: "
              "generation_config.json's"),
      applied("top_p", kSampling, &F::top_p, {.min = 0, .max = 1, .above_min = true},
              "keeps the most likely tokens that together have this probability. Default as temperature"),
      applied("top_k", kSampling, &F::top_k, {.min = -1, .max = 1 << 20},
              "keeps this many most likely tokens; -1 or 0: all. Default as temperature"),
      applied("min_p", kSampling, &F::min_p, {.min = 0, .max = 1, .below_max = true},
              "drops tokens less likely than this times the most likely one. Default as temperature"),
      applied("seed", kSampling, &F::seed, kAny,
              "of the request's own random stream, whose text is the same with drafts and without; text number i of n "
              "uses seed + i. Default: drawn"),
      applied("sampling_seed", kSamplingParams, &F::seed, kAny, "the same as seed"),
      applied("presence_penalty", kSampling, &F::presence_penalty, kPenalty,
              "subtracted from the logit of every token that the answer already has"),
      applied("frequency_penalty", kSampling, &F::frequency_penalty, kPenalty,
              "subtracted once for each time that the answer has the token"),
      applied("repetition_penalty", kSampling, &F::repetition_penalty, {.min = 0, .max = 2, .above_min = true},
              "divides positive and multiplies negative logits of tokens seen so far. Default as temperature"),
      raw("logit_bias", kSampling, &F::logit_bias, "an object: token id to a number from -100 to 100",
          "added to the logits of these tokens"),
      applied("speculative", kBodies, &F::speculative, kAny,
              "`auto`: draft tokens where the server has a draft and as long as it pays; `always`: also when it does "
              "not; `off`: plain decoding. The text is the same"),

      // When it ends
      applied("max_tokens", kOpenAi, &F::max_tokens, kCount,
              "at most so many tokens. Default: 16 for completions, what the context leaves for chat"),
      applied("max_completion_tokens", kChat, &F::max_completion_tokens, kCount, "the newer name of max_tokens"),
      applied("max_new_tokens", kSamplingParams, &F::max_tokens, kCount, "at most so many tokens. Default 128"),
      applied("min_tokens", kOpenAi, &F::min_tokens, kCountOrZero, "no end before so many tokens"),
      applied("min_new_tokens", kSamplingParams, &F::min_tokens, kCountOrZero, "no end before so many tokens"),
      raw("stop", kSampling, &F::stop, "a string, or an array of up to 64 strings, each of 1 to 1024 bytes",
          "the text ends before the first of these"),
      raw("stop_token_ids", kSampling, &F::stop_token_ids, "an array of up to 1024 token ids",
          "the text ends at the first of these"),
      applied("ignore_eos", kSampling, &F::ignore_eos, kAny, "the model's own end tokens do not end the text"),
      applied(
          "timeout_ms", kBodies, &F::timeout_ms, {.min = 1, .max = 86'400'000},
          "the request is aborted, and answered with 504, when it is not complete after so long. Default: no limit"),
      applied("no_stop_trim", kSampling, &F::include_stop, kAny, "leaves the stop string or token in the text"),
      applied("include_stop_str_in_output", kOpenAi, &F::include_stop, kAny, "the same as no_stop_trim"),

      // How to answer
      applied("stream", kBodies, &F::stream, kAny, "server-sent events instead of one answer"),
      raw("stream_options", kOpenAi, &F::stream_options, "an object", "with `stream` only"),
      applied("include_usage", kStreamOptions, &F::include_usage, kAny, "a last event with the usage"),
      applied("continuous_usage_stats", kStreamOptions, &F::continuous_usage_stats, kAny, "the usage in every event"),
      refused("include_obfuscation", kStreamOptions, "[false]", "padding of events"),
      applied("stream_interval", kSamplingParams, &F::stream_interval, kCount,
              "an event after so many tokens (the first token always has its own). Default 1"),
      applied("echo", kCompletions, &F::echo, kAny, "the prompt stands before the answer"),
      applied("return_token_ids", kOpenAi, &F::return_token_ids, kAny, "`token_ids` beside the text of each choice"),
      applied(
          "return_token_origins", kOpenAi, &F::return_token_origins, kAny,
          "`token_origins` beside the text of each choice: step and block position of each token, and the text cut by "
          "tokens"),
      applied(
          "logprobs", kCompletions, &F::logprobs, {.min = 0, .max = 20},
          "the log probability of each token and of this many most likely ones at its place, as the model has them: "
          "before logit_bias, penalties and temperature. Not with `echo`: the prompt's are not served"),
      applied("logprobs", kChat, &F::want_logprobs, kAny,
              "the log probability of each token, as the model has it: before logit_bias, penalties and temperature"),
      applied("top_logprobs", kChat, &F::top_logprobs, {.min = 0, .max = 20},
              "with `logprobs` only: this many most likely tokens beside each"),
      applied(
          "return_logprob", kGenerate, &F::want_logprobs, kAny,
          "output_token_logprobs in meta_info: as the model has them, before logit_bias, penalties and temperature"),
      applied("top_logprobs_num", kGenerate, &F::top_logprobs, {.min = 0, .max = 128},
              "output_top_logprobs beside them: this many most likely tokens"),
      applied("logprob_start_len", kGenerate, &F::logprob_start_len, {.min = -1, .max = 1 << 20},
              "with `return_logprob`: -1 or the length of the prompt; the prompt's own are not served"),
      applied("return_text_in_logprobs", kGenerate, &F::text_in_logprobs, kAny, "the text of each token beside its id"),
      applied("skip_special_tokens", kSampling | kDetokenize, &F::skip_special_tokens, kAny,
              "leaves special tokens out of the text. Default true"),
      raw("rid", kBodies | kAbortRequest, &F::rid, "a string of 1 to 256 bytes (/generate: or an array of them)",
          "the request's id, for /abort_request. Default: drawn"),
      applied("abort_all", kAbortRequest, &F::abort_all, kAny, "aborts every request"),

      // Accepted without effect
      ignored("user", kOpenAi, "who asks"),
      ignored("metadata", kOpenAi, "notes of the client"),
      ignored("safety_identifier", kOpenAi, "who asks"),
      ignored("prompt_cache_key", kOpenAi, "prefixes are shared by content"),
      ignored("service_tier", kOpenAi, "there is one"),
      ignored("store", kOpenAi, "nothing is stored"),
      ignored("log_metrics", kGenerate, "metrics are always kept"),
      ignored("no_logs", kBodies, "the log has no texts"),
      ignored("conversation_id", kGenerate, "prefixes are shared by content"),
      ignored("user_id", kGenerate, "who asks"),
      ignored("received_time", kGenerate, "a note of a router"),
      ignored("validation_time", kGenerate, "a note of a router"),
      ignored("custom_labels", kBodies, "labels of metrics"),
      ignored("abort_message", kAbortRequest, "a note of the client"),
      ignored("spaces_between_special_tokens", kSampling, "the tokenizer adds none"),
      ignored("add_special_tokens", kTokenize, "the tokenizer adds none"),
      ignored("parallel_tool_calls", kChat, "without tools there are none"),

      // Not served
      refused("token_ids_logprob", kGenerate, "[[]]", "log probabilities of named tokens"),
      refused("best_of", kCompletions, "[1]", "the best of several texts"),
      refused("suffix", kCompletions, R"([""])", "filling in the middle"),
      refused("response_format", kOpenAi, R"([{"type":"text"}])", "output held to a grammar"),
      refused("json_schema", kSampling, "[]", "output held to a grammar"),
      refused("regex", kSampling, "[]", "output held to a grammar"),
      refused("ebnf", kSampling, "[]", "output held to a grammar"),
      refused("structural_tag", kSampling, "[]", "output held to a grammar"),
      refused("stop_regex", kSampling, "[[]]", "ending at a pattern"),
      refused("custom_params", kSampling, "[{}]", "parameters of a custom logit processor"),
      refused("custom_logit_processor", kBodies, "[]", "custom logit processors"),
      refused("tools", kChat, "[[]]", "tool calls"),
      refused("tool_choice", kChat, R"(["none","auto"])", "tool calls"),
      refused("functions", kChat, "[[]]", "tool calls"),
      refused("function_call", kChat, R"(["none","auto"])", "tool calls"),
      refused("reasoning_effort", kChat, "[]",
              "degrees of thinking; templates that have them take them in "
              "chat_template_kwargs"),
      refused("separate_reasoning", kChat, "[false]", "splitting thoughts from the answer"),
      refused("stream_reasoning", kChat, "[false,true]", "splitting thoughts from the answer"),
      refused("continue_final_message", kChat, "[false]", "continuing an assistant message"),
      refused("modalities", kChat, R"([["text"]])", "output other than text"),
      refused("audio", kChat, "[]", "sound"),
      refused("prediction", kChat, "[]", "predicted output; the draft model does this"),
      refused("web_search_options", kChat, "[]", "searching"),
      refused("verbosity", kChat, "[]", "degrees of length"),
      refused("input_embeds", kGenerate, "[]", "embeddings as input"),
      refused("image_data", kGenerate, "[[]]", "images"),
      refused("video_data", kGenerate, "[[]]", "video"),
      refused("audio_data", kGenerate, "[[]]", "sound"),
      refused("return_hidden_states", kBodies, "[false]", "hidden states"),
      refused("background", kBodies, "[false]", "answers that are fetched later"),
      refused("return_bytes", kGenerate, "[false]", "results as bytes"),
      refused("return_entropy", kGenerate, "[false]", "entropies"),
      refused("return_prompt_token_ids", kBodies, "[false]", "the prompt's ids in the answer; /tokenize has them"),
      refused("extra_key", kBodies, R"([""])", "prefixes kept apart by a key"),
      refused("lora_id", kBodies, R"(["",[]])", "LoRA adapters"),
      refused("return_routed_experts", kBodies, "[false]", "routing of experts"),
      refused("lora_path", kBodies, R"(["",[]])", "LoRA adapters"),
      refused("session_params", kBodies, "[{}]", "sessions"),
      refused("priority", kBodies, "[0]", "priorities"),
      refused("data_parallel_rank", kBodies, "[0]", "data parallel ranks"),
      refused("bootstrap_host", kBodies, "[]", "disaggregated prefill"),
      refused("bootstrap_port", kBodies, "[]", "disaggregated prefill"),
      refused("bootstrap_room", kBodies, "[]", "disaggregated prefill"),
  };
}

constexpr std::array<std::pair<Dialect, std::string_view>, 8> kDialectNames = {{
    {kCompletions, "/v1/completions"},
    {kChat, "/v1/chat/completions"},
    {kGenerate, "/generate"},
    {kSamplingParams, "sampling_params"},
    {kStreamOptions, "stream_options"},
    {kTokenize, "/tokenize"},
    {kDetokenize, "/detokenize"},
    {kAbortRequest, "/abort_request"},
}};

const Field* find_field(std::string_view name, Dialect dialect) {
  for (const Field& field : request_fields()) {
    if (field.name == name && (field.dialects & dialect) != 0) return &field;
  }
  return nullptr;
}

ApiError unknown_field(std::string_view name, Dialect dialect, std::string_view where, std::string param) {
  constexpr size_t kLongestName = 64;
  const auto* shown = std::find_if(kDialectNames.begin(), kDialectNames.end(),
                                   [&](const auto& entry) { return entry.first == dialect; });
  std::string message = fmt::format("{}: {} is not a field of {}", where,
                                    describe(json(std::string(name.substr(0, kLongestName)))), shown->second);
  std::vector<std::string_view> names;
  for (const Field& field : request_fields()) {
    if ((field.dialects & dialect) != 0) names.push_back(field.name);
  }
  const std::string_view nearest = nearest_name(name, names);
  if (!nearest.empty()) message += fmt::format("; did you mean '{}'?", nearest);
  return {.message = std::move(message), .param = std::move(param), .code = "unknown_field"};
}

bool in_range(const FieldRange& range, double value) {
  if (range.min == range.max) return true;
  return (range.above_min ? value > range.min : value >= range.min) &&
         (range.below_max ? value < range.max : value <= range.max);
}

std::string range_text(std::string_view kind, const FieldRange& range) {
  if (range.min == range.max) return std::string(kind);
  return fmt::format("{} {} {} {} {}", kind, range.above_min ? "above" : "from", range.min,
                     range.below_max ? "and below" : "to", range.max);
}

template <class T>
Result<void> store_typed(const JsonFields& fields, const Field& field, std::optional<T> RequestFields::*slot,
                         RequestFields& out) {
  auto value = fields.get_if<T>(field.name);
  if (!value) return fields.refuse(field.name, accepted_values(field));
  if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
    if (!in_range(field.range, static_cast<double>(**value))) {
      return fields.refuse(field.name, accepted_values(field));
    }
  }
  out.*slot = std::move(*value);
  return {};
}

Result<void> store(const JsonFields& fields, const Field& field, RequestFields& out) {
  return std::visit(
      [&](auto slot) -> Result<void> {
        using Slot = decltype(slot);
        if constexpr (std::is_same_v<Slot, std::monostate>) {
          STROBE_CHECK(false, "the field {} has no slot", field.name);
          return {};
        } else if constexpr (std::is_same_v<Slot, RequestFields::Raw RequestFields::*>) {
          out.*slot = fields.find(field.name);
          return {};
        } else {
          return store_typed(fields, field, slot, out);
        }
      },
      field.slot);
}

bool is_off(const Field& field, const json& value) {
  const json off = json::parse(field.off);
  return std::find(off.begin(), off.end(), value) != off.end();
}

}  // namespace

std::span<const Field> request_fields() {
  static const std::vector<Field> table = make_table();
  return table;
}

std::string accepted_values(const Field& field) {
  if (field.use == FieldUse::kRefused) {
    std::vector<std::string> values = {"null"};
    for (const json& value : json::parse(field.off)) values.push_back(value.dump());
    return fmt::format("{}", fmt::join(values, ", "));
  }
  if (!field.type.empty()) return std::string(field.type);
  if (std::holds_alternative<std::optional<bool> RequestFields::*>(field.slot)) return "true or false";
  if (std::holds_alternative<std::optional<int64_t> RequestFields::*>(field.slot)) {
    return range_text("an integer", field.range);
  }
  if (std::holds_alternative<std::optional<double> RequestFields::*>(field.slot)) {
    return range_text("a number", field.range);
  }
  return "a string";
}

Refusal read_fields(const json& body, Dialect dialect, std::string_view where, std::string_view param_prefix,
                    RequestFields& out) {
  const auto fields = JsonFields::of(body, std::string(where));
  if (!fields) return ApiError{.message = fields.message(), .param = std::string(param_prefix)};
  for (const auto& [name, value] : body.items()) {
    if (value.is_null()) continue;
    std::string param = param_prefix.empty() ? name : fmt::format("{}.{}", param_prefix, name);
    const Field* field = find_field(name, dialect);
    if (field == nullptr) return unknown_field(name, dialect, where, std::move(param));
    if (field->use == FieldUse::kIgnored) continue;
    if (field->use == FieldUse::kRefused) {
      if (is_off(*field, value)) continue;
      return ApiError{.message = fmt::format("{}; not served: {}",
                                             fields->refuse(name, accepted_values(*field)).message, field->meaning),
                      .param = std::move(param),
                      .code = "unsupported_field"};
    }
    if (const auto stored = store(*fields, *field, out); !stored) {
      return ApiError{.message = stored.message(), .param = std::move(param)};
    }
  }
  return std::nullopt;
}

std::string request_fields_markdown() {
  std::string out =
      "# Request fields\n\n"
      "Written by the program from the table that its parser uses (src/serve/fields.cc); do not edit.\n\n"
      "Applied fields work under speculative decoding exactly as in plain decoding. Ignored ones are accepted and "
      "change\n"
      "nothing. Not served: only the values shown are accepted. A field that is not here is refused with 400, and so "
      "is\n"
      "a value that is not accepted. `null` counts as absent.\n";
  constexpr std::array<std::pair<FieldUse, std::string_view>, 3> kParts = {{
      {FieldUse::kApplied, "Applied"},
      {FieldUse::kIgnored, "Ignored"},
      {FieldUse::kRefused, "Not served"},
  }};
  for (const auto& [use, title] : kParts) {
    out += fmt::format("\n## {}\n\n| field | where | accepted | meaning |\n|---|---|---|---|\n", title);
    for (const Field& field : request_fields()) {
      if (field.use != use) continue;
      std::vector<std::string_view> where;
      for (const auto& [dialect, name] : kDialectNames) {
        if ((field.dialects & dialect) != 0) where.push_back(name);
      }
      out += fmt::format("| `{}` | {} | {} | {} |\n", field.name, fmt::join(where, ", "), accepted_values(field),
                         field.meaning);
    }
  }
  return out;
}

}  // namespace strobe::serve
