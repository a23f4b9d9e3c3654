#include "measure/gsm8k.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"

namespace strobe::measure {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Where the run of digits that holds text[end - 1] begins.
size_t digits_begin(std::string_view text, size_t end) {
  while (end > 0 && is_digit(text[end - 1])) --end;
  return end;
}

// The last match of -?\d+\.?\d*, empty when there is none. Matches are found from the left and do not overlap, so each
// begins where the one before it ended.
std::string_view last_decimal(std::string_view text) {
  std::string_view last;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + (text[i] == '-' ? 1 : 0);
    const size_t digits = end;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end == digits) {
      ++i;
      continue;
    }
    if (end < text.size() && text[end] == '.') {
      ++end;
      while (end < text.size() && is_digit(text[end])) ++end;
    }
    last = text.substr(i, end - i);
    i = end;
  }
  return last;
}

std::string_view last_digits(std::string_view text) {
  const auto last = std::find_if(text.rbegin(), text.rend(), is_digit);
  if (last == text.rend()) return {};
  const auto end = static_cast<size_t>(text.rend() - last);
  const size_t begin = digits_begin(text, end);
  return text.substr(begin, end - begin);
}

// One spelling for equal values; nullopt for what is no Python literal.
std::optional<std::string> normalised(std::string_view number) {
  const bool negative = number.starts_with('-');
  if (negative) number.remove_prefix(1);
  const size_t point = number.find('.');
  std::string_view whole = number.substr(0, point);
  std::string_view fraction = point == std::string_view::npos ? std::string_view() : number.substr(point + 1);
  const size_t significant = std::min(whole.find_first_not_of('0'), whole.size());
  if (point == std::string_view::npos && significant > 0 && significant < whole.size()) return std::nullopt;
  whole.remove_prefix(significant);
  while (fraction.ends_with('0')) fraction.remove_suffix(1);
  if (whole.empty() && fraction.empty()) return "0";
  std::string text = negative ? "-" : "";
  text += whole.empty() ? "0" : whole;
  if (!fraction.empty()) text.append(".").append(fraction);
  return text;
}

Result<Gsm8kLine> parse_line(const std::string& text, const std::string& where, Gsm8kProtocol protocol) {
  STROBE_ASSIGN(const nlohmann::json object, parse_json(text, where));
  STROBE_ASSIGN(const JsonFields fields, JsonFields::of(object, where));
  Gsm8kLine line;
  STROBE_ASSIGN(line.question, fields.get<std::string>("question"));
  STROBE_ASSIGN(line.answer, fields.get<std::string>("answer"));
  if (!answer_number(line.answer, protocol)) {
    // The legacy protocol reads "8.05" as 05, which is none.
    return fields.refuse("answer",
                         protocol == Gsm8kProtocol::kStandard
                             ? "a solution that ends in a number"
                             : "a solution that ends in a whole number, as the protocol few-shot-legacy reads");
  }
  return line;
}

}  // namespace

Result<std::vector<Gsm8kLine>> read_gsm8k(const std::string& path, Gsm8kProtocol protocol) {
  std::ifstream file(path);
  if (!file)
    return error("--data-path {}: cannot be read; a file of JSON lines with question and answer is needed", path);
  std::vector<Gsm8kLine> lines;
  int64_t number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    STROBE_ASSIGN(Gsm8kLine line, parse_line(text, fmt::format("{}:{}", path, number), protocol));
    line.file_line = number;
    lines.push_back(std::move(line));
  }
  if (lines.empty()) return error("--data-path {}: no questions in it", path);
  return lines;
}

const std::vector<std::string>& gsm8k_stops() {
  static const std::vector<std::string> stops = {"Question", "Assistant:", "<|separator|>"};
  return stops;
}

std::string few_shot_prefix(std::span<const Gsm8kLine> lines, size_t shots) {
  std::string text;
  for (const Gsm8kLine& line : lines.first(std::min(shots, lines.size()))) {
    text += question_prompt(line) + " " + line.answer + "\n\n";
  }
  return text;
}

std::string question_prompt(const Gsm8kLine& line) {
  return "Question: " + line.question + "\nAnswer:";
}

std::span<const Gsm8kLine> asked_lines(std::span<const Gsm8kLine> lines, Gsm8kProtocol protocol, size_t shots,
                                       size_t examples) {
  if (protocol == Gsm8kProtocol::kStandard) lines = lines.subspan(std::min(shots, lines.size()));
  return examples == 0 ? lines : lines.first(std::min(examples, lines.size()));
}

std::optional<std::string> answer_number(std::string_view text, Gsm8kProtocol protocol) {
  std::string plain(text);
  std::erase(plain, ',');
  const std::string_view number = protocol == Gsm8kProtocol::kStandard ? last_decimal(plain) : last_digits(plain);
  if (number.empty()) return std::nullopt;
  return normalised(number);
}

}  // namespace strobe::measure
