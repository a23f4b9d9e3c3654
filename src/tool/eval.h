// `strobe eval gsm8k` as a function, for the command and for suites.
#pragma once

#include <atomic>
#include <string>

#include "measure/eval.h"
#include "tool/measured_server.h"

namespace strobe::tool {

struct Gsm8kOptions {
  std::string data_path;
  int64_t num_examples = 200;
  int64_t num_shots = 5;
  std::string api;  // empty: the protocol's own
  std::string protocol = "standard";
  int32_t parallel = 512;
  int32_t max_tokens = 0;
  double baseline = 0;
  int32_t retries = 6;
  std::string output_dir = "strobe-results";
  bool quiet = false;
  MeasuredServerOptions server;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("--data-path", data_path, "JSON lines with question and answer: GSM8K's test.jsonl, or any file of that form");
    v("--num-examples", num_examples, "questions to ask; 0: all of the file");
    v("--num-shots", num_shots, "examples before each question: the first lines of the file");
    v("--api", api, "completion | chat | generate; default: completion, or generate with few-shot-legacy");
    v("--protocol", protocol,
      "standard | few-shot-legacy: the second asks the examples too and reads whole numbers only; their scores do not "
      "compare");
    v("--parallel", parallel, "requests at a time");
    v("--max-tokens", max_tokens, "longest answer; 0: 2048, or 512 with few-shot-legacy");
    v("--baseline", baseline, "the least score that passes; 0: none");
    v("--retries", retries, "tries for a request that fails");
    v("--output-dir", output_dir, "where gsm8k_MODEL.json, .html and .samples.jsonl are written");
    v("--quiet", quiet, "no progress");
    server.visit(v);
  }
};

// What the options say, checked; the file is read. Errors name the flag.
struct Gsm8kPlan {
  measure::EvalOptions options;
  std::vector<measure::Gsm8kLine> lines;
};
Result<Gsm8kPlan> plan_gsm8k(const Gsm8kOptions& options);

// Runs the plan against its server and writes the files. An Error: it could not be measured at all.
Result<measure::EvalReport> run_gsm8k(const Gsm8kOptions& options, const Gsm8kPlan& plan,
                                      const std::atomic<bool>& stop);
// kPassed, kBelowThreshold or kNotMeasured.
[[nodiscard]] int exit_code(const measure::EvalReport& report);

}  // namespace strobe::tool
