#include "measure/http_client.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <thread>
#include <utility>

#include "measure/sse_parser.h"

namespace strobe::measure {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr auto kSlice = std::chrono::milliseconds(50);  // how often a waiting request looks at `stop`
constexpr uint64_t kLargestBody = 1ULL << 30;
constexpr size_t kShownBytes = 600;

// One request: each step is started, then waited for until it is done, its time is over or the client is stopped.
class Call {
 public:
  Call(const Endpoint& endpoint, const HttpLimits& limits, const std::atomic<bool>* stop)
      : endpoint_(endpoint), limits_(limits), stop_(stop), socket_(io_) {}

  HttpReply run(http::verb method, std::string_view path, const std::string& body,
                const std::function<void(std::string_view)>* on_event) {
    HttpReply reply;
    if (connect(reply) && send(method, path, body, reply)) receive(on_event, reply);
    return reply;
  }

 private:
  enum class End { kDone, kTime, kStopped };

  // start(handler) begins an operation whose handler takes an error code first. False: `reply.problem` says why.
  template <class Start>
  bool step(std::string_view what, std::chrono::milliseconds limit, HttpReply& reply, const Start& start) {
    bool done = false;
    error_code error;
    start([&](const error_code& e, const auto&...) {
      done = true;
      error = e;
    });
    const auto deadline = Clock::now() + limit;
    End end = End::kDone;
    while (!done && end == End::kDone) {
      io_.restart();
      io_.run_one_for(kSlice);
      if (done) break;
      if (stop_ != nullptr && *stop_) end = End::kStopped;
      if (Clock::now() >= deadline) end = End::kTime;
    }
    if (!done) {  // the operation's handler must run before what it refers to is gone
      resolver_.cancel();
      error_code ignored;
      socket_.close(ignored);
      io_.restart();
      while (!done) io_.run_one();
    }
    last_end_ = end;
    if (end == End::kStopped) reply.problem = "stopped";
    if (end == End::kTime) reply.problem = fmt::format("{}: nothing came within {} ms", what, limit.count());
    if (end == End::kDone && error) reply.problem = fmt::format("{}: {}", what, error.message());
    return reply.problem.empty();
  }

  bool connect(HttpReply& reply) {
    const std::string what = fmt::format("connecting to {}", endpoint_.url());
    tcp::resolver::results_type addresses;
    if (!step(what, limits_.connect, reply, [&](auto handler) {
          resolver_.async_resolve(endpoint_.host, std::to_string(endpoint_.port),
                                  [&addresses, handler](const error_code& e, const auto& found) mutable {
                                    if (!e) addresses = found;
                                    handler(e);
                                  });
        })) {
      return false;
    }
    if (!step(what, limits_.connect, reply, [&](auto handler) { asio::async_connect(socket_, addresses, handler); })) {
      return false;
    }
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    return true;
  }

  bool send(http::verb method, std::string_view path, const std::string& body, HttpReply& reply) {
    http::request<http::string_body> request(method, endpoint_.prefix + std::string(path), 11);
    request.set(http::field::host, fmt::format("{}:{}", endpoint_.host, endpoint_.port));
    request.set(http::field::user_agent, "strobe");
    request.set(http::field::connection, "close");
    if (!endpoint_.api_key.empty()) request.set(http::field::authorization, "Bearer " + endpoint_.api_key);
    if (!body.empty()) request.set(http::field::content_type, "application/json");
    request.body() = body;
    if (method != http::verb::get) request.prepare_payload();
    const bool sent =
        step("sending", limits_.silence, reply, [&](auto handler) { http::async_write(socket_, request, handler); });
    // A server may refuse a request before it has read all of it: its answer counts.
    if (!sent && last_end_ == End::kDone) reply.problem.clear();
    return reply.problem.empty();
  }

