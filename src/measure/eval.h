// Runs the GSM8K questions against a server and judges the answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measure/gsm8k.h"
#include "measure/http_client.h"

namespace strobe::measure {

enum class Api { kCompletion, kChat, kGenerate };

[[nodiscard]] std::string_view to_string(Api api);
[[nodiscard]] std::string_view to_string(Gsm8kProtocol protocol);

struct EvalOptions {
  Gsm8kProtocol protocol = Gsm8kProtocol::kStandard;
  Api api = Api::kCompletion;
  int64_t examples = 200;  // 0: all
  int64_t shots = 5;
  int32_t parallel = 512;
  int32_t max_tokens = 2048;
  std::optional<double> baseline;
  RetryPolicy retries;
};

enum class Outcome { kRight, kWrong, kFailed, kNotAsked };

struct Sample {
  int64_t file_line = 0;
  std::string question;
  std::string gold;                      // the number
  std::string response;                  // the answer's text
  std::optional<std::string> extracted;  // the number of it; none: invalid
  Outcome outcome = Outcome::kNotAsked;
  std::string problem;  // of kFailed
  std::string finish_reason;
  int32_t tries = 0;
  double seconds = 0;
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t verify_steps = 0;
  int64_t accepted_tokens = 0;
  std::optional<double> accept_length;  // none: the server does not say
};

struct EvalTotals {
  int64_t asked = 0;  // with an outcome
  int64_t right = 0, wrong = 0, failed = 0, not_asked = 0;
  int64_t invalid = 0;  // answers without a number; they are among the wrong
  int64_t completion_tokens = 0;
  std::optional<double> accept_length;  // over all verify steps

  // Right answers among those that came; none when none did.
  [[nodiscard]] std::optional<double> score() const;
};

[[nodiscard]] EvalTotals add_up(const std::vector<Sample>& samples);

enum class Verdict { kPass, kFail, kUnknown };

// Against the baseline, whatever the requests that failed or were not asked would have given: kPass when it holds even
// were they all wrong, kFail when it does not even were they all right, else kUnknown. Without a baseline: kPass when
// every request was answered, else kUnknown.
[[nodiscard]] Verdict judge(const EvalTotals& totals, const std::optional<double>& baseline);

struct EvalReport {
  EvalOptions options;
  std::string data_path;
  std::string model;
  std::string server;
  std::vector<Sample> samples;  // in the order of the file
  double seconds = 0;
  std::string problem;  // why not all were asked
};

// The body of one request. Pure.
[[nodiscard]] std::string request_body(const EvalOptions& options, const std::string& model, const std::string& prompt);
[[nodiscard]] std::string_view request_path(Api api);
// Fills in the sample from an answer with status 200; an answer of another form makes it kFailed. Pure.
void read_answer(const EvalOptions& options, const std::string& body, Sample& sample);

// Asks all questions, `parallel` at a time. `on_sample` sees each sample when it is done, one at a time. Ends early
// when the client is stopped; what was not asked stays kNotAsked. `lines` is the whole file.
EvalReport run_eval(const EvalOptions& options, const HttpClient& client, const std::string& model,
                    const std::vector<Gsm8kLine>& lines,
                    const std::function<void(const Sample& sample, const EvalTotals& so_far)>& on_sample);

}  // namespace strobe::measure
