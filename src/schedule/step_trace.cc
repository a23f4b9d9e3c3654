#include "schedule/step_trace.h"

#include <algorithm>
#include <utility>

namespace strobe::schedule {
namespace {

using Clock = TraceSpan::Clock;

double ms_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}

Clock::duration duration_of(double ms) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(ms));
}

bool reads_prompt(const engine::StepSequence& sequence) {
  return sequence.tokens.size() > 1 || sequence.first_position < sequence.prompt_tokens;
}

}  // namespace

std::vector<TraceSpan> step_spans(const engine::StepPlan& plan, const engine::StepResult& result,
                                  Clock::time_point begin) {
  TraceSpan span{.sequences = static_cast<int32_t>(plan.sequences.size())};
  bool drafted = false;
  if (std::ranges::any_of(plan.sequences, reads_prompt)) span.stage = TraceStage::kPrefill;
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const engine::StepOutput& output = result.outputs[i];
    span.rows += static_cast<int32_t>(plan.sequences[i].tokens.size()) + output.drafted;
    span.accepted += output.accepted;
    drafted = drafted || output.drafted > 0;
  }
  const char* pass = drafted ? "verify" : span.stage == TraceStage::kPrefill ? "prefill" : "decode";
  const engine::StepTimes& times = result.times;
  std::vector<TraceSpan> spans;
  const auto add = [&](const char* name, double begin_ms, double ms) {
    if (ms <= 0) return;
    spans.push_back(span);
    spans.back().name = name;
    spans.back().begin = begin + duration_of(begin_ms);
    spans.back().ms = ms;
  };
  if (times.recorded_ms > 0) {
    add("step", 0, times.recorded_ms);
  } else {
    double now_ms = 0;
    const auto add_next = [&](const char* name, double ms) { add(name, std::exchange(now_ms, now_ms + ms), ms); };
    if (drafted) add_next("draft", times.draft_ms);
    add_next(pass, times.target_ms);
    add_next("accept", times.accept_ms);
    add_next("commit", times.commit_ms);
  }
  if (!times.device) return spans;
  span.row = TraceRow::kStream;
  const engine::StageSpans& device = *times.device;
  for (const auto& [name, stage] : {std::pair("draft", device.draft), std::pair(pass, device.target),
                                    std::pair("accept", device.accept), std::pair("commit", device.commit)}) {
    add(name, stage.begin_ms, stage.ms);
  }
  return spans;
}

void StepTrace::end(const engine::StepPlan& plan, const engine::StepResult& result) {
  std::vector<TraceSpan> spans = step_spans(plan, result, begin_);
  if (!spans.empty() && has_last_) {
    TraceSpan scheduler = spans.front();
    scheduler.name = "scheduler";
    scheduler.begin = last_end_;
    scheduler.ms = ms_between(last_end_, begin_);
    spans.insert(spans.begin(), scheduler);
  }
  recorder_->add_step(spans);
  last_end_ = Clock::now();
  has_last_ = true;
}

}  // namespace strobe::schedule
