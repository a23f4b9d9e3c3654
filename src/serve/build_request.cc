#include "serve/build_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_fields.h"

namespace strobe::serve {
namespace {

using nlohmann::json;

constexpr size_t kStopStringsMax = 64;
constexpr size_t kStopBytesMax = 1024;
constexpr size_t kStopTokensMax = 1024;
constexpr size_t kBiasesMax = 1024;
constexpr double kBiasMax = 100;

// An id below `vocab_tokens`, or nullopt.
std::optional<int32_t> as_token(const json& value, int32_t vocab_tokens) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() ? value.get<uint64_t>() >= static_cast<uint64_t>(vocab_tokens)
                                 : value.get<int64_t>() < 0 || value.get<int64_t>() >= vocab_tokens) {
    return std::nullopt;
  }
  return value.get<int32_t>();
}

ApiError empty_prompt(std::string_view name) {
  return {.message = fmt::format("request body: {} is empty; accepted: at least one token", name),
          .param = std::string(name)};
}

Refusal encode_prompt(const std::string& text, const std::string& name, const TextService& service,
                      std::vector<Prompt>& out) {
  auto ids = service.encode(text);
  if (!ids) return ApiError{.message = fmt::format("request body: {}: {}", name, ids.message()), .param = name};
  if (ids->empty()) return empty_prompt(name);
  out.push_back({.ids = *std::move(ids), .text = text, .is_text = true});
  return std::nullopt;
}

Refusal read_id_prompt(const json& value, const std::string& name, int32_t vocab_tokens, std::vector<Prompt>& out) {
  Prompt prompt;
  if (auto refusal = read_ids(value, name, vocab_tokens, prompt.ids)) return refusal;
  if (prompt.ids.empty()) return empty_prompt(name);
  out.push_back(std::move(prompt));
  return std::nullopt;
}

std::string forms_text(PromptForms forms) {
  if (forms.texts && forms.ids)
    return "a string, an array of strings, an array of token ids, or an array of such arrays";
  if (forms.texts) return "a string or an array of strings";
  return "an array of token ids or an array of such arrays";
}

Refusal read_stops(const json& value, std::string_view name, std::vector<std::string>& out) {
  const auto acceptable = [](const json& text) {
    if (!text.is_string()) return false;
    const size_t bytes = text.get_ref<const std::string&>().size();
    return bytes >= 1 && bytes <= kStopBytesMax;
  };
  const std::string accepted =
      fmt::format("a string, or an array of up to {} strings, each of 1 to {} bytes", kStopStringsMax, kStopBytesMax);
  if (value.is_string()) {
    if (!acceptable(value)) return refuse_field(name, value, accepted);
    out.push_back(value.get<std::string>());
    return std::nullopt;
  }
  if (!value.is_array() || value.size() > kStopStringsMax) return refuse_field(name, value, accepted);
  for (size_t i = 0; i < value.size(); ++i) {
    if (!acceptable(value[i])) return refuse_field(fmt::format("{}[{}]", name, i), value[i], accepted);
    out.push_back(value[i].get<std::string>());
  }
  return std::nullopt;
}

Refusal read_biases(const json& value, std::string_view name, int32_t vocab_tokens,
                    std::vector<std::pair<int32_t, float>>& out) {
  const std::string accepted = fmt::format("an object of up to {} token ids below {}, each to a number from {} to {}",
                                           kBiasesMax, vocab_tokens, -kBiasMax, kBiasMax);
  if (!value.is_object() || value.size() > kBiasesMax) return refuse_field(name, value, accepted);
  for (const auto& [key, bias] : value.items()) {
    int32_t id = -1;
    const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool good_id = code == std::errc() && end == key.data() + key.size() && id >= 0 && id < vocab_tokens;
    const bool good_bias = bias.is_number() && std::abs(bias.get<double>()) <= kBiasMax;
    if (!good_id || !good_bias) {
      ApiError refusal = refuse_field(fmt::format("{}[{}]", name, describe(json(key))), bias, accepted);
      refusal.param = std::string(name);
      return refusal;
    }
    out.emplace_back(id, bias.get<float>());
  }
  std::sort(out.begin(), out.end());
  return std::nullopt;
}

void copy_sampling(const RequestFields& fields, const SamplingDefaults& defaults, engine::SamplingParams& out) {
  const auto number = [](const std::optional<double>& given, const std::optional<double>& fallback, float last) {
    return given ? static_cast<float>(*given) : fallback ? static_cast<float>(*fallback) : last;
  };
  out.temperature = number(fields.temperature, defaults.temperature, out.temperature);
  out.top_p = number(fields.top_p, defaults.top_p, out.top_p);
  out.min_p = number(fields.min_p, defaults.min_p, out.min_p);
  out.repetition_penalty = number(fields.repetition_penalty, defaults.repetition_penalty, out.repetition_penalty);
  out.presence_penalty = number(fields.presence_penalty, std::nullopt, out.presence_penalty);
  out.frequency_penalty = number(fields.frequency_penalty, std::nullopt, out.frequency_penalty);
  const int64_t top_k = fields.top_k.value_or(defaults.top_k.value_or(0));
  out.top_k = top_k > 0 ? static_cast<int32_t>(top_k) : 0;
}

}  // namespace

std::string RandomBits::id(std::string_view prefix) {
  const std::lock_guard lock(mutex_);
  const uint64_t high = engine_();
  const uint64_t low = engine_();
  return fmt::format("{}{:016x}{:016x}", prefix, high, low);
}

