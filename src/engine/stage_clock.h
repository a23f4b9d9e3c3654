// StageClock: when the stages of a timed step ran, by the clock of the device that runs them.
#pragma once

#include <cstdint>

#include "base/mix.h"
#include "engine/step.h"
#include "ops/exec.h"

namespace strobe::engine {

// Where a stage begins or ends. One mark is enough where one ends and the next begins.
enum class Mark : int { kStart, kDraft, kDraftEnd, kTarget, kTargetEnd, kAccept, kCommit, kCommitEnd };
static_assert(static_cast<int>(Mark::kCommitEnd) < kernel::Kernels::kMarks);

class StageClock {
 public:
  explicit StageClock(ops::Exec& exec) : exec_(exec) {}

  // A step begins: marks are noted from here on if it is timed.
  void start(bool timed) {
    on_ = timed;
    mark(Mark::kStart);
  }
  [[nodiscard]] bool on() const { return on_; }
  // After what was queued last; in recorded work too.
  void mark(Mark mark) const {
    if (on_) exec_.kernels().mark(static_cast<int>(mark));
  }
  // Sets recordings with marks apart from those without.
  [[nodiscard]] uint64_t tag(uint64_t recording) const { return on_ ? mix(recording, kMarked) : recording; }

  // When on(), between two marks of this step; waits for the second.
  [[nodiscard]] StageSpan span(Mark first, Mark second) const {
    return {between(Mark::kStart, first), between(first, second)};
  }
  // On the host itself its own stopwatch says the same.
  void tell(const StageSpans& spans, StepTimes& times) const {
    if (!exec_.on_host()) times.device = spans;
  }

 private:
  static constexpr uint64_t kMarked = 1;
  [[nodiscard]] double between(Mark first, Mark second) const {
    return exec_.kernels().ms_between(static_cast<int>(first), static_cast<int>(second));
  }

  ops::Exec& exec_;
  bool on_ = false;
};

}  // namespace strobe::engine
