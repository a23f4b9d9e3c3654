// tokenizer_config.json, and chat_template.jinja beside it: the facts that this room uses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace strobe {

struct AddedToken {
  std::string content;
  bool special = false;
};

struct NamedTemplate {
  std::string name;  // "default" for the only one
  std::string text;
};

struct TokenizerConfig {
  std::string tokenizer_class;                             // empty when not given
  std::optional<std::string> bos, eos, pad, unk;           // texts of the named tokens
  std::map<int32_t, AddedToken> added_tokens;              // added_tokens_decoder
  std::vector<std::string> additional_special_tokens;      // texts
  std::vector<NamedTemplate> chat_templates;               // of chat_template, a string or a list
  std::map<std::string, std::string> other_special_texts;  // more "*_token" strings, as templates may use them
};

// Parses the file's text; `name` is what errors call it. Refuses broken JSON and broken UTF-8 (with line and column),
// ids that are no whole number from 0 to 2^31 - 2, and fields of another type than the above.
Result<TokenizerConfig> parse_tokenizer_config(std::string_view text, std::string_view name);

}  // namespace strobe
