#include "tool/prompts.h"

#include <fstream>

#include "base/ordered_json.h"

namespace strobe::tool {
namespace {

Result<Prompt> parse_line(const std::string& line, const std::string& where) {
  STROBE_ASSIGN(nlohmann::ordered_json object, parse_ordered_json(line, where));
  if (!object.is_object()) return error("{}: {} where a JSON object is needed", where, object.type_name());
  const bool chat = object.contains("messages"), text = object.contains("prompt");
  if (chat == text) return error("{}: needs exactly one of `messages` (chat) and `prompt` (text)", where);
  Prompt prompt;
  prompt.where = where;
  if (text) {
    if (!object["prompt"].is_string())
      return error("{}: `prompt` is {}; a string is needed", where, object["prompt"].type_name());
    prompt.text = object["prompt"];
  } else {
    const auto& messages = object["messages"];
    if (!messages.is_array() || messages.empty())
      return error("{}: `messages` must be an array of at least one message", where);
    for (const auto& message : messages) {
      if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
        return error("{}: each of `messages` needs a string `role`", where);
      }
    }
    prompt.messages = messages;
  }
  object.erase("messages");
  object.erase("prompt");
  prompt.passed = std::move(object);
  return prompt;
}

}  // namespace

Result<std::vector<Prompt>> read_prompts(const std::string& path) {
  std::ifstream file(path);
  if (!file) return error("--jsonl {}: cannot be read", path);
  std::vector<Prompt> prompts;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    STROBE_ASSIGN(Prompt prompt, parse_line(line, fmt::format("{}:{}", path, number)));
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) return error("--jsonl {}: no prompts in it", path);
  return prompts;
}

Prompt chat_prompt(const std::string& text) {
  Prompt prompt;
  prompt.messages = nlohmann::ordered_json::array({{{"role", "user"}, {"content", text}}});
  return prompt;
}

}  // namespace strobe::tool
