#include "measure/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace strobe::measure {

constexpr int64_t kBarWidth = 30;

Progress::Mode Progress::mode_of_stderr(bool quiet) {
  if (quiet) return Mode::kQuiet;
  return isatty(STDERR_FILENO) != 0 ? Mode::kBar : Mode::kLines;
}

std::string progress_bar(int64_t done, int64_t total, const std::string& words) {
  const int64_t filled = total > 0 ? std::clamp<int64_t>(done * kBarWidth / total, 0, kBarWidth) : 0;
  return fmt::format("[{}{}] {}/{} {}", std::string(static_cast<size_t>(filled), '#'),
                     std::string(static_cast<size_t>(kBarWidth - filled), ' '), done, total, words);
}

void Progress::show(int64_t done, const std::string& words) {
  if (mode_ == Mode::kLines) {
    const int64_t tenth = total_ > 0 ? done * 10 / total_ : 10;
    if (tenth > said_tenth_) fmt::print(stderr, "{}/{} {}\n", done, total_, words);
    said_tenth_ = std::max(said_tenth_, tenth);
  } else if (mode_ == Mode::kBar) {
    const auto now = Clock::now();
    if (drawn_ && done < total_ && now - last_drawn_ < std::chrono::milliseconds(50)) return;
    fmt::print(stderr, "\r\x1b[K{}", progress_bar(done, total_, words));
    std::fflush(stderr);
    drawn_ = true;
    last_drawn_ = now;
  }
}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "\n");
}

}  // namespace strobe::measure
