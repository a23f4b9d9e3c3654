// Ctrl-C and SIGTERM as a flag, for work that has something to save before it ends.
#pragma once

#include <signal.h>

#include <atomic>
#include <thread>

namespace strobe::tool {

// While it lives, both signals set the flag instead of ending the program. Make it before any other thread is started.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  [[nodiscard]] const std::atomic<bool>& flag() const { return flag_; }

 private:
  std::atomic<bool> flag_ = false;
  std::atomic<bool> done_ = false;
  sigset_t signals_;
  sigset_t before_;
  std::thread watcher_;
};

}  // namespace strobe::tool
