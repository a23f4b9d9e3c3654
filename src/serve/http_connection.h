// Connection: one client of the HTTP server, from its first byte to its last. With http_server.cc and http_loop.cc the
// only place that knows Boost.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "serve/api_error.h"
#include "serve/http_loop.h"
#include "serve/http_reply.h"
#include "serve/http_server.h"

namespace strobe::serve {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

constexpr auto kLinger = std::chrono::milliseconds(1000);  // for a refused client to read why

class Connection;

// What the connections of a server share.
struct HttpShared {
  HttpShared(HttpOptions its_options, HttpHooks its_hooks, Handler its_handler)
      : options(std::move(its_options)),
        hooks(std::move(its_hooks)),
        handler(std::move(its_handler)),
        handlers(static_cast<size_t>(options.handler_threads)) {}

  const HttpOptions options;
  const HttpHooks hooks;
  const Handler handler;
  asio::io_context io{1};
  std::shared_ptr<Loop> loop = std::make_shared<Loop>(io);
  asio::thread_pool handlers;
  asio::thread_pool short_handlers{1};

  // On the loop only.
  std::set<Connection*> connections;
  bool draining = false;
  size_t buffered_bytes = 0;

  // Changes a count that stop() waits for.
  void count(std::atomic<int>& counter, int change) {
    {
      const std::lock_guard lock(mutex);
      counter += change;
    }
    changed.notify_all();
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<int> busy = 0;
  std::atomic<int> open = 0;
};

// One client, on the loop. Lives as long as its coroutine and its read ahead.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(HttpShared& server, tcp::socket socket);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  asio::awaitable<void> run();

  // Called by the sweep.
  void check_deadline(Clock::time_point now);
  // The server stops: at once, or after the current answer.
  void close(bool at_once);

 private:
  void expect_within(std::chrono::milliseconds limit) { deadline_ = Clock::now() + limit; }
  void expect_nothing() { deadline_ = Clock::time_point::max(); }

  // Sets how many body bytes this connection holds.
  void buffered(size_t bytes);

  // False: the client closed, the time is up, or the server stops.
  asio::awaitable<bool> fill();

  asio::awaitable<bool> write_all(std::string_view bytes);

  // Feeds the parser what is buffered; false when it needs more.
  bool parse_some(Parser& parser, error_code& problem);

  void leave_reply();

  // Status 0: close without a word.
  asio::awaitable<std::optional<ApiError>> read_request(Parser& parser);
  asio::awaitable<std::optional<ApiError>> read_head(Parser& parser);
  asio::awaitable<std::optional<ApiError>> read_body(Parser& parser);
  std::optional<ApiError> check_head(const Parser& parser) const;
  ApiError read_failure(std::string_view part) const;
  asio::awaitable<void> answer(const std::shared_ptr<Reply>& reply);
  asio::awaitable<void> pump(Reply& reply);
  void read_ahead();
  asio::awaitable<void> stop_reading_ahead();
  asio::awaitable<void> refuse(const ApiError& error);
  asio::awaitable<void> linger();

  HttpShared& server_;
  tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
  asio::steady_timer wake_;
  std::shared_ptr<Reply> reply_;  // while a request is being answered
  Clock::time_point deadline_ = Clock::time_point::max();
  bool timed_out_ = false;
  bool closing_ = false;
  bool reading_ahead_ = false;
  asio::cancellation_signal stop_reading_;
  size_t buffered_bytes_ = 0;
};

}  // namespace strobe::serve
