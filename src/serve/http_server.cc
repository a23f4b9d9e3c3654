#include "serve/http_server.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "serve/api_error.h"

namespace strobe::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Parser = http::request_parser<http::string_body>;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

constexpr size_t kReadBytes = 16 << 10;
constexpr size_t kPipelinedBytesMax = 64 << 10;  // of requests sent ahead of the answer to the current one
constexpr size_t kSlowestBodyBytesPerSecond = 16 << 10;
constexpr auto kLinger = std::chrono::milliseconds(1000);  // for a refused client to read why

// The door to the loop. Holders outlive the server: a generator may call a sink after the server has gone.
class Loop {
 public:
  explicit Loop(asio::io_context& io) : io_(&io) {}

  // At once when called on the loop, else in the order of the calls.
  void run(std::function<void()> task) {
    if (std::this_thread::get_id() == thread_) return task();
    const std::lock_guard lock(mutex_);
    if (io_ != nullptr) asio::post(*io_, std::move(task));
  }
  void run_later(std::chrono::milliseconds delay, std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    if (io_ == nullptr) return;
    auto timer = std::make_shared<asio::steady_timer>(*io_, delay);
    timer->async_wait([timer, task = std::move(task)](error_code failed) {
      if (!failed) task();
    });
  }
  // From now on every task is dropped.
  void shut() {
    const std::lock_guard lock(mutex_);
    io_ = nullptr;
    thread_ = std::thread::id();  // another thread may get the number
  }
  void set_thread(std::thread::id thread) { thread_ = thread; }

 private:
  std::mutex mutex_;
  asio::io_context* io_;
  std::atomic<std::thread::id> thread_;
};

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  return fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(now));
}

// One request and the bytes of its answer. On the loop only, but for `request` (constant) and `abandoned`.
class Reply {
 public:
  Reply(Request made, bool keep_alive, bool http_1_1, size_t backlog_max, const HttpHooks& hooks)
      : request(std::move(made)),
        keep_alive_(keep_alive),
        chunked_(http_1_1),
        backlog_max_(backlog_max),
        hooks_(hooks) {}

  const Request request;
  std::atomic<bool> abandoned = false;  // the client is known to be gone: a queued handler need not start
  size_t in_flight = 0;                 // bytes of taken pieces that the network has not yet accepted
  std::function<void()> wake;           // tells the connection that there is news

  [[nodiscard]] bool done() const { return state_ == State::kDone; }
  [[nodiscard]] bool gone() const { return gone_; }
  [[nodiscard]] bool keep_alive() const { return keep_alive_; }
  [[nodiscard]] size_t backlog() const { return out_.size() + in_flight; }
  [[nodiscard]] std::string take() { return std::exchange(out_, {}); }

  void send(Response response) {
    if (gone_ || state_ != State::kFresh) return;
    state_ = State::kDone;
    begin_head(response);
    const bool has_content = response.status != 204 && response.status != 304;
    if (has_content) {
      out_ += fmt::format("Content-Type: {}\r\nContent-Length: {}\r\n", response.content_type, response.body.size());
    }
    end_head();
    if (request.method != "HEAD" && has_content) out_ += response.body;
    wake();
  }
  void begin_stream(const Response& head) {
    if (gone_ || state_ != State::kFresh) return;
    state_ = State::kStreaming;
    if (!chunked_) keep_alive_ = false;  // HTTP/1.0: the end of the connection is the end of the body
    begin_head(head);
    out_ += fmt::format("Content-Type: {}\r\n", head.content_type);
    if (chunked_) out_ += "Transfer-Encoding: chunked\r\n";
    end_head();
    wake();
  }
  void write(std::string_view piece) {
    if (gone_ || state_ != State::kStreaming || piece.empty()) return;
    if (backlog() + piece.size() > backlog_max_) {
      log_debug("{} {}: the client lags {} bytes behind and is cut off", request.method, request.path, backlog());
      return set_gone();
    }
    if (chunked_) out_ += fmt::format("{:x}\r\n", piece.size());
    out_ += piece;
    if (chunked_) out_ += "\r\n";
    wake();
  }
  void end() {
    if (gone_ || state_ != State::kStreaming) return;
    state_ = State::kDone;
    if (chunked_) out_ += "0\r\n\r\n";
    wake();
  }
  // Nobody is left who could answer.
  void abandon() {
    if (state_ == State::kStreaming) set_gone();
    send(to_response({.status = 500, .message = "the request ended without an answer"}));
  }
  void on_gone(std::function<void()> callback) {
    if (gone_) return callback();
    if (!done()) gone_callback_ = std::move(callback);
  }
  void set_gone() {
    if (gone_ || finished_) return;
    gone_ = true;
    abandoned = true;
    wake();
    if (const auto callback = std::exchange(gone_callback_, nullptr)) callback();
  }
  // The last byte is out: what the client does from now on is no concern of this request.
  void set_finished() {
    finished_ = true;
    gone_callback_ = nullptr;
  }

