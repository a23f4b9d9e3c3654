#include "base/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace strobe {
namespace {

using nlohmann::json;

constexpr size_t kMostSpans = 1'000'000;  // 64 MB

double microseconds(TraceSpan::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (!file) return error("{}: cannot be written: {}", path, std::strerror(errno));
  return {};
}

std::vector<TraceSpan> of_stage(const std::vector<TraceSpan>& spans, TraceStage stage) {
  std::vector<TraceSpan> own;
  std::ranges::copy_if(spans, std::back_inserter(own), [&](const TraceSpan& span) { return span.stage == stage; });
  return own;
}

}  // namespace

std::string_view to_string(TraceStage stage) {
  return stage == TraceStage::kPrefill ? "prefill" : "decode";
}

std::string_view to_string(TraceRow row) {
  return row == TraceRow::kEngine ? "engine" : "CUDA stream";
}

std::string to_chrome_trace(const std::vector<TraceSpan>& spans, TraceSpan::Clock::time_point start) {
  json events = json::array();
  events.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", 0}, {"args", {{"name", "rank 0"}}}});
  for (const TraceRow row : {TraceRow::kEngine, TraceRow::kStream}) {
    if (std::ranges::none_of(spans, [&](const TraceSpan& span) { return span.row == row; })) continue;
    events.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", 0},
                      {"tid", static_cast<int>(row)},
                      {"args", {{"name", to_string(row)}}}});
  }
  for (const TraceSpan& span : spans) {
    events.push_back({{"ph", "X"},
                      {"name", span.name},
                      {"cat", to_string(span.stage)},
                      {"ts", microseconds(span.begin - start)},
                      {"dur", span.ms * 1000},
                      {"pid", 0},
                      {"tid", static_cast<int>(span.row)},
                      {"args", {{"sequences", span.sequences}, {"rows", span.rows}, {"accepted", span.accepted}}}});
  }
  return json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump() + "\n";
}

std::string trace_summary(const std::vector<TraceSpan>& spans) {
  struct Sum {
    std::string_view name;
    int64_t count = 0;
    double ms = 0;
  };
  // Of each row of each stage, in the order in which they came first.
  std::map<std::pair<TraceStage, TraceRow>, std::vector<Sum>> rows;
  for (const TraceSpan& span : spans) {
    std::vector<Sum>& sums = rows[{span.stage, span.row}];
    auto sum = std::ranges::find(sums, span.name, &Sum::name);
    if (sum == sums.end()) sum = sums.insert(sums.end(), {.name = span.name});
    ++sum->count;
    sum->ms += span.ms;
  }
  constexpr const char* kForm = "{:<8} {:<11} {:<10} {:>8} {:>12} {:>10} {:>7}\n";
  std::string table = fmt::format(kForm, "stage", "row", "span", "count", "total ms", "mean ms", "share");
  for (const auto& [row, sums] : rows) {
    double whole = 0;
    for (const Sum& sum : sums) whole += sum.ms;
    for (const Sum& sum : sums) {
      table +=
          fmt::format(kForm, to_string(row.first), to_string(row.second), sum.name, sum.count,
                      fmt::format("{:.3f}", sum.ms), fmt::format("{:.4f}", sum.ms / static_cast<double>(sum.count)),
                      fmt::format("{:.1f}%", whole > 0 ? sum.ms * 100 / whole : 0.0));
    }
  }
  return table;
}

Result<void> TraceRecorder::start(TraceRequest request) {
  const std::lock_guard lock(mutex_);
  if (started_) return error("a profile is being recorded already; stop it first");
  request_ = std::move(request);
  // A folder that cannot be written is told now, not after the work.
  const std::string probe = request_.folder + "/" + request_.run + ".part";
  STROBE_TRY(write_file(probe, ""));
  std::remove(probe.c_str());
  spans_.clear();
  steps_ = dropped_ = 0;
  start_ = TraceSpan::Clock::now();
  started_ = true;
  on_ = true;
  return {};
}

void TraceRecorder::add_step(const std::vector<TraceSpan>& spans) {
  const std::lock_guard lock(mutex_);
  if (!on_) return;
  if (spans_.size() + spans.size() > kMostSpans) {
    ++dropped_;
  } else {
    spans_.insert(spans_.end(), spans.begin(), spans.end());
  }
  if (++steps_ == request_.steps) on_ = false;
}

Result<TraceFiles> TraceRecorder::stop() {
  const std::lock_guard lock(mutex_);
  if (!started_) return error("no profile is being recorded");
  on_ = false;
  started_ = false;
  TraceFiles files;
  files.summary = trace_summary(spans_);
  if (dropped_ > 0) files.summary += fmt::format("{} further steps did not fit and are missing\n", dropped_);
  int32_t batch = 0;
  for (const TraceSpan& span : spans_) batch = std::max(batch, span.sequences);
  for (const TraceStage stage : {TraceStage::kPrefill, TraceStage::kDecode}) {
    const std::vector<TraceSpan> own = of_stage(spans_, stage);
    if (own.empty()) continue;
    files.paths.push_back(
        fmt::format("{}/{}-bs{}-{}.rank0.trace.json", request_.folder, request_.run, batch, to_string(stage)));
    STROBE_TRY(write_file(files.paths.back(), to_chrome_trace(own, start_)));
  }
  spans_ = {};
  return files;
}

}  // namespace strobe