  void receive(const std::function<void(std::string_view)>* on_event, HttpReply& reply) {
    http::response_parser<http::string_body> parser;
    parser.body_limit(kLargestBody);
    if (!step("waiting for an answer", limits_.silence, reply,
              [&](auto handler) { http::async_read_header(socket_, buffer_, parser, handler); })) {
      return;
    }
    reply.status = static_cast<int>(parser.get().result_int());
    const bool events = on_event != nullptr && reply.status == 200;
    SseParser sse;
    const auto take = [&] {
      if (!events) return;
      sse.feed(std::exchange(parser.get().body(), {}), *on_event);
    };
    take();
    while (!parser.is_done()) {
      const bool more = step("reading the answer", limits_.silence, reply,
                             [&](auto handler) { http::async_read_some(socket_, buffer_, parser, handler); });
      take();
      if (!more) return;
    }
    reply.body = std::move(parser.get().body());
    if (events && sse.inside_event()) reply.problem = "the stream ended inside an event";
  }

  const Endpoint& endpoint_;
  const HttpLimits& limits_;
  const std::atomic<bool>* stop_;
  asio::io_context io_;
  tcp::resolver resolver_{io_};
  tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
  End last_end_ = End::kDone;
};

}  // namespace

std::string Endpoint::url() const {
  return fmt::format("http://{}:{}{}", host, port, prefix);
}

Result<Endpoint> parse_base_url(std::string_view flag, std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  constexpr std::string_view kAccepted = "http://HOST[:PORT]";
  if (!url.starts_with(kScheme)) return error("{} '{}': accepted: {}", flag, url, kAccepted);
  std::string_view rest = url.substr(kScheme.size());
  const size_t slash = rest.find('/');
  Endpoint endpoint;
  if (slash != std::string_view::npos) endpoint.prefix = rest.substr(slash);
  while (endpoint.prefix.ends_with('/')) endpoint.prefix.pop_back();
  rest = rest.substr(0, slash);
  const size_t colon = rest.rfind(':');
  endpoint.host = rest.substr(0, colon);
  if (endpoint.host.empty() || endpoint.host.find_first_of("@[] ") != std::string::npos) {
    return error("{} '{}': accepted: {}", flag, url, kAccepted);
  }
  if (colon == std::string_view::npos) return endpoint;
  const std::string_view digits = rest.substr(colon + 1);
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), endpoint.port);
  if (problem != std::errc() || end != digits.data() + digits.size() || endpoint.port == 0) {
    return error("{} '{}': port '{}'; accepted: 1 to 65535", flag, url, digits);
  }
  return endpoint;
}

bool HttpReply::worth_retrying() const {
  if (problem == "stopped") return false;
  return !problem.empty() || status == 408 || status == 429 || status >= 500;
}

std::string HttpReply::describe() const {
  if (!problem.empty()) return problem;
  const bool cut = body.size() > kShownBytes;
  return fmt::format("answered {}: {}{}", status, body.substr(0, kShownBytes), cut ? "..." : "");
}

HttpClient::HttpClient(Endpoint endpoint, HttpLimits limits, const std::atomic<bool>* stop)
    : endpoint_(std::move(endpoint)), limits_(limits), stop_(stop) {}

HttpReply HttpClient::get(std::string_view path) const {
  return Call(endpoint_, limits_, stop_).run(http::verb::get, path, "", nullptr);
}

HttpReply HttpClient::post(std::string_view path, const std::string& body) const {
  return Call(endpoint_, limits_, stop_).run(http::verb::post, path, body, nullptr);
}

HttpReply HttpClient::post_stream(std::string_view path, const std::string& body,
                                  const std::function<void(std::string_view)>& on_event) const {
  return Call(endpoint_, limits_, stop_).run(http::verb::post, path, body, &on_event);
}

HttpReply with_retries(const RetryPolicy& policy, const std::function<bool()>& stopped,
                       const std::function<HttpReply()>& ask, int& tries) {
  auto pause = policy.first_pause;
  for (tries = 1;; ++tries) {
    HttpReply reply = ask();
    if (!reply.worth_retrying() || tries >= policy.tries) return reply;
    const auto until = Clock::now() + pause;
    while (Clock::now() < until) {
      if (stopped()) return reply;
      std::this_thread::sleep_for(std::min<Clock::duration>(kSlice, until - Clock::now()));
    }
    pause *= 2;
  }
}

}  // namespace strobe::measure
