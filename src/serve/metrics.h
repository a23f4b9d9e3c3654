// Metrics: what /metrics says, in Prometheus' text format. Names as SGLang has them ("sglang:..."), so that its
// dashboards work; what SGLang does not have is called "strobe:...".
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/generator.h"

namespace strobe::serve {

// Counts of observations by upper bound.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);  // ascending
  void observe(double value, int64_t times = 1);

  [[nodiscard]] const std::vector<double>& bounds() const { return bounds_; }
  // One a bound and one for what is above; not cumulative.
  [[nodiscard]] const std::vector<int64_t>& counts() const { return counts_; }
  [[nodiscard]] double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<int64_t> counts_;
  double sum_ = 0;
};

// Appends families in the text format.
class PrometheusText {
 public:
  // `labels`: of every sample, without braces (model_name="x").
  explicit PrometheusText(std::string labels) : labels_(std::move(labels)) {}

  void gauge(std::string_view name, std::string_view help, double value);
  void counter(std::string_view name, std::string_view help, double value);
  void histogram(std::string_view name, std::string_view help, const Histogram& values);
  // A family with several samples: head() once, then sample() with more labels.
  void head(std::string_view name, std::string_view help, std::string_view type);
  void sample(std::string_view name, std::string_view more_labels, double value);
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  std::string labels_;
  std::string out_;
};

// `value` as it stands between the quotes of a label.
[[nodiscard]] std::string label_value(std::string_view value);

// Safe to call from several threads at once.
class Metrics {
 public:
  Metrics();
  void first_token(double seconds);
  // `tokens` came `seconds` after the ones before: as many gaps of equal length.
  void more_tokens(double seconds, int32_t tokens);
  void finished(const schedule::Usage& usage, bool aborted);
  void answered(std::string_view route, int status);
  [[nodiscard]] std::string text(const std::string& model_name, const schedule::GeneratorStats& stats) const;

 private:
  mutable std::mutex mutex_;
  Histogram first_token_;
  Histogram gap_;
  Histogram whole_;
  Histogram queue_;
  int64_t requests_ = 0;
  int64_t aborted_ = 0;
  int64_t prompt_tokens_ = 0;
  int64_t cached_tokens_ = 0;
  std::map<std::pair<std::string, int>, int64_t> answers_;  // (route, status) -> count
};

}  // namespace strobe::serve
