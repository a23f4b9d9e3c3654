// Loop: the door to the one thread that does all reading and writing (http_server.h).
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

namespace boost::asio {
class io_context;
}

namespace strobe::serve {

// Holders may outlive the server: a generator may call a sink after the server has gone. Any thread.
class Loop {
 public:
  explicit Loop(boost::asio::io_context& io) : io_(&io) {}

  // At once when called on the loop, else in the order of the calls.
  void run(std::function<void()> task);
  void run_later(std::chrono::milliseconds delay, std::function<void()> task);
  // From now on every task is dropped.
  void shut();
  void set_thread(std::thread::id thread) { thread_ = thread; }

 private:
  std::mutex mutex_;
  boost::asio::io_context* io_;
  std::atomic<std::thread::id> thread_;
};

}  // namespace strobe::serve
