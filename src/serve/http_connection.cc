#include "serve/http_connection.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/error.hpp>
#include <string>
#include <utility>

#include "base/log.h"

namespace strobe::serve {
namespace {

namespace http = boost::beast::http;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

constexpr size_t kReadBytes = 16 << 10;
constexpr size_t kPipelinedBytesMax = 64 << 10;  // of requests sent ahead of the answer to the current one
constexpr size_t kSlowestBodyBytesPerSecond = 16 << 10;

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

Connection::Connection(HttpShared& server, tcp::socket socket)
    : server_(server), socket_(std::move(socket)), wake_(server.io) {
  server_.connections.insert(this);
  server_.count(server_.open, 1);
}

Connection::~Connection() {
  leave_reply();
  server_.connections.erase(this);
  server_.count(server_.open, -1);
}

asio::awaitable<void> Connection::run() {
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  while (!closing_ && !server_.draining) {
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
      keep_alive = parser.keep_alive() && !server_.draining;
      http_1_1 = parser.get().version() >= 11;
      request = make_request(parser.release());
    }
    auto reply = std::make_shared<Reply>(std::move(*request), keep_alive, http_1_1,
                                         server_.options.stream_backlog_bytes_max, server_.hooks);
    co_await answer(reply);
    if (reply->gone()) break;
    if (!reply->keep_alive()) {
      co_await linger();
      break;
    }
  }
  socket_.close(ignored);
}

void Connection::check_deadline(Clock::time_point now) {
  if (now < deadline_) return;
  deadline_ = Clock::time_point::max();
  timed_out_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

void Connection::close(bool at_once) {
  if (!at_once && reply_) return;  // keep_alive is decided when the head is made; a stop now ends idle ones only
  closing_ = true;
  error_code ignored;
  socket_.cancel(ignored);
  if (reply_) reply_->set_gone();
}

void Connection::buffered(size_t bytes) {
  server_.buffered_bytes += bytes - buffered_bytes_;
  buffered_bytes_ = bytes;
}

asio::awaitable<bool> Connection::fill() {
  if (closing_) co_return false;
  const auto [failed, bytes] = co_await socket_.async_read_some(buffer_.prepare(kReadBytes), kAwait);
  if (failed || closing_) co_return false;
  buffer_.commit(bytes);
  co_return true;
}

asio::awaitable<bool> Connection::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    if (closing_) co_return false;
    expect_within(server_.options.write_timeout);
    const auto [failed, count] = co_await socket_.async_write_some(asio::buffer(bytes), kAwait);
    if (failed) co_return false;
    bytes.remove_prefix(count);
  }
  expect_nothing();
  co_return true;
}

bool Connection::parse_some(Parser& parser, error_code& problem) {
  if (buffer_.size() == 0) return false;
  const size_t used = parser.put(buffer_.data(), problem);
  buffer_.consume(used);
  if (problem != http::error::need_more) return true;
  problem = {};
  return false;
}

void Connection::leave_reply() {
  if (!reply_) return;
  reply_->set_gone();  // nothing happens when the answer is complete
  reply_->wake = [] {};
  reply_.reset();
  server_.count(server_.busy, -1);
}

ApiError Connection::read_failure(std::string_view part) const {
  if (timed_out_) return {.status = 408, .message = fmt::format("the {} did not arrive in time", part)};
  return {.status = 0};
}

asio::awaitable<std::optional<ApiError>> Connection::read_head(Parser& parser) {
  expect_within(server_.options.idle_timeout);
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
  expect_within(server_.options.header_timeout);
  error_code problem;
  while (!parser.is_header_done()) {
    if (!parse_some(parser, problem)) {
      if (!co_await fill()) co_return read_failure("head of the request");
    }
    if (problem) co_return parse_refusal(problem, server_.options);
  }
  co_return std::nullopt;
}

std::optional<ApiError> Connection::check_head(const Parser& parser) const {
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

asio::awaitable<std::optional<ApiError>> Connection::read_body(Parser& parser) {
  const Clock::time_point start = Clock::now();
  error_code problem;
  parser.eager(true);
  while (!parser.is_done()) {
    if (!parse_some(parser, problem)) {
      if (buffer_.size() >= kPipelinedBytesMax) co_return ApiError{.message = "a chunk head of the body is too long"};
      deadline_ =
          start + server_.options.body_timeout + std::chrono::seconds(buffered_bytes_ / kSlowestBodyBytesPerSecond);
      if (!co_await fill()) co_return read_failure("body of the request");
    }
    if (problem) co_return parse_refusal(problem, server_.options);
    buffered(parser.get().body().size());
    if (server_.buffered_bytes > server_.options.buffered_bytes_max) {
      co_return ApiError{.status = 503, .message = "too many request bodies at once; try again"};
    }
  }
  co_return std::nullopt;
}

asio::awaitable<std::optional<ApiError>> Connection::read_request(Parser& parser) {
  timed_out_ = false;
  parser.header_limit(static_cast<uint32_t>(server_.options.header_bytes_max));
  parser.body_limit(server_.options.body_bytes_max);
  if (auto refusal = co_await read_head(parser)) co_return refusal;
  if (auto refusal = check_head(parser)) co_return refusal;
  if (parser.is_done()) co_return std::nullopt;
  if (parser.get().find(http::field::expect) != parser.get().end() && buffer_.size() == 0) {
    if (!co_await write_all("HTTP/1.1 100 Continue\r\n\r\n")) co_return ApiError{.status = 0};
  }
  co_return co_await read_body(parser);
}

asio::awaitable<void> Connection::answer(const std::shared_ptr<Reply>& reply) {
  reply->wake = [this] {
    wake_.cancel();
    error_code ignored;
    if (reply_->gone()) socket_.cancel(ignored);
  };
  reply_ = reply;
  server_.count(server_.busy, 1);
  expect_nothing();
  const bool is_short = server_.hooks.is_short && server_.hooks.is_short(reply->request);
  asio::post(is_short ? server_.short_handlers : server_.handlers, [&server = server_, reply] {
    auto exchange = std::make_shared<LoopExchange>(server.loop, reply);
    if (reply->abandoned) return;
    try {
      server.handler(exchange);
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
asio::awaitable<void> Connection::pump(Reply& reply) {
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
void Connection::read_ahead() {
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

asio::awaitable<void> Connection::stop_reading_ahead() {
  stop_reading_.emit(asio::cancellation_type::total);
  while (reading_ahead_) {
    wake_.expires_at(Clock::time_point::max());
    co_await wake_.async_wait(kAwait);
  }
}

asio::awaitable<void> Connection::refuse(const ApiError& error) {
  Reply reply({}, false, true, 0, server_.hooks);
  reply.wake = [] {};
  reply.send(to_response(error));
  const std::string bytes = reply.take();
  if (co_await write_all(bytes)) co_await linger();
}

// Closes our side, then reads what the client still sends for a moment: closing with unread bytes would reset the
// connection and could take the answer away from the client.
asio::awaitable<void> Connection::linger() {
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  expect_within(kLinger);
  do {
    buffer_.clear();
  } while (co_await fill());
}

}  // namespace strobe::serve
