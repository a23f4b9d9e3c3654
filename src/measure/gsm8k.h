// The GSM8K protocol as pure functions: which lines are asked, what a prompt is, which number of an answer counts.
//
// Two protocols are in use for published scores, and they are not comparable:
//   standard           the first `shots` lines are the examples, questions begin after them; the last number of the
//                      answer counts, a sign and decimals with it
//   few-shot-legacy    questions begin at the first line, so the examples themselves are asked too; the last run of
//                      digits counts: "-5" is 5 there and "12.50" is 50
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace strobe::measure {

enum class Gsm8kProtocol { kStandard, kFewShotLegacy };

struct Gsm8kLine {
  std::string question;
  std::string answer;     // the whole worked solution
  int64_t file_line = 0;  // counted from 1
};

// JSON lines with `question` and `answer`, which gives a number as the protocol reads it; blank lines are skipped.
// Errors name file, line and field.
Result<std::vector<Gsm8kLine>> read_gsm8k(const std::string& path, Gsm8kProtocol protocol);

// The texts that an answer must not run into.
[[nodiscard]] const std::vector<std::string>& gsm8k_stops();

// "Question: ...\nAnswer: ...\n\n" for each of the first `shots` lines.
[[nodiscard]] std::string few_shot_prefix(std::span<const Gsm8kLine> lines, size_t shots);
// "Question: ...\nAnswer:"
[[nodiscard]] std::string question_prompt(const Gsm8kLine& line);

// The lines that are asked: up to `examples` of them, all when it is 0.
[[nodiscard]] std::span<const Gsm8kLine> asked_lines(std::span<const Gsm8kLine> lines, Gsm8kProtocol protocol,
                                                     size_t shots, size_t examples);

// The number an answer gives, in one spelling for equal values ("18", "1.5", "-3": no commas, no leading or trailing
// zeros), or nullopt when it gives none. An integer with leading zeros is none: the protocols read numbers as Python
// literals. Only ASCII digits are digits.
[[nodiscard]] std::optional<std::string> answer_number(std::string_view text, Gsm8kProtocol protocol);

}  // namespace strobe::measure
