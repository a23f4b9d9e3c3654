#include "serve/http_server.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <thread>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "serve/http_connection.h"

namespace strobe::serve {
namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

// Binds; with `listens` listens, too.
void take_address(tcp::acceptor& acceptor, const std::string& host, uint16_t port, bool listens) {
  try {
    tcp::resolver resolver(acceptor.get_executor());
    const tcp::endpoint address = *resolver.resolve(host, std::to_string(port)).begin();
    acceptor.open(address.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(address);
    if (listens) acceptor.listen();
  } catch (const boost::system::system_error& problem) {
    fail("cannot listen on {} port {}: {}", host, port, problem.code().message());
  }
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpOptions options, HttpHooks hooks, Handler handler)
      : shared_(std::move(options), std::move(hooks), std::move(handler)),
        acceptor_(shared_.io),
        sweep_timer_(shared_.io) {}
  ~Impl() { stop(std::chrono::milliseconds(0)); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  uint16_t start();
  void stop(std::chrono::milliseconds drain);
  [[nodiscard]] int busy() const { return shared_.busy; }
  [[nodiscard]] int open() const { return shared_.open; }

 private:
  asio::awaitable<void> accept_loop();
  asio::awaitable<void> sweep_loop();
  void refuse_connection(tcp::socket& socket);

  HttpShared shared_;
  tcp::acceptor acceptor_;
  asio::steady_timer sweep_timer_;
  std::thread thread_;
  bool stopped_ = false;
};

uint16_t HttpServer::Impl::start() {
  take_address(acceptor_, shared_.options.host, shared_.options.port, true);
  asio::co_spawn(shared_.io, accept_loop(), asio::detached);
  asio::co_spawn(shared_.io, sweep_loop(), asio::detached);
  thread_ = std::thread([this] {
    shared_.loop->set_thread(std::this_thread::get_id());
    while (!shared_.io.stopped()) {
      try {
        shared_.io.run();
      } catch (const std::exception& problem) {
        log_error("a task of the HTTP loop failed: {}", problem.what());
      }
    }
  });
  return acceptor_.local_endpoint().port();
}

asio::awaitable<void> HttpServer::Impl::accept_loop() {
  asio::steady_timer pause(shared_.io);
  for (;;) {
    auto [failed, socket] = co_await acceptor_.async_accept(kAwait);
    if (!acceptor_.is_open()) co_return;
    if (failed) {  // mostly: no file descriptors left
      log_warning("accept: {}", failed.message());
      pause.expires_after(std::chrono::milliseconds(50));
      co_await pause.async_wait(kAwait);
      continue;
    }
    if (shared_.open >= shared_.options.connections_max) {
      refuse_connection(socket);
      continue;
    }
    auto connection = std::make_shared<Connection>(shared_, std::move(socket));
    asio::co_spawn(
        shared_.io,
        [](std::shared_ptr<Connection> owned) -> asio::awaitable<void> {
          try {
            co_await owned->run();
          } catch (const std::exception& problem) {
            log_warning("connection: {}", problem.what());
          }
        }(std::move(connection)),
        asio::detached);
  }
}

// A few bytes into an empty socket buffer: this does not block.
void HttpServer::Impl::refuse_connection(tcp::socket& socket) {
  Reply reply({}, false, true, 0, shared_.hooks);
  reply.wake = [] {};
  reply.send(to_response({.status = 503, .message = "too many connections; try again"}));
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(reply.take()), ignored);
}

// Looks at all deadlines from time to time: cheaper than one timer for each connection.
asio::awaitable<void> HttpServer::Impl::sweep_loop() {
  using std::chrono::milliseconds;
  const milliseconds shortest = std::min({shared_.options.header_timeout, shared_.options.body_timeout,
                                          shared_.options.idle_timeout, shared_.options.write_timeout, kLinger});
  const milliseconds period = std::clamp(shortest / 4, milliseconds(5), milliseconds(250));
  for (;;) {
    sweep_timer_.expires_after(period);
    const auto [failed] = co_await sweep_timer_.async_wait(kAwait);
    if (failed) co_return;
    const Clock::time_point now = Clock::now();
    for (Connection* connection : shared_.connections) connection->check_deadline(now);
  }
}

void HttpServer::Impl::stop(std::chrono::milliseconds drain) {
  if (stopped_ || !thread_.joinable()) return;
  stopped_ = true;
  const auto close_all = [this](bool at_once) {
    shared_.loop->run([this, at_once] {
      error_code ignored;
      acceptor_.close(ignored);
      shared_.draining = true;
      for (Connection* connection : std::set<Connection*>(shared_.connections)) connection->close(at_once);
    });
  };
  close_all(false);
  {
    std::unique_lock lock(shared_.mutex);
    shared_.changed.wait_for(lock, drain, [this] { return shared_.busy == 0; });
  }
  close_all(true);
  {
    std::unique_lock lock(shared_.mutex);
    shared_.changed.wait(lock, [this] { return shared_.open == 0; });
  }
  shared_.handlers.join();
  shared_.short_handlers.join();
  shared_.io.stop();
  thread_.join();
  error_code ignored;
  acceptor_.close(ignored);  // where the loop ended before it came to that
  shared_.loop->shut();
}

void check_address(const std::string& host, uint16_t port) {
  asio::io_context io;
  tcp::acceptor acceptor(io);
  take_address(acceptor, host, port, false);
}

HttpServer::HttpServer(HttpOptions options, HttpHooks hooks, Handler handler)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(hooks), std::move(handler))) {}
HttpServer::~HttpServer() = default;
uint16_t HttpServer::start() {
  return impl_->start();
}
void HttpServer::stop(std::chrono::milliseconds drain) {
  impl_->stop(drain);
}
int HttpServer::busy_connections() const {
  return impl_->busy();
}
int HttpServer::open_connections() const {
  return impl_->open();
}

}  // namespace strobe::serve
