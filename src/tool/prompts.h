// Prompts from the command line or from a file of JSON lines.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace strobe::tool {

struct Prompt {
  // A text as it is, or a conversation (an array of {"role", "content"}) for the chat template.
  std::string text;
  // In the order of the file: a chat template may print objects inside.
  nlohmann::ordered_json messages;
  std::string where;  // "file:line", or empty
  // The fields of its line that are neither; they come back with the answer.
  nlohmann::ordered_json passed = nlohmann::ordered_json::object();

  [[nodiscard]] bool chat() const { return !messages.is_null(); }
};

// One object a line with `messages` or `prompt`. Errors name file, line and field. Blank lines are skipped.
Result<std::vector<Prompt>> read_prompts(const std::string& path);
// A conversation of one user turn.
[[nodiscard]] Prompt chat_prompt(const std::string& text);

}  // namespace strobe::tool
