// The HTTP layer alone, mostly with clients that misbehave.
#include "serve/http_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <optional>
#include <thread>

#include "base/failure.h"
#include "http_client.h"

namespace strobe::serve {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Answers with what it was asked, or as the path says.
class HttpServerTest : public testing::Test {
 protected:
  void start(HttpOptions options = {}, HttpHooks hooks = {}) {
    options.port = 0;
    server_ = std::make_unique<HttpServer>(options, hooks,
                                           [this](std::shared_ptr<Exchange> exchange) { handle(std::move(exchange)); });
    port_ = server_->start();
  }

  void handle(std::shared_ptr<Exchange> exchange) {
    const Request& request = exchange->request();
    if (request.path == "/wait" || request.path == "/stream") {
      exchange->on_gone([this] {
        const std::lock_guard lock(mutex_);
        ++gone_;
        changed_.notify_all();
      });
      if (request.path == "/stream") exchange->begin_stream({.content_type = "text/plain"});
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(exchange));
      changed_.notify_all();
      return;
    }
    if (request.path == "/throw") throw Failure("a handler's secret");
    if (request.path == "/drop") return;
    if (request.path == "/drop_stream") {
      exchange->begin_stream({.content_type = "text/plain"});
      return exchange->write("half");
    }
    if (request.path == "/pieces") {
      exchange->begin_stream({.content_type = "text/plain"});
      for (const auto* piece : {"one ", "", "two ", "three"}) exchange->write(piece);
      return exchange->end();
    }
    std::string body = fmt::format("{} {} {} {}", request.method, request.path, request.query, request.body);
    exchange->send({.content_type = "text/plain", .headers = {{"X-Echo", "yes"}}, .body = std::move(body)});
  }

  // The nth exchange that asked for /wait or /stream.
  std::shared_ptr<Exchange> waiting(size_t n) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(1), [&] { return waiting_.size() > n; }));
    return waiting_.at(n);
  }
  bool wait_gone(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return gone_ == count; });
  }

  std::unique_ptr<HttpServer> server_;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Exchange>> waiting_;
  int gone_ = 0;
};

TEST_F(HttpServerTest, AnAddressIsCheckedWithoutBeingTaken) {
  constexpr const char* kHost = "127.8.0.1";  // where no other test is given the port that becomes free
  start({.host = kHost});
  EXPECT_THROW(check_address(kHost, port_), Failure) << "the server has it";
  EXPECT_THROW(check_address("203.0.113.1", 0), Failure) << "no machine has it";
  server_->stop(milliseconds(0));
  check_address(kHost, port_);
  check_address(kHost, port_);
}

TEST_F(HttpServerTest, AnswersWithLengthAndHeaders) {
  start();
  const ClientResponse response = request(port_, "POST", "/a/b?c=d", "body", {{"Content-Type", "text/plain"}});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "POST /a/b c=d body");
  EXPECT_EQ(response.headers.at("x-echo"), "yes");
  EXPECT_EQ(response.headers.at("content-type"), "text/plain");
  EXPECT_TRUE(response.headers.contains("date"));
}

TEST_F(HttpServerTest, KeepsTheConnectionForMoreRequests) {
  start();
  HttpClient client(port_);
  for (int i = 0; i < 3; ++i) {
    client.send("GET", fmt::format("/{}", i));
    EXPECT_EQ(client.receive().body, fmt::format("GET /{}  ", i));
  }
  client.send("GET", "/last", "", {{"Connection", "close"}});
  EXPECT_EQ(client.receive().headers.at("connection"), "close");
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  start();
  HttpClient client(port_);
  std::string all;
  for (int i = 0; i < 50; ++i) {
    all += fmt::format("POST /{} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc\r\n", i);
  }
  client.send_raw(all);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.receive().body, fmt::format("POST /{}  abc", i));
}

TEST_F(HttpServerTest, TakesARequestByteByByte) {
  start();
  HttpClient client(port_);
  for (const char c : std::string("POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")) {
    client.send_raw(std::string(1, c));
  }
  EXPECT_EQ(client.receive().body, "POST /slow  body");
}

TEST_F(HttpServerTest, TakesChunkedBodies) {
  start();
  HttpClient client(port_);
  client.send_raw(
      "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n5;ext=1\r\ndefgh\r\n0\r\nTrailer: t\r\n\r\n");
  EXPECT_EQ(client.receive().body, "POST /c  abcdefgh");
  client.send("GET", "/next");
  EXPECT_EQ(client.receive().status, 200);
}

TEST_F(HttpServerTest, StreamsInChunks) {
  start();
  const ClientResponse response = request(port_, "GET", "/pieces");
  EXPECT_EQ(response.headers.at("transfer-encoding"), "chunked");
  EXPECT_EQ(response.body, "one two three");
}

