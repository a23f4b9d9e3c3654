// How far a measurement is: a bar that is drawn again on a terminal, a line now and then elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace strobe::measure {

class Progress {
 public:
  enum class Mode { kQuiet, kLines, kBar };
  // kBar when standard error is a terminal.
  static Mode mode_of_stderr(bool quiet);

  Progress(Mode mode, int64_t total) : mode_(mode), total_(total) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `words`: what to say besides the count, such as the score so far.
  void show(int64_t done, const std::string& words);

 private:
  using Clock = std::chrono::steady_clock;

  Mode mode_;
  int64_t total_;
  int64_t said_tenth_ = 0;
  bool drawn_ = false;
  Clock::time_point last_drawn_;
};

// "[#####     ] 5/10 words"; pure.
[[nodiscard]] std::string progress_bar(int64_t done, int64_t total, const std::string& words);

}  // namespace strobe::measure
