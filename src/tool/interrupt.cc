#include "tool/interrupt.h"

namespace strobe::tool {

Interrupt::Interrupt() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  watcher_ = std::thread([this] {
    while (!done_) {
      const timespec moment{.tv_sec = 0, .tv_nsec = 50'000'000};
      if (sigtimedwait(&signals_, nullptr, &moment) > 0) flag_ = true;
    }
  });
}

Interrupt::~Interrupt() {
  done_ = true;
  watcher_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace strobe::tool
