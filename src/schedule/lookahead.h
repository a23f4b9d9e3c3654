// Lookahead: a thread that works while a step runs, so that what a step need not wait for is done when it ends.
//
// Between open() and close() the work may run, any number of times, never twice at once; outside it never runs. So it
// may touch what belongs to the thread that opens and closes, which meanwhile only waits for the step.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace strobe::schedule {

class Lookahead {
 public:
  explicit Lookahead(std::function<void()> work);
  ~Lookahead();  // closed before
  Lookahead(const Lookahead&) = delete;
  Lookahead& operator=(const Lookahead&) = delete;

  // now: there is work already. Waking costs a system call, so this should be true only when there is.
  void open(bool now);
  // Waits for the work to end.
  void close();
  // There may be new work; any thread. Outside of open() and close() it is kept for the next open().
  void ring();

 private:
  void loop();

  const std::function<void()> work_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable rest_;
  bool open_ = false;
  bool rung_ = false;
  bool working_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace strobe::schedule