 private:
  enum class State { kFresh, kStreaming, kDone };

  void begin_head(const Response& response) {
    if (hooks_.on_answer) hooks_.on_answer(request, response.status);
    out_ += fmt::format("HTTP/1.1 {} {}\r\nServer: strobe\r\nDate: {}\r\n", response.status,
                        status_text(response.status), http_date());
    for (const Header& header : response.headers) out_ += fmt::format("{}: {}\r\n", header.name, header.value);
    if (!hooks_.extra_headers) return;
    for (const Header& header : hooks_.extra_headers(request)) {
      out_ += fmt::format("{}: {}\r\n", header.name, header.value);
    }
  }
  void end_head() { out_ += keep_alive_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n"; }

  bool keep_alive_;
  const bool chunked_;
  const size_t backlog_max_;
  const HttpHooks& hooks_;
  State state_ = State::kFresh;
  std::string out_;
  bool gone_ = false;
  bool finished_ = false;
  std::function<void()> gone_callback_;
};

class LoopExchange final : public Exchange {
 public:
  LoopExchange(std::shared_ptr<Loop> loop, std::shared_ptr<Reply> reply)
      : loop_(std::move(loop)), reply_(std::move(reply)) {}
  ~LoopExchange() override {
    loop_->run([reply = reply_] { reply->abandon(); });
  }
  LoopExchange(const LoopExchange&) = delete;
  LoopExchange& operator=(const LoopExchange&) = delete;

  [[nodiscard]] const Request& request() const override { return reply_->request; }
  void run(std::function<void()> task) override { loop_->run(std::move(task)); }
  void run_later(std::chrono::milliseconds delay, std::function<void()> task) override {
    loop_->run_later(delay, std::move(task));
  }
  void on_gone(std::function<void()> callback) override {
    loop_->run([reply = reply_, callback = std::move(callback)]() mutable { reply->on_gone(std::move(callback)); });
  }
  void send(Response response) override {
    loop_->run([reply = reply_, response = std::move(response)]() mutable { reply->send(std::move(response)); });
  }
  void begin_stream(Response head) override {
    loop_->run([reply = reply_, head = std::move(head)] { reply->begin_stream(head); });
  }
  void write(std::string piece) override {
    loop_->run([reply = reply_, piece = std::move(piece)] { reply->write(piece); });
  }
  void end() override {
    loop_->run([reply = reply_] { reply->end(); });
  }
  [[nodiscard]] size_t backlog_bytes() const override { return reply_->backlog(); }

