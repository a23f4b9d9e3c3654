// What a benchmark found, as JSON, Markdown, plots and lines for a terminal.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "measure/bench.h"
#include "measure/eval.h"

namespace strobe::measure {

struct BenchReport {
  std::string model;
  std::string server;
  std::string run_name;
  std::string dataset;  // in words: which prompts
  std::vector<CaseResult> cases;
  std::optional<OpenLoop> load;  // with it: open loop
  std::optional<OpenLoopResult> open;
  std::optional<double> threshold;  // of the accept length
  nlohmann::json server_args;
  std::vector<std::string> profiles;  // files

  // Of all measured cases, each counting the same; nullopt when none has one.
  [[nodiscard]] std::optional<double> accept_length() const;
};

// kPass: every case that fits the server was measured, at least one, and the accept length reaches the threshold.
// kFail: it does not. kUnknown: a case failed, none fits, or there is no accept length to hold against the threshold.
[[nodiscard]] Verdict judge(const BenchReport& report);

[[nodiscard]] nlohmann::json to_json(const BenchReport& report);
[[nodiscard]] std::string to_markdown(const BenchReport& report);
[[nodiscard]] std::string verdict_line(const BenchReport& report);
// Why the accept length may be higher than on other texts; empty when nothing suggests it.
[[nodiscard]] std::string flattery(const CaseResult& result);

struct NamedPlot {
  std::string name;  // of the file, without its ending
  std::string svg;
};
// All names that plots() gives.
constexpr const char* kPlotNames[] = {"throughput", "latency", "itl", "accepted"};
// Throughput, latency and time between tokens against batch size (open loop: latency by percentile), and the accepted
// share by block position.
[[nodiscard]] std::vector<NamedPlot> plots(const BenchReport& report);

}  // namespace strobe::measure
