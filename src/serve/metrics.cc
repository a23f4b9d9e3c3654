#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace strobe::serve {
namespace {

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  if (value == std::floor(value) && std::abs(value) < 1e15) return fmt::format("{}", static_cast<int64_t>(value));
  return fmt::format("{}", value);
}

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

// Draft positions that have a meaning: 1 to the block's length less one.
int draft_positions(const schedule::GeneratorStats& stats) {
  return std::clamp(stats.draft_block_tokens, 1, schedule::kMaxBlockTokens) - 1;
}

void write_load(PrometheusText& text, const schedule::GeneratorStats& stats) {
  text.gauge("sglang:num_running_reqs", "Requests that are being decoded", stats.running_requests);
  text.gauge("sglang:num_queue_reqs", "Requests that wait for room", stats.queued_requests);
  text.gauge("sglang:num_used_tokens", "Token slots in use", static_cast<double>(stats.used_slots));
  text.gauge("strobe:num_cached_tokens", "Token slots that the prefix cache holds for nobody in particular",
             static_cast<double>(stats.cached_slots));
  text.counter("strobe:preemptions_total", "Requests that lost their pages and read their text again",
               static_cast<double>(stats.preemptions_total));
  text.gauge("sglang:max_total_num_tokens", "Token slots there are", static_cast<double>(stats.total_slots));
  text.gauge("sglang:token_usage", "Share of the token slots in use", stats.slot_usage());
  text.gauge("sglang:utilization", "Share of the request places in use", stats.utilization());
  text.gauge("sglang:gen_throughput", "Tokens a second, lately", stats.recent_tokens_per_second);
  text.counter("sglang:prompt_tokens_total", "Prompt tokens taken", static_cast<double>(stats.prompt_tokens_total));
  text.counter("sglang:generation_tokens_total", "Tokens generated", static_cast<double>(stats.generated_tokens_total));
}