 private:
  std::shared_ptr<Loop> loop_;
  std::shared_ptr<Reply> reply_;
};

ApiError parse_refusal(const error_code& problem, const HttpOptions& options) {
  if (problem == http::error::header_limit) {
    return {.status = 431, .message = fmt::format("the headers are longer than {} bytes", options.header_bytes_max)};
  }
  if (problem == http::error::body_limit) {
    return {.status = 413, .message = fmt::format("the body is longer than {} bytes", options.body_bytes_max)};
  }
  if (problem == http::error::bad_version) return {.status = 505, .message = "only HTTP/1.0 and HTTP/1.1 are spoken"};
  return {.message = fmt::format("not a valid HTTP request: {}", problem.message())};
}

Request make_request(http::request<http::string_body>&& message) {
  Request request;
  request.method = std::string(message.method_string());
  const std::string_view target = message.target();
  const size_t mark = target.find('?');
  request.path = std::string(target.substr(0, mark));
  if (mark != std::string_view::npos) request.query = std::string(target.substr(mark + 1));
  for (const auto& field : message) {
    request.headers.push_back({std::string(field.name_string()), std::string(field.value())});
  }
  request.body = std::move(message.body());
  return request;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpOptions options, HttpHooks hooks, Handler handler)
      : options_(std::move(options)),
        hooks_(std::move(hooks)),
        handler_(std::move(handler)),
        acceptor_(io_),
        sweep_timer_(io_),
        handlers_(static_cast<size_t>(options_.handler_threads)) {}
  ~Impl() { stop(std::chrono::milliseconds(0)); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  uint16_t start();
  void stop(std::chrono::milliseconds drain);
  [[nodiscard]] int busy() const { return busy_; }
  [[nodiscard]] int open() const { return open_; }

 private:
  class Connection;

  asio::awaitable<void> accept_loop();
  asio::awaitable<void> sweep_loop();
  void refuse_connection(tcp::socket& socket);
  // Changes a count that stop() waits for.
  void count(std::atomic<int>& counter, int change) {
    {
      const std::lock_guard lock(mutex_);
      counter += change;
    }
    changed_.notify_all();
  }

  const HttpOptions options_;
  const HttpHooks hooks_;
  const Handler handler_;
  asio::io_context io_{1};
  std::shared_ptr<Loop> loop_ = std::make_shared<Loop>(io_);
  tcp::acceptor acceptor_;
  asio::steady_timer sweep_timer_;
  asio::thread_pool handlers_;
  std::thread thread_;
  bool stopped_ = false;

  // On the loop only.
  std::set<Connection*> connections_;
  bool draining_ = false;
  size_t buffered_bytes_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> busy_ = 0;
  std::atomic<int> open_ = 0;
};

// One client, on the loop. Lives as long as its coroutine and its read ahead.
class HttpServer::Impl::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Impl& server, tcp::socket socket) : server_(server), socket_(std::move(socket)), wake_(server.io_) {
    server_.connections_.insert(this);
    server_.count(server_.open_, 1);
  }
  ~Connection() {
    leave_reply();
    server_.connections_.erase(this);
    server_.count(server_.open_, -1);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  asio::awaitable<void> run() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    while (!closing_ && !server_.draining_) {
      std::optional<Request> request;
      bool keep_alive = false;
      bool http_1_1 = true;
      {
        Parser parser;
        const std::optional<ApiError> refusal = co_await read_request(parser);
        buffered(0);
        if (refusal) {
          if (refusal->status != 0) co_await refuse(*refusal);
          break;
        }
        keep_alive = parser.keep_alive() && !server_.draining_;
        http_1_1 = parser.get().version() >= 11;
        request = make_request(parser.release());
      }
      auto reply = std::make_shared<Reply>(std::move(*request), keep_alive, http_1_1,
                                           server_.options_.stream_backlog_bytes_max, server_.hooks_);
      co_await answer(reply);
      if (reply->gone()) break;
      if (!reply->keep_alive()) {
        co_await linger();
        break;
      }
    }
    socket_.close(ignored);
  }

  // Called by the sweep.
  void check_deadline(Clock::time_point now) {
    if (now < deadline_) return;
    deadline_ = Clock::time_point::max();
    timed_out_ = true;
    error_code ignored;
    socket_.cancel(ignored);
  }
  // The server stops: at once, or after the current answer.
  void close(bool at_once) {
    if (!at_once && reply_) return;  // keep_alive is decided when the head is made; a stop now ends idle ones only
    closing_ = true;
    error_code ignored;
    socket_.cancel(ignored);
    if (reply_) reply_->set_gone();
  }

 private:
  void expect_within(std::chrono::milliseconds limit) { deadline_ = Clock::now() + limit; }
  void expect_nothing() { deadline_ = Clock::time_point::max(); }

  // Sets how many body bytes this connection holds.
  void buffered(size_t bytes) {
    server_.buffered_bytes_ += bytes - buffered_bytes_;
    buffered_bytes_ = bytes;
  }

  // False: the client closed, the time is up, or the server stops.
  asio::awaitable<bool> fill() {
    if (closing_) co_return false;
    const auto [failed, bytes] = co_await socket_.async_read_some(buffer_.prepare(kReadBytes), kAwait);
    if (failed || closing_) co_return false;
    buffer_.commit(bytes);
    co_return true;
  }

  asio::awaitable<bool> write_all(std::string_view bytes) {
    while (!bytes.empty()) {
      if (closing_) co_return false;
      expect_within(server_.options_.write_timeout);
      const auto [failed, count] = co_await socket_.async_write_some(asio::buffer(bytes), kAwait);
      if (failed) co_return false;
      bytes.remove_prefix(count);
    }
    expect_nothing();
    co_return true;
  }

  // Feeds the parser what is buffered; false when it needs more.
  bool parse_some(Parser& parser, error_code& problem) {
    if (buffer_.size() == 0) return false;
    const size_t used = parser.put(buffer_.data(), problem);
    buffer_.consume(used);
    if (problem != http::error::need_more) return true;
    problem = {};
    return false;
  }

  void leave_reply() {
    if (!reply_) return;
    reply_->set_gone();  // nothing happens when the answer is complete
    reply_->wake = [] {};
    reply_.reset();
    server_.count(server_.busy_, -1);
  }

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

  Impl& server_;
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

