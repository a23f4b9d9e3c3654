#include "measure/bench_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "measure/eval_report.h"
#include "measure/svg_plot.h"

namespace strobe::measure {
namespace {

using nlohmann::json;

constexpr double kMuchRepeated = 0.3;
constexpr double kNotableLateness = 0.1;  // seconds

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json to_json(const Summary& s) {
  return {{"mean", s.mean}, {"median", s.median}, {"p90", s.p90}, {"p95", s.p95}, {"p99", s.p99}, {"max", s.max}};
}

// The names are those of SGLang's benchmark results.
json to_json(const CaseResult& r, const BenchReport& report) {
  json object = {{"model_path", report.model},
                 {"run_name", report.run_name},
                 {"batch_size", r.bench_case.batch_size},
                 {"input_len", r.bench_case.input_len},
                 {"output_len", r.bench_case.output_len}};
  if (!r.skipped.empty()) object["skipped"] = r.skipped;
  if (!r.problem.empty()) object["problem"] = r.problem;
  if (!r.measured() && r.output_tokens == 0) return object;  // an open loop that was ended has figures
  object.update({{"latency", r.latency_s},
                 {"last_ttft", r.ttft_s},
                 {"input_throughput", r.input_throughput},
                 {"output_throughput", r.output_throughput},
                 {"overall_throughput", r.overall_throughput},
                 {"last_gen_throughput", or_null(r.last_gen_throughput)},
                 {"acc_length", or_null(r.accept_length)},
                 {"input_tokens", r.input_tokens},
                 {"output_tokens", r.output_tokens},
                 {"ttft_ms", to_json(r.ttft_ms)},
                 {"itl_ms", to_json(r.itl_ms)},
                 {"e2e_ms", to_json(r.e2e_ms)},
                 {"accept_histogram", r.accept_histogram},
                 {"accepted_by_position", accepted_by_position(r.accept_histogram)},
                 {"prompt_repeated_share", r.prompt_repeated_share},
                 {"output_repeated_share", r.output_repeated_share}});
  return object;
}

std::string or_dash(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", *value) : "-";
}

std::string case_row(const CaseResult& r) {
  const auto& c = r.bench_case;
  const std::string input = c.input_len > 0      ? std::to_string(c.input_len)
                            : r.input_tokens > 0 ? fmt::format("{} (mean)", r.input_tokens / c.batch_size)
                                                 : "as is";
  const std::string head = fmt::format("| {} | {} | {} |", c.batch_size, input, c.output_len);
  if (!r.skipped.empty()) return fmt::format("{} skipped: {} | | | | | | |\n", head, r.skipped);
  if (r.problem == kStoppedEarly) return fmt::format("{} {} | | | | | | |\n", head, r.problem);
  if (!r.problem.empty()) return fmt::format("{} FAILED: {} | | | | | | |\n", head, r.problem);
  return fmt::format("{} {:.2f} | {:.1f} | {:.0f} | {:.1f} | {:.3f} | {:.3f} | {} |\n", head, r.latency_s,
                     r.ttft_s * 1000, r.input_throughput, r.output_throughput, r.itl_ms.mean, r.itl_ms.p99,
                     or_dash(r.accept_length));
}

std::string summary_row(const char* name, const Summary& s) {
  return fmt::format("| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", name, s.mean, s.median, s.p90, s.p95,
                     s.p99);
}

std::string open_markdown(const OpenLoop& load, const OpenLoopResult& open) {
  const CaseResult& r = open.figures;
  std::string text = fmt::format(
      "{} requests, {}, at most {} at a time\n\n", load.requests,
      load.request_rate > 0
          ? fmt::format("{} a second ({})", load.request_rate, load.poisson ? "Poisson arrivals" : "even arrivals")
          : "all at once",
      load.max_concurrency);
  text += fmt::format(
      "answered {}, failed {}; {:.2f} requests/s, {:.0f} input and {:.0f} output tokens/s; {:.1f} at a time; accept "
      "length {}\n\n",
      r.bench_case.batch_size, open.failed, open.request_throughput, r.input_throughput, r.output_throughput,
      open.mean_concurrency, or_dash(r.accept_length));
  if (open.most_late_s > kNotableLateness) {
    text += fmt::format("requests were sent up to {:.2f} s after their arrival: more than {} at a time were needed\n\n",
                        open.most_late_s, load.max_concurrency);
  }
  if (open.not_asked > 0) text += fmt::format("{} requests were not asked: {}\n\n", open.not_asked, r.problem);
  if (open.failed > 0) text += fmt::format("the first failure: {}\n\n", open.first_problem);
  text += "| ms | mean | median | p90 | p95 | p99 |\n|---|---|---|---|---|---|\n";
  return text + summary_row("E2E", r.e2e_ms) + summary_row("TTFT", r.ttft_ms) + summary_row("TPOT", open.tpot_ms) +
         summary_row("ITL", r.itl_ms);
}

bool stopped_early(const BenchReport& report) {
  return std::ranges::any_of(report.cases, [](const CaseResult& r) { return r.problem == kStoppedEarly; }) ||
         (report.open && report.open->figures.problem == kStoppedEarly);
}

std::vector<const CaseResult*> measured_cases(const BenchReport& report) {
  std::vector<const CaseResult*> cases;
  for (const CaseResult& r : report.cases) {
    if (r.measured()) cases.push_back(&r);
  }
  if (report.open && report.open->figures.measured()) cases.push_back(&report.open->figures);
  return cases;
}

}  // namespace

std::optional<double> BenchReport::accept_length() const {
  double sum = 0;
  int count = 0;
  for (const CaseResult* r : measured_cases(*this)) {
    if (!r->accept_length) continue;
    sum += *r->accept_length;
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(sum / count);
}

Verdict judge(const BenchReport& report) {
  const bool failed = std::ranges::any_of(report.cases, [](const CaseResult& r) { return !r.problem.empty(); }) ||
                      (report.open && (report.open->failed > 0 || !report.open->figures.problem.empty()));
  if (failed || measured_cases(report).empty()) return Verdict::kUnknown;
  if (!report.threshold) return Verdict::kPass;
  const auto length = report.accept_length();
  if (!length) return Verdict::kUnknown;
  return *length >= *report.threshold ? Verdict::kPass : Verdict::kFail;
}

json to_json(const BenchReport& report) {
  json cases = json::array();
  for (const CaseResult& r : report.cases) cases.push_back(to_json(r, report));
  json object = {{"bench", "serve"},
                 {"model", report.model},
                 {"server", report.server},
                 {"run_name", report.run_name},
                 {"dataset", report.dataset},
                 {"results", std::move(cases)},
                 {"acc_length", or_null(report.accept_length())},
                 {"spec_accept_length_threshold", or_null(report.threshold)},
                 {"verdict", to_string(judge(report))},
                 {"profiles", report.profiles},
                 {"server_args", report.server_args}};
  if (report.open) {
    json open = to_json(report.open->figures, report);
    open.update({{"request_rate", report.load->request_rate},
                 {"poisson", report.load->poisson},
                 {"seed", report.load->seed},
                 {"max_concurrency", report.load->max_concurrency},
                 {"failed", report.open->failed},
                 {"not_asked", report.open->not_asked},
                 {"first_problem", report.open->first_problem},
                 {"request_throughput", report.open->request_throughput},
                 {"mean_concurrency", report.open->mean_concurrency},
                 {"most_late_s", report.open->most_late_s},
                 {"tpot_ms", to_json(report.open->tpot_ms)}});
    object["open_loop"] = std::move(open);
  }
  return object;
}

std::string flattery(const CaseResult& r) {
  std::string why;
  if (r.prompt_repeated_share > kMuchRepeated) {
    why = fmt::format("{:.0f}% of the prompts' 8-token runs stand in the same prompt before",
                      r.prompt_repeated_share * 100);
  }
  if (r.output_repeated_share > kMuchRepeated) {
    why += fmt::format("{}{:.0f}% of the output's 8-token runs stood in prompt or output before",
                       why.empty() ? "" : "; ", r.output_repeated_share * 100);
  }
  if (!why.empty()) why += ": repeated text is easy to draft, so the accept length is higher than on fresh text";
  return why;
}

std::string to_markdown(const BenchReport& report) {
  std::string text = fmt::format("### {}{}\n\nprompts: {}\n\n", report.model,
                                 report.run_name.empty() ? "" : " (" + report.run_name + ")", report.dataset);
  if (!report.cases.empty()) {
    text +=
        "| batch | input | output | latency s | TTFT ms | input tok/s | output tok/s | ITL ms mean | ITL ms p99 | "
        "accept "
        "length |\n|---|---|---|---|---|---|---|---|---|---|\n";
    for (const CaseResult& r : report.cases) text += case_row(r);
    text += "\n";
  }
  if (report.open) text += open_markdown(*report.load, *report.open) + "\n";
  for (const CaseResult* r : measured_cases(report)) {
    const std::string note = flattery(*r);
    if (!note.empty()) text += fmt::format("Note, batch {}: {}.\n", r->bench_case.batch_size, note);
  }
  return text;
}

std::string verdict_line(const BenchReport& report) {
  const Verdict verdict = judge(report);
  const auto length = report.accept_length();
  if (verdict == Verdict::kUnknown) {
    if (stopped_early(report)) return fmt::format("not measured: {}", kStoppedEarly);
    if (measured_cases(report).empty()) return "not measured: no case has a result";
    return report.threshold && !length ? "not measured: the server gives no accept length to hold against the threshold"
                                       : "not measured: something failed, see above";
  }
  if (!report.threshold) return "no threshold was given";
  return fmt::format("{}: accept length {:.3f}, threshold {}", verdict == Verdict::kPass ? "pass" : "FAIL", *length,
                     *report.threshold);
}

namespace {

// Of the answers that came one by one: how long they took, from the middle to the slowest.
Plot percentile_plot(const OpenLoopResult& open) {
  const auto series = [](const char* name, const Summary& s) {
    return PlotSeries{.name = name, .values = {s.median, s.p90, s.p95, s.p99}};
  };
  return {.title = "Latency",
          .x_name = "percentile",
          .y_name = "milliseconds",
          .labels = {"50", "90", "95", "99"},
          .series = {series("whole answer", open.figures.e2e_ms), series("TTFT", open.figures.ttft_ms)}};
}

std::vector<NamedPlot> plots_by_batch(const std::vector<const CaseResult*>& cases) {
  Plot throughput{.title = "Throughput", .x_name = "batch size", .y_name = "output tokens a second"};
  Plot latency{.title = "Latency", .x_name = "batch size", .y_name = "milliseconds"};
  Plot gaps{.title = "Time between tokens (ITL)", .x_name = "batch size", .y_name = "milliseconds"};
  PlotSeries output{.name = "output"}, whole{.name = "whole answer"}, ttft{.name = "TTFT"}, itl{.name = "mean"},
      itl_tail{.name = "p99"};
  for (const CaseResult* r : cases) {
    throughput.labels.push_back(std::to_string(r->bench_case.batch_size));
    output.values.push_back(r->output_throughput);
    whole.values.push_back(r->e2e_ms.mean);
    ttft.values.push_back(r->ttft_ms.mean);
    itl.values.push_back(r->itl_ms.mean);
    itl_tail.values.push_back(r->itl_ms.p99);
  }
  latency.labels = gaps.labels = throughput.labels;
  throughput.series = {output};
  latency.series = {whole, ttft};
  gaps.series = {itl, itl_tail};
  return {{"throughput", to_svg(throughput)}, {"latency", to_svg(latency)}, {"itl", to_svg(gaps)}};
}

Plot accepted_plot(const std::vector<const CaseResult*>& cases, std::string_view unit) {
  Plot accepted{.title = "Accepted drafts by block position",
                .x_name = "position in the block",
                .y_name = "share of verify steps",
                .bars = true,
                .y_max = 1};
  for (const CaseResult* r : cases) {
    auto shares = accepted_by_position(r->accept_histogram);
    if (shares.empty()) continue;
    while (accepted.labels.size() < shares.size())
      accepted.labels.push_back(std::to_string(accepted.labels.size() + 1));
    accepted.series.push_back(
        {.name = fmt::format("{} {}", unit, r->bench_case.batch_size), .values = std::move(shares)});
  }
  return accepted;
}

}  // namespace

std::vector<NamedPlot> plots(const BenchReport& report) {
  if (report.open) {
    const OpenLoopResult& open = *report.open;
    if (open.figures.bench_case.batch_size == 0) return {};
    std::vector<NamedPlot> all = {{"latency", to_svg(percentile_plot(open))}};
    const Plot accepted = accepted_plot({&open.figures}, "requests:");
    if (!accepted.series.empty()) all.push_back({"accepted", to_svg(accepted)});
    return all;
  }
  const auto cases = measured_cases(report);
  if (cases.empty()) return {};
  std::vector<NamedPlot> all = plots_by_batch(cases);
  const Plot accepted = accepted_plot(cases, "batch");
  if (!accepted.series.empty()) all.push_back({"accepted", to_svg(accepted)});
  return all;
}

}  // namespace strobe::measure
