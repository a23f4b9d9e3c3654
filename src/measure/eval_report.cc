#include "measure/eval_report.h"

#include <nlohmann/json.hpp>

#include "measure/files.h"

namespace strobe::measure {
namespace {

using nlohmann::json;

std::string_view word(Outcome outcome) {
  switch (outcome) {
    case Outcome::kRight:
      return "right";
    case Outcome::kWrong:
      return "wrong";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kNotAsked:
      return "not asked";
  }
  return "?";
}

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

std::string score_text(const EvalTotals& totals) {
  const auto score = totals.score();
  return score ? fmt::format("{:.3f}", *score) : "none";
}

constexpr const char* kStyle = R"(<style>
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse}td,th{text-align:left;padding:.15rem 1rem .15rem 0;vertical-align:top}
details{border-left:.3rem solid #8888;padding:.2rem .8rem;margin:.4rem 0}
.right{border-color:#2a8a3e}.wrong{border-color:#c33}.failed{border-color:#d80}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.4rem 0}
</style>
)";

std::string row(std::string_view name, std::string_view value) {
  return fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escape_markup(name), escape_markup(value));
}

std::string sample_html(const Sample& sample) {
  std::string head = fmt::format("line {}: {}, expected {}, got {}", sample.file_line, word(sample.outcome),
                                 sample.gold, sample.extracted.value_or("no number"));
  if (sample.outcome == Outcome::kFailed) head = fmt::format("line {}: failed", sample.file_line);
  if (sample.accept_length) head += fmt::format(", accept length {:.2f}", *sample.accept_length);
  return fmt::format("<details class=\"{}\"{}><summary>{}</summary><p>{}</p><pre>{}</pre></details>\n",
                     word(sample.outcome), sample.outcome == Outcome::kRight ? "" : " open", escape_markup(head),
                     escape_markup(sample.question),
                     escape_markup(sample.outcome == Outcome::kFailed ? sample.problem : sample.response));
}

std::string verdict_line(const EvalReport& report, const EvalTotals& totals) {
  const Verdict verdict = judge(totals, report.options.baseline);
  if (!report.options.baseline) {
    return verdict == Verdict::kPass ? "no baseline was given" : "incomplete: not every question has an answer";
  }
  const int64_t unknown = totals.failed + totals.not_asked;
  const double baseline = *report.options.baseline;
  switch (verdict) {
    case Verdict::kPass:
      return unknown == 0 ? fmt::format("pass: the baseline is {}", baseline)
                          : fmt::format("pass: the baseline {} holds even if the {} without an answer were all wrong",
                                        baseline, unknown);
    case Verdict::kFail:
      return unknown == 0
                 ? fmt::format("FAIL: the baseline is {}", baseline)
                 : fmt::format("FAIL: the baseline {} is missed even if the {} without an answer were all right",
                               baseline, unknown);
    case Verdict::kUnknown:
      break;
  }
  return fmt::format("not measured: {} without an answer decide whether the baseline {} is reached", unknown, baseline);
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  return verdict == Verdict::kPass ? "pass" : verdict == Verdict::kFail ? "fail" : "unknown";
}

json to_json(const Sample& sample) {
  json object = {{"line", sample.file_line},
                 {"question", sample.question},
                 {"expected", sample.gold},
                 {"outcome", word(sample.outcome)},
                 {"extracted", or_null(sample.extracted)},
                 {"response", sample.response},
                 {"finish_reason", sample.finish_reason},
                 {"tries", sample.tries},
                 {"seconds", sample.seconds},
                 {"prompt_tokens", sample.prompt_tokens},
                 {"completion_tokens", sample.completion_tokens},
                 {"accept_length", or_null(sample.accept_length)}};
  if (!sample.problem.empty()) object["problem"] = sample.problem;
  return object;
}

json to_json(const EvalReport& report) {
  const EvalTotals totals = add_up(report.samples);
  const EvalOptions& o = report.options;
  json samples = json::array();
  for (const Sample& sample : report.samples) samples.push_back(to_json(sample));
  json object = {
      {"eval", "gsm8k"},
      {"model", report.model},
      {"server", report.server},
      {"data_path", report.data_path},
      {"protocol", to_string(o.protocol)},
      {"api", to_string(o.api)},
      {"num_shots", o.shots},
      {"max_tokens", o.max_tokens},
      {"score", or_null(totals.score())},
      {"right", totals.right},
      {"wrong", totals.wrong},
      {"invalid", totals.invalid},
      {"failed", totals.failed},
      {"not_asked", totals.not_asked},
      {"completion_tokens", totals.completion_tokens},
      {"accept_length", or_null(totals.accept_length)},
      {"latency_s", report.seconds},
      {"output_throughput", report.seconds > 0 ? static_cast<double>(totals.completion_tokens) / report.seconds : 0.0},
      {"baseline", or_null(o.baseline)},
      {"verdict", to_string(judge(totals, o.baseline))},
      {"samples", std::move(samples)}};
  if (!report.problem.empty()) object["problem"] = report.problem;
  return object;
}

std::string to_html(const EvalReport& report) {
  const EvalTotals totals = add_up(report.samples);
  std::string page = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n";
  page += "<meta name=\"viewport\" content=\"width=device-width\"><title>GSM8K</title>\n";
  page += kStyle;
  page += fmt::format("</head><body>\n<h1>GSM8K: {}</h1>\n<table>\n", score_text(totals));
  page += row("verdict", verdict_line(report, totals));
  page += row("model", report.model);
  page += row("questions", report.data_path);
  page += row("protocol", fmt::format("{}, {} examples, {} API", to_string(report.options.protocol),
                                      report.options.shots, to_string(report.options.api)));
  page += row("answers", fmt::format("{} right, {} wrong ({} of them without a number), {} failed, {} not asked",
                                     totals.right, totals.wrong, totals.invalid, totals.failed, totals.not_asked));
  if (totals.accept_length) page += row("accept length", fmt::format("{:.3f}", *totals.accept_length));
  page += row("time", fmt::format("{:.1f} s, {} tokens", report.seconds, totals.completion_tokens));
  if (!report.problem.empty()) page += row("problem", report.problem);
  page += "</table>\n";
  for (const Sample& sample : report.samples) page += sample_html(sample);
  return page + "</body></html>\n";
}

std::string running_score(const EvalTotals& totals) {
  std::string text = "score " + score_text(totals);
  if (totals.accept_length) text += fmt::format(", accept length {:.2f}", *totals.accept_length);
  if (totals.failed > 0) text += fmt::format(", {} failed", totals.failed);
  return text;
}

std::string to_text(const EvalReport& report) {
  const EvalTotals totals = add_up(report.samples);
  std::string text = fmt::format("gsm8k score {}: {} of {} answers right, {} without a number\n", score_text(totals),
                                 totals.right, totals.right + totals.wrong, totals.invalid);
  if (totals.failed > 0) {
    text += fmt::format("{} requests failed; they are in no score. The first:", totals.failed);
    for (const Sample& sample : report.samples) {
      if (sample.outcome != Outcome::kFailed) continue;
      text += fmt::format(" line {}, {} tries: {}\n", sample.file_line, sample.tries, sample.problem);
      break;
    }
  }
  if (totals.not_asked > 0) text += fmt::format("{} questions were not asked: {}\n", totals.not_asked, report.problem);
  if (totals.accept_length) text += fmt::format("accept length {:.3f}\n", *totals.accept_length);
  text += fmt::format("latency {:.1f} s, {:.0f} output tokens/s\n", report.seconds,
                      report.seconds > 0 ? static_cast<double>(totals.completion_tokens) / report.seconds : 0.0);
  return text + verdict_line(report, totals) + "\n";
}

}  // namespace strobe::measure