TEST_F(HttpServerTest, StreamsToOldClientsUntilTheConnectionEnds) {
  start();
  HttpClient client(port_);
  client.send_raw("GET /pieces HTTP/1.0\r\n\r\n");
  const ClientResponse response = client.receive();
  EXPECT_FALSE(response.headers.contains("transfer-encoding"));
  EXPECT_EQ(response.headers.at("connection"), "close");
  EXPECT_EQ(response.body, "one two three");
}

TEST_F(HttpServerTest, HeadHasTheLengthButNoBody) {
  start();
  HttpClient client(port_);
  client.send("HEAD", "/x");
  const ClientResponse response = client.receive(true);
  EXPECT_EQ(response.headers.at("content-length"), std::to_string(std::string("HEAD /x  ").size()));
  client.send("GET", "/y");
  EXPECT_EQ(client.receive().body, "GET /y  ");
}

TEST_F(HttpServerTest, SaysContinueWhenAsked) {
  start();
  HttpClient client(port_);
  client.send_raw("POST /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.receive().status, 100);
  client.send_raw("ok");
  EXPECT_EQ(client.receive().body, "POST /x  ok");
}

struct Malformed {
  const char* name;
  std::string bytes;
  int status;
};
class MalformedTest : public HttpServerTest, public testing::WithParamInterface<Malformed> {};

TEST_P(MalformedTest, IsRefusedAndTheConnectionClosed) {
  start({.header_bytes_max = 4096, .body_bytes_max = 1000});
  HttpClient client(port_);
  client.send_raw(GetParam().bytes);
  const ClientResponse response = client.receive();
  EXPECT_EQ(response.status, GetParam().status) << response.body;
  EXPECT_FALSE(response.json().at("error").at("message").get<std::string>().empty());
  EXPECT_EQ(response.headers.at("connection"), "close");
  EXPECT_TRUE(client.closed_by_server());
  EXPECT_EQ(request(port_, "GET", "/alive").status, 200);
}

std::string post_head(std::string_view headers) {
  return fmt::format("POST / HTTP/1.1\r\nHost: x\r\n{}\r\n\r\n", headers);
}

INSTANTIATE_TEST_SUITE_P(
    Requests, MalformedTest,
    testing::Values(
        Malformed{"garbage", "\x16\x03\x01\x02\x01 hello\r\n\r\n", 400},
        Malformed{"nul_in_target", "GET /" + std::string(1, '\0') + "x HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        Malformed{"no_version", "GET /\r\nHost: x\r\n\r\n", 400},
        Malformed{"version_2", "GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505},
        Malformed{"no_host", "GET / HTTP/1.1\r\n\r\n", 400},
        Malformed{"space_in_header_name", "GET / HTTP/1.1\r\nHo st: x\r\n\r\n", 400},
        Malformed{"long_target", "GET /" + std::string(5000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", 431},
        Malformed{"long_header", "GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(5000, 'a') + "\r\n\r\n", 431},
        Malformed{"endless_header", "GET / HTTP/1.1\r\nA: " + std::string(9000, 'a'), 431},
        Malformed{"long_body", post_head("Content-Length: 1001"), 413},
        Malformed{"huge_length", post_head("Content-Length: 18446744073709551615"), 413},
        Malformed{"overflowing_length", post_head("Content-Length: 99999999999999999999999"), 400},
        Malformed{"negative_length", post_head("Content-Length: -1"), 400},
        Malformed{"two_lengths", post_head("Content-Length: 3\r\nContent-Length: 4"), 400},
        Malformed{"length_and_chunks", post_head("Content-Length: 3\r\nTransfer-Encoding: chunked"), 400},
        Malformed{"chunks_and_length", post_head("Transfer-Encoding: chunked\r\nContent-Length: 3"), 400},
        Malformed{"other_coding", post_head("Transfer-Encoding: gzip"), 501},
        Malformed{"two_codings", post_head("Transfer-Encoding: gzip, chunked"), 501},
        Malformed{"bad_chunk_size", post_head("Transfer-Encoding: chunked") + "zz\r\n", 400},
        Malformed{"overflowing_chunk_size", post_head("Transfer-Encoding: chunked") + "fffffffffffffffff\r\n", 400},
        Malformed{"long_chunk", post_head("Transfer-Encoding: chunked") + "3e9\r\n", 413},
        Malformed{"chunks_too_long_together",
                  post_head("Transfer-Encoding: chunked") + "1f4\r\n" + std::string(500, 'a') + "\r\n1f5\r\n", 413},
        Malformed{"endless_chunk_extension", post_head("Transfer-Encoding: chunked") + "1;" + std::string(80000, 'a'),
                  400},
        Malformed{"no_line_end_after_chunk", post_head("Transfer-Encoding: chunked") + "1\r\nabc\r\n", 400},
        Malformed{"unknown_expectation", post_head("Expect: wonders\r\nContent-Length: 3"), 417}),
    [](const auto& test) { return test.param.name; });

TEST_F(HttpServerTest, ManyHeadersAreFine) {
  start();
  std::vector<std::pair<std::string, std::string>> headers;
  for (int i = 0; i < 1000; ++i) headers.emplace_back(fmt::format("X-{}", i), "v");
  EXPECT_EQ(request(port_, "GET", "/x", "", headers).status, 200);
}

TEST_F(HttpServerTest, HandlerThatThrowsIsA500WithoutItsWords) {
  start();
  const ClientResponse response = request(port_, "GET", "/throw");
  EXPECT_EQ(response.status, 500);
  EXPECT_THAT(response.body, testing::Not(HasSubstr("secret")));
}

TEST_F(HttpServerTest, DroppedExchangeIsA500) {
  start();
  EXPECT_EQ(request(port_, "GET", "/drop").status, 500);
}

TEST_F(HttpServerTest, DroppedStreamIsCut) {
  start();
  HttpClient client(port_);
  client.send("GET", "/drop_stream");
  EXPECT_THROW(client.receive(), std::runtime_error);
}

TEST_F(HttpServerTest, IdleConnectionIsClosed) {
  start({.idle_timeout = milliseconds(100)});
  HttpClient client(port_);
  client.send("GET", "/x");
  EXPECT_EQ(client.receive().status, 200);
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(HttpServerTest, HeadThatDoesNotComeIsA408) {
  start({.header_timeout = milliseconds(100)});
  HttpClient client(port_);
  client.send_raw("GET / HTTP/1.1\r\n");
  EXPECT_EQ(client.receive().status, 408);
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(HttpServerTest, BodyThatDoesNotComeIsA408) {
  start({.body_timeout = milliseconds(100)});
  HttpClient client(port_);
  client.send_raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  const ClientResponse response = client.receive();
  EXPECT_EQ(response.status, 408);
  EXPECT_THAT(response.body, HasSubstr("body"));
}

TEST_F(HttpServerTest, SlowAnswerIsNotCutByAnyTimeout) {
  start({.header_timeout = milliseconds(50),
         .body_timeout = milliseconds(50),
         .idle_timeout = milliseconds(50),
         .write_timeout = milliseconds(50)});
  HttpClient client(port_);
  client.send("GET", "/wait");
  waiting(0)->run_later(milliseconds(400), [this] { waiting_[0]->send({.body = "late"}); });
  EXPECT_EQ(client.receive().body, "late");
}

TEST_F(HttpServerTest, AllBodiesTogetherAreLimited) {
  start({.buffered_bytes_max = 100'000});
  std::optional<HttpClient> holder;
  // The one whose byte crosses the limit is refused. That may be the holder, whose bytes may still be on their way when
  // the other body comes: then another holder tries.
  int status = 200;
  for (int i = 0; i < 100 && status == 200; ++i) {
    holder.emplace(port_);
    holder->send_raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + std::string(90'000, 'a'));
    std::this_thread::sleep_for(milliseconds(10));
    status = request(port_, "POST", "/x", std::string(60'000, 'b')).status;
  }
  EXPECT_EQ(status, 503);
  holder.reset();
  for (int i = 0; i < 500 && status == 503; ++i) {
    status = request(port_, "POST", "/x", std::string(60'000, 'b')).status;
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(status, 200);
}

TEST_F(HttpServerTest, ConnectionsAreLimited) {
  start({.connections_max = 3});
  std::vector<HttpClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(port_);
    clients.back().send("GET", "/x");
    EXPECT_EQ(clients.back().receive().status, 200);
  }
  EXPECT_EQ(HttpClient(port_).receive().status, 503);
  clients.pop_back();
  int status = 503;
  for (int i = 0; i < 500 && status == 503; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    HttpClient next(port_);
    next.send("GET", "/x");
    status = next.receive().status;
  }
  EXPECT_EQ(status, 200);
}

TEST_F(HttpServerTest, TellsWhenTheClientGoesWhileItWaits) {
  start();
  HttpClient client(port_);
  client.send("GET", "/wait");
  waiting(0);
  client.close();
  EXPECT_TRUE(wait_gone(1));
}

TEST_F(HttpServerTest, TellsWhenTheClientClosesItsSideOnly) {
  start();
  HttpClient client(port_);
  client.send("GET", "/wait");
  waiting(0);
  client.shut_write();
  EXPECT_TRUE(wait_gone(1));
}

TEST_F(HttpServerTest, TellsWhenTheClientGoesInMidStream) {
  start();
  HttpClient client(port_);
  client.send("GET", "/stream");
  waiting(0)->write("piece");
  EXPECT_EQ(client.receive_head().status, 200);
  client.close();
  EXPECT_TRUE(wait_gone(1));
  waiting(0)->write("more");  // does nothing
  waiting(0)->end();
  EXPECT_EQ(request(port_, "GET", "/alive").status, 200);
}

TEST_F(HttpServerTest, RequestSentAheadDoesNotEndTheCurrentOne) {
  start();
  HttpClient client(port_);
  client.send("GET", "/wait");
  const auto exchange = waiting(0);
  client.send("GET", "/next");
  exchange->send({.content_type = "text/plain", .body = "first"});
  EXPECT_EQ(client.receive().body, "first");
  EXPECT_EQ(client.receive().body, "GET /next  ");
  EXPECT_EQ(gone_, 0);
}

TEST_F(HttpServerTest, StreamWithoutReaderIsCutAtTheLimit) {
  start({.stream_backlog_bytes_max = 1 << 20});
  HttpClient client(port_);
  client.set_receive_buffer(4096);
  client.send("GET", "/stream");
  const auto exchange = waiting(0);
  // More than the kernel's buffers and the limit can hold together.
  for (int i = 0; i < 1000; ++i) exchange->write(std::string(64 << 10, 'x'));
  EXPECT_TRUE(wait_gone(1));
}

TEST_F(HttpServerTest, AnswerWithoutReaderIsGivenUpInTime) {
  start({.write_timeout = milliseconds(200)});
  HttpClient client(port_);
  client.set_receive_buffer(4096);
  client.send("GET", "/wait");
  waiting(0)->send({.body = std::string(64 << 20, 'x')});
  EXPECT_TRUE(wait_gone(1));
}

TEST_F(HttpServerTest, TasksRunInOrderOfTheCalls) {
  start();
  HttpClient client(port_);
  client.send("GET", "/wait");
  const auto exchange = waiting(0);
  exchange->begin_stream({.content_type = "text/plain"});
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    expected += fmt::format("{},", i);
    if (i % 2 == 0) {
      exchange->write(fmt::format("{},", i));
    } else {
      exchange->run([exchange, i] { exchange->write(fmt::format("{},", i)); });
    }
  }
  exchange->end();
  exchange->write("too late");
  EXPECT_EQ(client.receive().body, expected);
}

TEST_F(HttpServerTest, StopLetsRunningAnswersEnd) {
  start();
  HttpClient client(port_);
  client.send("GET", "/wait");
  const auto exchange = waiting(0);
  HttpClient idle(port_);
  idle.send("GET", "/x");
  EXPECT_EQ(idle.receive().status, 200);
  auto stopped = std::async(std::launch::async, [&] { server_->stop(std::chrono::minutes(1)); });
  EXPECT_TRUE(idle.closed_by_server());
  exchange->send({.content_type = "text/plain", .body = "done"});
  EXPECT_EQ(client.receive().body, "done");
  stopped.get();
  EXPECT_EQ(gone_, 0);
  EXPECT_THROW(HttpClient{port_}, std::runtime_error);
}

TEST_F(HttpServerTest, StopCutsWhatDoesNotEnd) {
  start();
  HttpClient client(port_);
  client.send("GET", "/stream");
  const auto exchange = waiting(0);
  server_->stop(milliseconds(50));
  EXPECT_EQ(gone_, 1);
  EXPECT_EQ(server_->open_connections(), 0);
  exchange->write("after the end");
  exchange->run([] { FAIL() << "the loop has stopped"; });
  server_.reset();
  exchange->end();  // the exchange outlives the server
}

TEST_F(HttpServerTest, TakenPortIsAFailure) {
  start();
  HttpServer second({.port = port_}, {}, [](const std::shared_ptr<Exchange>&) {});
  EXPECT_THROW(second.start(), Failure);
}

TEST_F(HttpServerTest, UnknownHostIsAFailure) {
  HttpServer server({.host = "256.1.1.1", .port = 0}, {}, [](const std::shared_ptr<Exchange>&) {});
  EXPECT_THROW(server.start(), Failure);
}

TEST_F(HttpServerTest, HooksSeeEveryAnswerAndAddHeaders) {
  std::mutex mutex;
  std::vector<int> statuses;
  HttpHooks hooks;
  hooks.extra_headers = [](const Request& asked) { return std::vector<Header>{{"X-Path", asked.path}}; };
  hooks.on_answer = [&](const Request&, int status) {
    const std::lock_guard lock(mutex);
    statuses.push_back(status);
  };
  start({}, hooks);
  EXPECT_EQ(request(port_, "GET", "/p").headers.at("x-path"), "/p");
  EXPECT_EQ(request(port_, "GET", "/throw").status, 500);
  server_->stop(milliseconds(0));
  EXPECT_THAT(statuses, testing::ElementsAre(200, 500));
}

}  // namespace
}  // namespace strobe::serve
