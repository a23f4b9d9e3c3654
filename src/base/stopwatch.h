// Stopwatch: milliseconds between laps.
#pragma once

#include <chrono>
#include <utility>

namespace strobe {

class Stopwatch {
 public:
  // Since the last lap, or the beginning.
  double lap_ms() {
    const auto now = Clock::now();
    return std::chrono::duration<double, std::milli>(now - std::exchange(last_, now)).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

}  // namespace strobe
