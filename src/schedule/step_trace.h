// The spans of engine steps, for a profile: scheduler, draft, prefill or verify, accept, commit. A step that is one
// recording is one span, "step", to the host; where a device works beside it, a row of its own has its stages.
#pragma once

#include <vector>

#include "base/trace.h"
#include "engine/step.h"

namespace strobe::schedule {

class StepTrace {
 public:
  // `recorder` may be null: nothing is ever recorded.
  explicit StepTrace(TraceRecorder* recorder) : recorder_(recorder) {}

  [[nodiscard]] bool on() const { return recorder_ != nullptr && recorder_->on(); }
  // Around a step, when on() was true before it. Between two of them lies the scheduler's time, unless pause() comes
  // between: nothing is there to do, or nothing is recorded.
  void begin() { begin_ = TraceSpan::Clock::now(); }
  void pause() { has_last_ = false; }
  void end(const engine::StepPlan& plan, const engine::StepResult& result);

 private:
  TraceRecorder* recorder_;
  TraceSpan::Clock::time_point begin_;
  TraceSpan::Clock::time_point last_end_;  // of the step before
  bool has_last_ = false;
};

// The spans of one step that began at `begin`: on the host its parts one after the other, then what the device says.
// Pure.
[[nodiscard]] std::vector<TraceSpan> step_spans(const engine::StepPlan& plan, const engine::StepResult& result,
                                                TraceSpan::Clock::time_point begin);

}  // namespace strobe::schedule
