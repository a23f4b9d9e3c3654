#include "text/tokenizer_config.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "text/unicode.h"

namespace strobe {
namespace {

using nlohmann::json;

// A token is written as a string, or as an object with its "content".
Result<std::optional<std::string>> token_text(const json& value, std::string_view field, std::string_view name) {
  if (value.is_null()) return std::optional<std::string>();
  if (value.is_string()) return std::optional(value.get<std::string>());
  if (value.is_object() && value.contains("content") && value["content"].is_string()) {
    return std::optional(value["content"].get<std::string>());
  }
  return error("{}: {} is {}, not a string or an object with a string \"content\"", name, field, value.type_name());
}

Result<int32_t> parse_token_id(const std::string& text, std::string_view name) {
  int32_t id = -1;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, id);
  if (code != std::errc() || stop != end || id < 0 || id == INT32_MAX) {
    return error("{}: added_tokens_decoder has the key '{}', not a whole number from 0 to 2147483646", name, text);
  }
  return id;
}

Result<void> read_added_tokens(const json& file, std::string_view name, TokenizerConfig& config) {
  const auto field = file.find("added_tokens_decoder");
  if (field == file.end() || field->is_null()) return {};
  if (!field->is_object()) return error("{}: added_tokens_decoder is {}, not an object", name, field->type_name());
  for (const auto& [key, value] : field->items()) {
    STROBE_ASSIGN(const int32_t id, parse_token_id(key, name));
    STROBE_ASSIGN(auto content, token_text(value, "added_tokens_decoder[" + key + "]", name));
    if (!content || content->empty()) return error("{}: added_tokens_decoder[{}] has no text", name, key);
    AddedToken token{*content, false};
    if (value.is_object() && value.contains("special")) {
      const json& special = value["special"];
      if (!special.is_boolean()) {
        return error("{}: added_tokens_decoder[{}].special is {}, not true or false", name, key, special.type_name());
      }
      token.special = special.get<bool>();
    }
    config.added_tokens[id] = std::move(token);
  }
  return {};
}

Result<void> read_chat_templates(const json& file, std::string_view name, TokenizerConfig& config) {
  const auto field = file.find("chat_template");
  if (field == file.end() || field->is_null()) return {};
  if (field->is_string()) {
    config.chat_templates.push_back({"default", field->get<std::string>()});
    return {};
  }
  if (!field->is_array()) {
    return error("{}: chat_template is {}, not a string or a list of {{name, template}}", name, field->type_name());
  }
  for (const json& item : *field) {
    if (!item.is_object() || !item.contains("name") || !item["name"].is_string() || !item.contains("template") ||
        !item["template"].is_string()) {
      return error("{}: an entry of chat_template is not an object with the strings \"name\" and \"template\"", name);
    }
    config.chat_templates.push_back({item["name"].get<std::string>(), item["template"].get<std::string>()});
  }
  return {};
}

Result<void> read_special_texts(const json& file, std::string_view name, TokenizerConfig& config) {
  for (const auto& [key, value] : file.items()) {
    if (!key.ends_with("_token") || value.is_boolean()) continue;  // add_bos_token and the like are switches
    STROBE_ASSIGN(auto text, token_text(value, key, name));
    if (!text) continue;
    if (key == "bos_token") {
      config.bos = text;
    } else if (key == "eos_token") {
      config.eos = text;
    } else if (key == "pad_token") {
      config.pad = text;
    } else if (key == "unk_token") {
      config.unk = text;
    } else {
      config.other_special_texts[key] = *text;
    }
  }
  // Transformers 5 calls the list extra_special_tokens, and lets it be an object from attribute names to tokens.
  for (const char* field : {"additional_special_tokens", "extra_special_tokens"}) {
    const auto more = file.find(field);
    if (more == file.end() || more->is_null()) continue;
    if (!more->is_array() && !more->is_object())
      return error("{}: {} is {}, not a list", name, field, more->type_name());
    for (const json& item : *more) {
      STROBE_ASSIGN(auto text, token_text(item, fmt::format("an entry of {}", field), name));
      if (text) config.additional_special_tokens.push_back(*text);
    }
  }
  return {};
}

}  // namespace

Result<TokenizerConfig> parse_tokenizer_config(std::string_view text, std::string_view name) {
  json file;
  try {
    file = json::parse(text);
  } catch (const json::exception& e) {
    return error("{}: {}", name, repaired_utf8(e.what()));
  }
  if (!file.is_object()) return error("{}: holds {}, not an object", name, file.type_name());
  TokenizerConfig config;
  if (const auto field = file.find("tokenizer_class"); field != file.end() && field->is_string()) {
    config.tokenizer_class = field->get<std::string>();
  }
  STROBE_TRY(read_added_tokens(file, name, config));
  STROBE_TRY(read_chat_templates(file, name, config));
  STROBE_TRY(read_special_texts(file, name, config));
  return config;
}

}  // namespace strobe
