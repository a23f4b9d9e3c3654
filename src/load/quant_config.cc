#include "load/quant_config.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_fields.h"

namespace strobe {
namespace {

using nlohmann::json;

constexpr int64_t kNvfp4Group = 16;
constexpr std::string_view kLanguageModel = "language_model.";
constexpr std::string_view kModel = "model.";
constexpr std::string_view kAcceptedAlgo = "NVFP4";
constexpr std::string_view kAcceptedKv =
    "FP8 (or {\"type\": \"float\", \"num_bits\": 8}), auto, none, or no such field";

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

// "NVFP4" in any case; the field must be there.
Result<QuantAlgo> parse_algo(const JsonFields& fields) {
  STROBE_ASSIGN(const std::string name, fields.get<std::string>("quant_algo"));
  if (upper(name) != kAcceptedAlgo) return fields.refuse("quant_algo", kAcceptedAlgo);
  return QuantAlgo::kNvfp4;
}

// A KV scheme given as a name, or as an object with type and num_bits.
Result<KvScheme> parse_kv(const JsonFields& fields, std::string_view name) {
  const json* value = fields.find(name);
  if (value == nullptr) return KvScheme::kNone;
  if (value->is_object()) {
    STROBE_ASSIGN(const JsonFields scheme, fields.object(name));
    STROBE_ASSIGN(const std::string type, scheme.get<std::string>("type"));
    STROBE_ASSIGN(const int64_t bits, scheme.get<int64_t>("num_bits"));
    STROBE_ASSIGN(const bool dynamic, scheme.get_or<bool>("dynamic", false));
    if (type != "float") return scheme.refuse("type", "float");
    if (bits != 8) return scheme.refuse("num_bits", "8");
    if (dynamic) return scheme.refuse("dynamic", "false");
    return KvScheme::kFp8;
  }
  STROBE_ASSIGN(const std::string text, fields.get<std::string>(name));
  const std::string kind = upper(text);
  if (kind == "FP8" || kind == "FP8_E4M3") return KvScheme::kFp8;
  if (kind == "AUTO" || kind == "NONE") return KvScheme::kNone;
  return fields.refuse(name, kAcceptedKv);
}

// group_size at the top, else the first config group's weights.group_size.
Result<int64_t> parse_group_size(const JsonFields& fields) {
  constexpr Limits<int64_t> kOnly = {kNvfp4Group, kNvfp4Group};
  if (fields.has("group_size")) return fields.get<int64_t>("group_size", kOnly);
  STROBE_ASSIGN(const std::optional<JsonFields> groups, fields.object_if("config_groups"));
  if (groups) {
    const json& all = *fields.find("config_groups");
    if (!all.empty()) {
      STROBE_ASSIGN(const JsonFields group, groups->object(all.begin().key()));
      STROBE_ASSIGN(const JsonFields weights, group.object("weights"));
      return weights.get<int64_t>("group_size", kOnly);
    }
  }
  return fields.get<int64_t>("group_size", kOnly);  // the Error: it is missing
}

Result<std::vector<std::string>> parse_ignore(const JsonFields& fields, std::string_view name) {
  if (!fields.has(name)) {
    return fields.refuse(name, "a list of module names, '*' stands for any characters (an empty list will do)");
  }
  STROBE_ASSIGN(std::vector<std::string> patterns, fields.list<std::string>(name));
  for (const std::string& pattern : patterns) {
    if (pattern.empty() || pattern.starts_with("re:")) {
      return error("{} holds '{}'; accepted: module names, '*' stands for any characters", fields.path(name), pattern);
    }
  }
  return patterns;
}

// The flat form: quantization_config of config.json.
Result<QuantConfig> parse_flat(const JsonFields& fields) {
  QuantConfig quant;
  quant.source = "config.json";
  if (fields.has("quant_method")) {
    STROBE_ASSIGN(const std::string method, fields.get<std::string>("quant_method"));
    if (method != "modelopt" && method != "modelopt_fp4") {
      return fields.refuse("quant_method", "modelopt (NVFP4); or a checkpoint without quantisation");
    }
  }
  STROBE_ASSIGN(quant.algo, parse_algo(fields));
  STROBE_ASSIGN(quant.group_size, parse_group_size(fields));
  STROBE_ASSIGN(quant.kv, parse_kv(fields, "kv_cache_scheme"));
  STROBE_ASSIGN(quant.ignore, parse_ignore(fields, "ignore"));
  return quant;
}

// hf_quant_config.json, in its "quantization" object.
Result<QuantConfig> parse_separate(const json& file) {
  STROBE_ASSIGN(const JsonFields root, JsonFields::of(file, "hf_quant_config.json"));
  STROBE_ASSIGN(const JsonFields fields, root.object("quantization"));
  QuantConfig quant;
  quant.source = "hf_quant_config.json";
  STROBE_ASSIGN(quant.algo, parse_algo(fields));
  STROBE_ASSIGN(quant.group_size, fields.get<int64_t>("group_size", {kNvfp4Group, kNvfp4Group}));
  STROBE_ASSIGN(quant.kv, parse_kv(fields, "kv_cache_quant_algo"));
  STROBE_ASSIGN(quant.ignore, parse_ignore(fields, "exclude_modules"));
  return quant;
}

std::optional<std::string> disagreement(const QuantConfig& flat, const QuantConfig& separate) {
  if (flat.kv != separate.kv) return fmt::format("KV cache {} and {}", to_string(flat.kv), to_string(separate.kv));
  auto a = flat.ignore;
  auto b = separate.ignore;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  if (a != b) return fmt::format("exclusion lists of {} and {} patterns", a.size(), b.size());
  return std::nullopt;
}

bool matches(std::string_view pattern, std::string_view module) {
  if (glob_match(pattern, module)) return true;
  if (pattern.find('.') != std::string_view::npos) return false;  // no component holds a dot
  for (size_t begin = 0; begin <= module.size();) {
    const size_t end = std::min(module.find('.', begin), module.size());
    if (glob_match(pattern, module.substr(begin, end - begin))) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

std::string_view to_string(QuantAlgo algo) {
  return algo == QuantAlgo::kNvfp4 ? "NVFP4" : "none";
}
std::string_view to_string(KvScheme scheme) {
  return scheme == KvScheme::kFp8 ? "fp8" : "none";
}

bool glob_match(std::string_view pattern, std::string_view text) {
  // Greedy with one point to come back to: an earlier star never needs to take more once a later one was reached.
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;
  size_t taken = 0;  // where the text after the last star's run begins
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string plain_name(std::string_view name) {
  std::string_view rest = name;
  if (rest.starts_with(kModel) && rest.substr(kModel.size()).starts_with(kLanguageModel)) {
    rest.remove_prefix(kModel.size());
  }
  if (!rest.starts_with(kLanguageModel)) return std::string(name);
  rest.remove_prefix(kLanguageModel.size());
  if (rest.starts_with(kModel) || rest.starts_with("lm_head")) return std::string(rest);
  return std::string(kModel).append(rest);
}

const std::string* QuantConfig::excluded_by(std::string_view module) const {
  const std::string plain = plain_name(module);
  // The spellings a list written for a wrapped checkpoint may use.
  const std::string_view inner =
      plain.starts_with(kModel) ? std::string_view(plain).substr(kModel.size()) : std::string_view(plain);
  const std::string wrapped = std::string(kLanguageModel).append(plain);
  const std::string shorter = std::string(kLanguageModel).append(inner);
  const std::string longer = std::string(kModel).append(shorter);
  for (const std::string& pattern : ignore) {
    if (matches(pattern, plain)) return &pattern;
    if (pattern.find("language_model") == std::string::npos) continue;
    if (glob_match(pattern, wrapped) || glob_match(pattern, shorter) || glob_match(pattern, longer)) return &pattern;
  }
  return nullptr;
}

Result<QuantConfig> parse_quant_config(const json& config, const json* hf_quant_config) {
  STROBE_ASSIGN(const JsonFields root, JsonFields::of(config, "config.json"));
  STROBE_ASSIGN(std::optional<JsonFields> flat, root.object_if("quantization_config"));
  if (!flat) {
    STROBE_ASSIGN(const std::optional<JsonFields> text, root.object_if("text_config"));
    if (text) {
      STROBE_ASSIGN(flat, text->object_if("quantization_config"));
    }
  }
  if (!flat) {
    if (hf_quant_config == nullptr) return QuantConfig{};
    return parse_separate(*hf_quant_config);
  }
  STROBE_ASSIGN(QuantConfig quant, parse_flat(*flat));
  if (hf_quant_config == nullptr) return quant;
  const Result<QuantConfig> separate = parse_separate(*hf_quant_config);
  const std::optional<std::string> difference =
      separate ? disagreement(quant, *separate) : std::optional<std::string>(separate.message());
  if (difference) {
    quant.warnings.push_back(
        fmt::format("config.json and hf_quant_config.json disagree ({}); config.json is used", *difference));
  }
  return quant;
}

}  // namespace strobe