ApiError HttpServer::Impl::Connection::read_failure(std::string_view part) const {
  if (timed_out_) return {.status = 408, .message = fmt::format("the {} did not arrive in time", part)};
  return {.status = 0};
}

asio::awaitable<std::optional<ApiError>> HttpServer::Impl::Connection::read_head(Parser& parser) {
  expect_within(server_.options_.idle_timeout);
  // Line ends between requests are skipped (RFC 9112 2.2).
  for (;;) {
    const auto* bytes = static_cast<const char*>(buffer_.data().data());
    if (buffer_.size() == 0) {
      if (!co_await fill()) co_return ApiError{.status = 0};
    } else if (*bytes == '\r' || *bytes == '\n') {
      buffer_.consume(1);
    } else {
      break;
    }
  }
  expect_within(server_.options_.header_timeout);
  error_code problem;
  while (!parser.is_header_done()) {
    if (!parse_some(parser, problem)) {
      if (!co_await fill()) co_return read_failure("head of the request");
    }
    if (problem) co_return parse_refusal(problem, server_.options_);
  }
  co_return std::nullopt;
}

std::optional<ApiError> HttpServer::Impl::Connection::check_head(const Parser& parser) const {
  const auto& message = parser.get();
  const auto coding = message.find(http::field::transfer_encoding);
  if (coding != message.end() && !equal_ignoring_case(coding->value(), "chunked")) {
    return ApiError{.status = 501, .message = "the header Transfer-Encoding may only be 'chunked'"};
  }
  const auto expect = message.find(http::field::expect);
  if (expect != message.end() && !equal_ignoring_case(expect->value(), "100-continue")) {
    return ApiError{.status = 417, .message = "the header Expect may only be '100-continue'"};
  }
  if (message.version() >= 11 && message.find(http::field::host) == message.end()) {
    return ApiError{.message = "the header Host is missing"};
  }
  return std::nullopt;
}

