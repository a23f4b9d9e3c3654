#include "serve/http_loop.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <utility>

namespace strobe::serve {

namespace asio = boost::asio;

void Loop::run(std::function<void()> task) {
  if (std::this_thread::get_id() == thread_) return task();
  const std::lock_guard lock(mutex_);
  if (io_ != nullptr) asio::post(*io_, std::move(task));
}

void Loop::run_later(std::chrono::milliseconds delay, std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (io_ == nullptr) return;
  auto timer = std::make_shared<asio::steady_timer>(*io_, delay);
  timer->async_wait([timer, task = std::move(task)](boost::system::error_code failed) {
    if (!failed) task();
  });
}

void Loop::shut() {
  const std::lock_guard lock(mutex_);
  io_ = nullptr;
  thread_ = std::thread::id();  // another thread may get the number
}

}  // namespace strobe::serve
