#include "schedule/lookahead.h"

#include <utility>

namespace strobe::schedule {

Lookahead::Lookahead(std::function<void()> work) : work_(std::move(work)), thread_([this] { loop(); }) {}

Lookahead::~Lookahead() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Lookahead::open(bool now) {
  const std::lock_guard lock(mutex_);
  open_ = true;
  rung_ = rung_ || now;
  if (rung_) wake_.notify_one();
}

void Lookahead::close() {
  std::unique_lock lock(mutex_);
  open_ = false;
  rest_.wait(lock, [&] { return !working_; });
}

void Lookahead::ring() {
  const std::lock_guard lock(mutex_);
  rung_ = true;
  if (open_) wake_.notify_one();
}

void Lookahead::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || (open_ && rung_); });
    if (stopping_) return;
    rung_ = false;
    working_ = true;
    lock.unlock();
    work_();
    lock.lock();
    working_ = false;
    rest_.notify_one();
  }
}

}  // namespace strobe::schedule