asio::awaitable<std::optional<ApiError>> HttpServer::Impl::Connection::read_body(Parser& parser) {
  const Clock::time_point start = Clock::now();
  error_code problem;
  parser.eager(true);
  while (!parser.is_done()) {
    if (!parse_some(parser, problem)) {
      if (buffer_.size() >= kPipelinedBytesMax) co_return ApiError{.message = "a chunk head of the body is too long"};
      deadline_ =
          start + server_.options_.body_timeout + std::chrono::seconds(buffered_bytes_ / kSlowestBodyBytesPerSecond);
      if (!co_await fill()) co_return read_failure("body of the request");
    }
    if (problem) co_return parse_refusal(problem, server_.options_);
    buffered(parser.get().body().size());
    if (server_.buffered_bytes_ > server_.options_.buffered_bytes_max) {
      co_return ApiError{.status = 503, .message = "too many request bodies at once; try again"};
    }
  }
  co_return std::nullopt;
}

asio::awaitable<std::optional<ApiError>> HttpServer::Impl::Connection::read_request(Parser& parser) {
  timed_out_ = false;
  parser.header_limit(static_cast<uint32_t>(server_.options_.header_bytes_max));
  parser.body_limit(server_.options_.body_bytes_max);
  if (auto refusal = co_await read_head(parser)) co_return refusal;
  if (auto refusal = check_head(parser)) co_return refusal;
  if (parser.is_done()) co_return std::nullopt;
  if (parser.get().find(http::field::expect) != parser.get().end() && buffer_.size() == 0) {
    if (!co_await write_all("HTTP/1.1 100 Continue\r\n\r\n")) co_return ApiError{.status = 0};
  }
  co_return co_await read_body(parser);
}

asio::awaitable<void> HttpServer::Impl::Connection::answer(const std::shared_ptr<Reply>& reply) {
  reply->wake = [this] {
    wake_.cancel();
    error_code ignored;
    if (reply_->gone()) socket_.cancel(ignored);
  };
  reply_ = reply;
  server_.count(server_.busy_, 1);
  expect_nothing();
  asio::post(server_.handlers_, [&server = server_, reply] {
    auto exchange = std::make_shared<LoopExchange>(server.loop_, reply);
    if (reply->abandoned) return;
    try {
      server.handler_(exchange);
    } catch (const std::exception& problem) {
      log_error("{} {}: {}", reply->request.method, reply->request.path, problem.what());
      exchange->send(to_response({.status = 500, .message = "internal error"}));
    }
  });
  read_ahead();
  co_await pump(*reply);
  leave_reply();
  co_await stop_reading_ahead();
}

// Carries the answer to the network until it is complete or the client is gone.
asio::awaitable<void> HttpServer::Impl::Connection::pump(Reply& reply) {
  while (!reply.gone()) {
    const std::string bytes = reply.take();
    if (!bytes.empty()) {
      reply.in_flight = bytes.size();
      const bool sent = co_await write_all(bytes);
      reply.in_flight = 0;
      if (!sent) reply.set_gone();
    } else if (reply.done()) {
      reply.set_finished();
      co_return;
    } else {
      wake_.expires_at(Clock::time_point::max());
      co_await wake_.async_wait(kAwait);
    }
  }
}

// Reads while a request is being answered, only to learn when the client goes. A request sent ahead stays in the buffer
// for its turn.
void HttpServer::Impl::Connection::read_ahead() {
  reading_ahead_ = true;
  socket_.async_read_some(
      buffer_.prepare(kReadBytes),
      asio::bind_cancellation_slot(stop_reading_.slot(), [self = shared_from_this()](error_code failed, size_t bytes) {
        self->reading_ahead_ = false;
        if (!failed) self->buffer_.commit(bytes);
        if (self->reply_ == nullptr) {
          self->wake_.cancel();
        } else if (failed || self->buffer_.size() >= kPipelinedBytesMax) {
          self->reply_->set_gone();
        } else {
          self->read_ahead();
        }
      }));
}

