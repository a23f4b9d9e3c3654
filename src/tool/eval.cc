// strobe eval gsm8k: accuracy of a served model.
#include "tool/eval.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "measure/eval_report.h"
#include "measure/files.h"
#include "measure/progress.h"
#include "measure/server_facts.h"
#include "tool/commands.h"
#include "tool/interrupt.h"
#include "tool/measuring.h"

namespace strobe::tool {
namespace {

using measure::Gsm8kProtocol;

constexpr auto kReplace = nlohmann::json::error_handler_t::replace;

Result<measure::Api> api_of(const Gsm8kOptions& o) {
  std::string name = o.api;
  if (name.empty()) name = o.protocol == "few-shot-legacy" ? "generate" : "completion";
  if (name == "completion") return measure::Api::kCompletion;
  if (name == "chat") return measure::Api::kChat;
  if (name == "generate") return measure::Api::kGenerate;
  return error("--api {}: accepted: completion, chat, generate", o.api);
}

Result<void> check_numbers(const Gsm8kOptions& o) {
  if (o.num_examples < 0) return error("--num-examples {}: accepted: 0 (all) and more", o.num_examples);
  if (o.num_shots < 0) return error("--num-shots {}: accepted: 0 and more", o.num_shots);
  if (o.parallel < 1 || o.parallel > 4096) return error("--parallel {}: accepted: 1 to 4096", o.parallel);
  if (o.max_tokens < 0) return error("--max-tokens {}: accepted: 1 and more, or 0 for the protocol's", o.max_tokens);
  if (!(o.baseline >= 0 && o.baseline <= 1)) return error("--baseline {}: accepted: 0 (none) to 1", o.baseline);
  if (o.retries < 1 || o.retries > 20) return error("--retries {}: accepted: 1 to 20", o.retries);
  return {};
}

int gsm8k(const Gsm8kOptions& o) {
  const auto plan = plan_gsm8k(o);
  if (!plan) return say_error(plan.error(), kUsageError);
  const Interrupt interrupt;
  const auto report = run_gsm8k(o, *plan, interrupt.flag());
  if (!report) return say_error(report.error(), kNotMeasured);
  fmt::print("{}", measure::to_text(*report));
  return exit_code(*report);
}

}  // namespace

Result<Gsm8kPlan> plan_gsm8k(const Gsm8kOptions& o) {
  Gsm8kPlan plan;
  if (o.protocol != "standard" && o.protocol != "few-shot-legacy") {
    return error("--protocol {}: accepted: standard, few-shot-legacy", o.protocol);
  }
  const bool legacy = o.protocol == "few-shot-legacy";
  STROBE_ASSIGN(const measure::Api api, api_of(o));
  STROBE_TRY(check_numbers(o));
  STROBE_TRY(check(o.server));
  if (o.data_path.empty()) return error("--data-path is needed: a file of JSON lines with question and answer");
  const Gsm8kProtocol protocol = legacy ? Gsm8kProtocol::kFewShotLegacy : Gsm8kProtocol::kStandard;
  STROBE_ASSIGN(plan.lines, measure::read_gsm8k(o.data_path, protocol));
  plan.options = {.protocol = protocol,
                  .api = api,
                  .examples = o.num_examples,
                  .shots = o.num_shots,
                  .parallel = o.parallel,
                  .max_tokens = o.max_tokens != 0 ? o.max_tokens
                                : legacy          ? 512
                                                  : 2048,
                  .retries = {.tries = o.retries}};
  if (o.baseline > 0) plan.options.baseline = o.baseline;
  const auto lines = static_cast<int64_t>(plan.lines.size());
  if (o.num_shots > lines || (!legacy && o.num_shots == lines)) {
    return error("--num-shots {}: {} has {} lines; accepted: less than that, so that questions are left", o.num_shots,
                 o.data_path, lines);
  }
  STROBE_TRY(measure::make_folder("--output-dir", o.output_dir));
  return plan;
}

Result<measure::EvalReport> run_gsm8k(const Gsm8kOptions& o, const Gsm8kPlan& plan, const std::atomic<bool>& stop) {
  STROBE_ASSIGN(const MeasuredServer server, MeasuredServer::open(o.server, o.output_dir + "/gsm8k_server.log", stop));
  STROBE_ASSIGN(const measure::ServerFacts facts, measure::read_server_facts(server.client()));
  const std::string stem = o.output_dir + "/gsm8k_" + measure::safe_name(facts.model);
  // Line by line, so that a run that is cut short leaves what it had.
  std::ofstream samples(stem + ".samples.jsonl", std::ios::trunc);
  if (!samples) fail("{}.samples.jsonl: cannot be written: {}", stem, std::strerror(errno));

  const auto asked = measure::asked_lines(plan.lines, plan.options.protocol, static_cast<size_t>(o.num_shots),
                                          static_cast<size_t>(o.num_examples));
  measure::EvalReport report;
  {
    measure::Progress progress(measure::Progress::mode_of_stderr(o.quiet), static_cast<int64_t>(asked.size()));
    report = measure::run_eval(plan.options, server.client(), facts.model, plan.lines,
                               [&](const measure::Sample& sample, const measure::EvalTotals& so_far) {
                                 samples << measure::to_json(sample).dump(-1, ' ', false, kReplace) << std::endl;
                                 progress.show(so_far.asked, measure::running_score(so_far));
                               });
  }
  report.data_path = o.data_path;
  measure::write_whole(stem + ".json", measure::to_json(report).dump(1, ' ', false, kReplace) + "\n");
  measure::write_whole(stem + ".html", measure::to_html(report));
  fmt::print("results: {}.json, {}.html\n", stem, stem);
  return report;
}

int exit_code(const measure::EvalReport& report) {
  switch (measure::judge(measure::add_up(report.samples), report.options.baseline)) {
    case measure::Verdict::kPass:
      return kPassed;
    case measure::Verdict::kFail:
      return kBelowThreshold;
    case measure::Verdict::kUnknown:
      break;
  }
  return kNotMeasured;
}

Subcommand eval_command() {
  return measuring_command<Gsm8kOptions>("eval gsm8k", "measure how many of GSM8K's questions a server answers right",
                                         gsm8k);
}

}  // namespace strobe::tool
