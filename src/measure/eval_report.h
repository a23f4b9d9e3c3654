// What an evaluation found, as JSON, as a page and as lines for a terminal.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "measure/eval.h"

namespace strobe::measure {

[[nodiscard]] nlohmann::json to_json(const Sample& sample);
[[nodiscard]] nlohmann::json to_json(const EvalReport& report);
// One page, nothing from elsewhere: totals, then each question with its answer, wrong and failed ones first to be seen.
[[nodiscard]] std::string to_html(const EvalReport& report);
// "gsm8k score 0.965 (193 of 200 right), ..." and the verdict, several lines.
[[nodiscard]] std::string to_text(const EvalReport& report);
// For the progress line.
[[nodiscard]] std::string running_score(const EvalTotals& totals);
// "pass", "fail", "unknown".
[[nodiscard]] std::string_view to_string(Verdict verdict);

}  // namespace strobe::measure