void write_speculation(PrometheusText& text, const schedule::GeneratorStats& stats) {
  const auto verify_steps = static_cast<double>(stats.verify_steps_total);
  text.gauge("sglang:spec_accept_length", "Tokens of a verify step, its own one included", stats.accept_length());
  text.gauge("sglang:spec_accept_rate", "Share of the draft tokens that were accepted", stats.accept_rate());
  text.gauge("sglang:spec_num_draft_tokens", "Tokens of a draft block", stats.draft_block_tokens);
  text.counter("sglang:spec_verify_calls_total", "Verify steps, counted for each request", verify_steps);
  text.counter("strobe:spec_held_back_steps_total", "Decode steps without a draft because drafting did not pay",
               static_cast<double>(stats.held_back_steps_total));
  text.counter("strobe:spec_drafted_tokens_total", "Tokens drafted", static_cast<double>(stats.drafted_tokens_total));
  text.counter("strobe:spec_accepted_tokens_total", "Draft tokens accepted",
               static_cast<double>(stats.accepted_tokens_total));
  const int positions = draft_positions(stats);
  text.head("strobe:spec_accepted_at_position_total", "Verify steps that accepted the draft token at this position",
            "counter");
  int64_t reached = 0;
  std::vector<int64_t> at_position(static_cast<size_t>(positions) + 1);
  for (int position = positions; position >= 1; --position) {
    reached += stats.accept_histogram[static_cast<size_t>(position)];
    at_position[static_cast<size_t>(position)] = reached;
  }
  for (int position = 1; position <= positions; ++position) {
    text.sample("strobe:spec_accepted_at_position_total", fmt::format("position=\"{}\"", position),
                static_cast<double>(at_position[static_cast<size_t>(position)]));
  }
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::observe(double value, int64_t times) {
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  counts_[static_cast<size_t>(bound - bounds_.begin())] += times;
  sum_ += value * static_cast<double>(times);
}

std::string label_value(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out.push_back('\\');
    if (c == '\n') {
      out += "\\n";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

void PrometheusText::head(std::string_view name, std::string_view help, std::string_view type) {
  fmt::format_to(std::back_inserter(out_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void PrometheusText::sample(std::string_view name, std::string_view more_labels, double value) {
  const bool both = !labels_.empty() && !more_labels.empty();
  fmt::format_to(std::back_inserter(out_), "{}{{{}{}{}}} {}\n", name, labels_, both ? "," : "", more_labels,
                 number(value));
}

void PrometheusText::gauge(std::string_view name, std::string_view help, double value) {
  head(name, help, "gauge");
  sample(name, "", value);
}

void PrometheusText::counter(std::string_view name, std::string_view help, double value) {
  head(name, help, "counter");
  sample(name, "", value);
}

void PrometheusText::histogram(std::string_view name, std::string_view help, const Histogram& values) {
  head(name, help, "histogram");
  const std::string bucket = fmt::format("{}_bucket", name);
  int64_t below = 0;
  for (size_t i = 0; i < values.bounds().size(); ++i) {
    below += values.counts()[i];
    sample(bucket, fmt::format("le=\"{}\"", number(values.bounds()[i])), static_cast<double>(below));
  }
  below += values.counts().back();
  sample(bucket, "le=\"+Inf\"", static_cast<double>(below));
  sample(fmt::format("{}_sum", name), "", values.sum());
  sample(fmt::format("{}_count", name), "", static_cast<double>(below));
}

Metrics::Metrics()
    : first_token_({0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 100, 200, 400}),
      gap_({0.001, 0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.8, 2, 8}),
      whole_({0.05, 0.1, 0.2, 0.4, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 100, 200, 400, 600, 1200, 2400}),
      queue_({0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 400}) {}

void Metrics::first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  first_token_.observe(seconds);
}

void Metrics::more_tokens(double seconds, int32_t tokens) {
  if (tokens <= 0) return;
  const std::lock_guard lock(mutex_);
  gap_.observe(seconds / tokens, tokens);
}

void Metrics::finished(const schedule::Usage& usage, bool aborted) {
  const std::lock_guard lock(mutex_);
  ++requests_;
  if (aborted) ++aborted_;
  prompt_tokens_ += usage.prompt_tokens;
  cached_tokens_ += usage.cached_tokens;
  queue_.observe(usage.queue_ms / 1000);
  whole_.observe(usage.total_ms / 1000);
}

void Metrics::answered(std::string_view route, int status) {
  const std::lock_guard lock(mutex_);
  ++answers_[{std::string(route), status}];
}

std::string Metrics::text(const std::string& model_name, const schedule::GeneratorStats& stats) const {
  PrometheusText text(fmt::format("model_name=\"{}\"", label_value(model_name)));
  write_load(text, stats);
  write_speculation(text, stats);
  const std::lock_guard lock(mutex_);
  text.counter("sglang:cached_tokens_total", "Prompt tokens whose keys were in the cache",
               static_cast<double>(cached_tokens_));
  text.gauge("sglang:cache_hit_rate", "Share of the prompt tokens that were in the cache",
             ratio(static_cast<double>(cached_tokens_), static_cast<double>(prompt_tokens_)));
  text.counter("sglang:num_requests_total", "Requests that have ended", static_cast<double>(requests_));
  text.counter("sglang:num_aborted_requests_total", "Requests that were aborted", static_cast<double>(aborted_));
  text.histogram("sglang:time_to_first_token_seconds", "From the request to its first token", first_token_);
  text.histogram("sglang:inter_token_latency_seconds", "Between tokens; a step's tokens share its time", gap_);
  text.histogram("sglang:e2e_request_latency_seconds", "From the request to its end", whole_);
  text.histogram("sglang:queue_time_seconds", "From the request to its first step", queue_);
  text.head("strobe:http_answers_total", "HTTP answers", "counter");
  for (const auto& [key, count] : answers_) {
    text.sample("strobe:http_answers_total",
                fmt::format("route=\"{}\",status=\"{}\"", label_value(key.first), key.second),
                static_cast<double>(count));
  }
  return text.take();
}

}  // namespace strobe::serve