asio::awaitable<void> HttpServer::Impl::Connection::stop_reading_ahead() {
  stop_reading_.emit(asio::cancellation_type::total);
  while (reading_ahead_) {
    wake_.expires_at(Clock::time_point::max());
    co_await wake_.async_wait(kAwait);
  }
}

asio::awaitable<void> HttpServer::Impl::Connection::refuse(const ApiError& error) {
  Reply reply({}, false, true, 0, server_.hooks_);
  reply.wake = [] {};
  reply.send(to_response(error));
  const std::string bytes = reply.take();
  if (co_await write_all(bytes)) co_await linger();
}

// Closes our side, then reads what the client still sends for a moment: closing with unread bytes would reset the
// connection and could take the answer away from the client.
asio::awaitable<void> HttpServer::Impl::Connection::linger() {
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  expect_within(kLinger);
  do {
    buffer_.clear();
  } while (co_await fill());
}

uint16_t HttpServer::Impl::start() {
  try {
    tcp::resolver resolver(io_);
    const tcp::endpoint address = *resolver.resolve(options_.host, std::to_string(options_.port)).begin();
    acceptor_.open(address.protocol());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.bind(address);
    acceptor_.listen();
  } catch (const boost::system::system_error& problem) {
    fail("cannot listen on {} port {}: {}", options_.host, options_.port, problem.code().message());
  }
  asio::co_spawn(io_, accept_loop(), asio::detached);
  asio::co_spawn(io_, sweep_loop(), asio::detached);
  thread_ = std::thread([this] {
    loop_->set_thread(std::this_thread::get_id());
    while (!io_.stopped()) {
      try {
        io_.run();
      } catch (const std::exception& problem) {
        log_error("a task of the HTTP loop failed: {}", problem.what());
      }
    }
  });
  return acceptor_.local_endpoint().port();
}

asio::awaitable<void> HttpServer::Impl::accept_loop() {
  asio::steady_timer pause(io_);
  for (;;) {
    auto [failed, socket] = co_await acceptor_.async_accept(kAwait);
    if (!acceptor_.is_open()) co_return;
    if (failed) {  // mostly: no file descriptors left
      log_warning("accept: {}", failed.message());
      pause.expires_after(std::chrono::milliseconds(50));
      co_await pause.async_wait(kAwait);
      continue;
    }
    if (open_ >= options_.connections_max) {
      refuse_connection(socket);
      continue;
    }
    auto connection = std::make_shared<Connection>(*this, std::move(socket));
    asio::co_spawn(
        io_,
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
  Reply reply({}, false, true, 0, hooks_);
  reply.wake = [] {};
  reply.send(to_response({.status = 503, .message = "too many connections; try again"}));
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(reply.take()), ignored);
}

// Looks at all deadlines from time to time: cheaper than one timer for each connection.
asio::awaitable<void> HttpServer::Impl::sweep_loop() {
  using std::chrono::milliseconds;
  const milliseconds shortest = std::min(
      {options_.header_timeout, options_.body_timeout, options_.idle_timeout, options_.write_timeout, kLinger});
  const milliseconds period = std::clamp(shortest / 4, milliseconds(5), milliseconds(250));
  for (;;) {
    sweep_timer_.expires_after(period);
    const auto [failed] = co_await sweep_timer_.async_wait(kAwait);
    if (failed) co_return;
    const Clock::time_point now = Clock::now();
    for (Connection* connection : connections_) connection->check_deadline(now);
  }
}

void HttpServer::Impl::stop(std::chrono::milliseconds drain) {
  if (stopped_ || !thread_.joinable()) return;
  stopped_ = true;
  const auto close_all = [this](bool at_once) {
    loop_->run([this, at_once] {
      error_code ignored;
      acceptor_.close(ignored);
      draining_ = true;
      for (Connection* connection : std::set<Connection*>(connections_)) connection->close(at_once);
    });
  };
  close_all(false);
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, drain, [this] { return busy_ == 0; });
  }
  close_all(true);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_ == 0; });
  }
  handlers_.join();
  io_.stop();
  thread_.join();
  loop_->shut();
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