ApiError refuse_field(std::string_view name, const json& value, std::string_view accepted) {
  return {.message = fmt::format("request body: {} is {}; accepted: {}", name, describe(value), accepted),
          .param = std::string(name.substr(0, name.find('[')))};
}

Refusal read_ids(const json& value, std::string_view name, int32_t vocab_tokens, std::vector<int32_t>& out) {
  if (!value.is_array()) return refuse_field(name, value, "an array of token ids");
  out.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    const std::optional<int32_t> id = as_token(value[i], vocab_tokens);
    if (!id) {
      return refuse_field(fmt::format("{}[{}]", name, i), value[i],
                          fmt::format("a token id from 0 to {}", vocab_tokens - 1));
    }
    out.push_back(*id);
  }
  return std::nullopt;
}

Refusal read_prompts(const json& value, std::string_view name, PromptForms forms, const TextService& text,
                     int32_t vocab_tokens, size_t prompts_max, std::vector<Prompt>& out, bool& single) {
  single = true;
  if (forms.texts && value.is_string()) {
    return encode_prompt(value.get_ref<const std::string&>(), std::string(name), text, out);
  }
  if (!value.is_array()) return refuse_field(name, value, forms_text(forms));
  if (value.empty()) return empty_prompt(name);
  if (forms.ids && value[0].is_number()) return read_id_prompt(value, std::string(name), vocab_tokens, out);
  single = false;
  if (value.size() > prompts_max) return refuse_field(name, value, fmt::format("up to {} prompts", prompts_max));
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string element = fmt::format("{}[{}]", name, i);
    if (forms.texts && value[i].is_string() && value[0].is_string()) {
      if (auto refusal = encode_prompt(value[i].get_ref<const std::string&>(), element, text, out)) {
        refusal->param = std::string(name);
        return refusal;
      }
    } else if (forms.ids && value[i].is_array() && value[0].is_array()) {
      if (auto refusal = read_id_prompt(value[i], element, vocab_tokens, out)) {
        refusal->param = std::string(name);
        return refusal;
      }
    } else {
      return refuse_field(element, value[i], fmt::format("{}, all of one kind", forms_text(forms)));
    }
  }
  return std::nullopt;
}

Refusal build_sampling(const RequestFields& fields, const SamplingDefaults& defaults, int32_t vocab_tokens,
                       std::string_view prefix, RandomBits& random, schedule::GenerateRequest& out) {
  copy_sampling(fields, defaults, out.sampling);
  out.sampling.seed = fields.seed ? static_cast<uint64_t>(*fields.seed) : random.next();
  const auto name = [&](std::string_view field) { return fmt::format("{}{}", prefix, field); };
  if (fields.logit_bias != nullptr) {
    const auto bias_name = name("logit_bias");
    if (auto refusal = read_biases(*fields.logit_bias, bias_name, vocab_tokens, out.sampling.logit_bias))
      return refusal;
  }
  if (fields.stop != nullptr) {
    if (auto refusal = read_stops(*fields.stop, name("stop"), out.stop.stop_strings)) return refusal;
  }
  if (fields.stop_token_ids != nullptr) {
    const json& ids = *fields.stop_token_ids;
    if (ids.is_array() && ids.size() > kStopTokensMax) {
      return refuse_field(name("stop_token_ids"), ids, fmt::format("up to {} token ids", kStopTokensMax));
    }
    if (auto refusal = read_ids(ids, name("stop_token_ids"), vocab_tokens, out.stop.stop_token_ids)) return refusal;
  }
  out.stop.min_new_tokens = static_cast<int32_t>(fields.min_tokens.value_or(0));
  out.stop.ignore_eos = fields.ignore_eos.value_or(false);
  out.stop.include_stop = fields.include_stop.value_or(false);
  out.skip_special_tokens = fields.skip_special_tokens.value_or(true);
  return std::nullopt;
}

Refusal build_length(const LengthRule& rule, const RequestFields& fields, schedule::GenerateRequest& out) {
  const auto prompt = static_cast<int64_t>(out.prompt_ids.size());
  const int64_t left = rule.context_tokens - prompt;
  if (left < 1) {
    return ApiError{.message = fmt::format("request body: {} has {} tokens; accepted: at most {}, one less than the "
                                           "context of {}",
                                           rule.prompt_name, prompt, rule.context_tokens - 1, rule.context_tokens),
                    .param = std::string(rule.prompt_name),
                    .code = "context_length_exceeded"};
  }
  if (rule.asked > left) {
    return ApiError{.message = fmt::format("request body: {} is {}; accepted: at most {}, what a prompt of {} tokens "
                                           "leaves of the context of {}",
                                           rule.max_name, rule.asked, left, prompt, rule.context_tokens),
                    .param = std::string(rule.max_name),
                    .code = "context_length_exceeded"};
  }
  const int64_t most = rule.asked > 0 ? rule.asked : std::min(rule.fallback, left);
  if (fields.min_tokens.value_or(0) > most) {
    return ApiError{.message = fmt::format("request body: {} is {}; accepted: at most {}, which is {}", rule.min_name,
                                           *fields.min_tokens, most, rule.max_name),
                    .param = std::string(rule.min_name)};
  }
  out.stop.max_new_tokens = static_cast<int32_t>(most);
  return std::nullopt;
}

}  // namespace strobe::serve
