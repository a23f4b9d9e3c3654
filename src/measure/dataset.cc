#include "measure/dataset.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"

namespace strobe::measure {
namespace {

using nlohmann::json;

Result<std::string> first_human_turn(const json& entry, const std::string& where) {
  STROBE_ASSIGN(const JsonFields fields, JsonFields::of(entry, where));
  const json* turns = fields.find("conversations");
  if (turns == nullptr) turns = fields.find("conversation");
  if (turns == nullptr || !turns->is_array()) return fields.refuse("conversations", "an array of turns");
  for (const json& turn : *turns) {
    STROBE_ASSIGN(const JsonFields turn_fields, JsonFields::of(turn, where + ".conversations"));
    STROBE_ASSIGN(const std::string from, turn_fields.get_or<std::string>("from", "human"));
    if (from == "human" || from == "user") return turn_fields.get<std::string>("value");
  }
  return std::string();
}

}  // namespace

Result<Dataset> parse_dataset(const std::string& name) {
  if (name == "random-ids") return Dataset::kRandomIds;
  if (name == "sharegpt-file") return Dataset::kShareGptFile;
  if (name == "jsonl") return Dataset::kJsonl;
  return error("--dataset {}: accepted: random-ids, sharegpt-file, jsonl", name);
}

Result<std::vector<std::string>> read_sharegpt(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return error("--data-path {}: cannot be read; a ShareGPT file (JSON) is needed", path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  STROBE_ASSIGN(const json entries, parse_json(text, path));
  if (!entries.is_array())
    return error("--data-path {}: is {}; accepted: an array of conversations", path, describe(entries));
  std::vector<std::string> texts;
  for (size_t i = 0; i < entries.size(); ++i) {
    STROBE_ASSIGN(std::string turn, first_human_turn(entries[i], fmt::format("{}[{}]", path, i)));
    if (!turn.empty()) texts.push_back(std::move(turn));
  }
  if (texts.empty()) return error("--data-path {}: no human turns in it", path);
  return texts;
}

Result<std::vector<std::string>> read_prompt_lines(const std::string& path) {
  std::ifstream file(path);
  if (!file) return error("--data-path {}: cannot be read; a file of JSON lines is needed", path);
  std::vector<std::string> texts;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{}:{}", path, number);
    STROBE_ASSIGN(const json object, parse_json(line, where));
    STROBE_ASSIGN(const JsonFields fields, JsonFields::of(object, where));
    if (fields.has("prompt")) {
      STROBE_ASSIGN(std::string prompt, fields.get<std::string>("prompt"));
      texts.push_back(std::move(prompt));
    } else if (fields.has("question")) {
      STROBE_ASSIGN(const std::string question, fields.get<std::string>("question"));
      texts.push_back("Question: " + question + "\nAnswer:");
    } else {
      return error("{}: needs `prompt` or `question`", where);
    }
  }
  if (texts.empty()) return error("--data-path {}: no prompts in it", path);
  return texts;
}

std::vector<int32_t> fit(std::span<const int32_t> ids, int64_t length) {
  if (length == 0 || ids.empty()) return {ids.begin(), ids.end()};
  std::vector<int32_t> fitted;
  for (int64_t i = 0; i < length; ++i) fitted.push_back(ids[static_cast<size_t>(i) % ids.size()]);
  return fitted;
}

std::vector<int32_t> consecutive_ids(int64_t first, int64_t length, int64_t vocab) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < length; ++i) ids.push_back(static_cast<int32_t>((first + i) % vocab));
  return ids;
}

}  // namespace strobe::measure
