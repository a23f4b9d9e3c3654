// The server as a whole: readiness, keys, origins, disconnects, draining, many clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "serve_fixture.h"

namespace strobe::serve {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using testing::HasSubstr;

class ServerTest : public ServeTest {
 protected:
  bool eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 6000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  }
};

TEST_F(ServerTest, IsReadyOnceATokenWasGenerated) {
  generator_.play(FakeGenerator::silence());
  start({}, test_info(), false);
  EXPECT_EQ(request(port_, "GET", "/health").status, 503);
  EXPECT_EQ(post(port_, "/v1/completions", {{"prompt", "x"}}).status, 503);
  EXPECT_EQ(request(port_, "GET", "/v1/models").status, 200);
  server_->warm_up();
  ASSERT_TRUE(generator_.wait_until_live(1));
  EXPECT_EQ(request(port_, "GET", "/health").status, 503);
  generator_.play(FakeGenerator::words());
  server_->warm_up();
  EXPECT_TRUE(eventually([&] { return server_->ready(); }));
  EXPECT_EQ(request(port_, "GET", "/health").status, 200);
  EXPECT_EQ(post(port_, "/v1/completions", {{"prompt", "x"}}).status, 200);
}

TEST_F(ServerTest, FailedFirstTokenIsNotReady) {
  const schedule::Finish fault{.reason = schedule::FinishReason::kAbort, .message = "broken"};
  generator_.play(FakeGenerator::steps({{.tokens = 0, .finish = fault}}));
  start({}, test_info(), false);
  server_->warm_up();
  ASSERT_TRUE(generator_.wait_until_submitted(1));
  ASSERT_TRUE(generator_.wait_until_live(0));
  EXPECT_FALSE(server_->ready());
  generator_.refuse_with("no");
  server_->warm_up();
  EXPECT_FALSE(server_->ready());
}

TEST_F(ServerTest, HealthGenerateReallyGenerates) {
  start();
  const ClientResponse good = request(port_, "GET", "/health_generate");
  EXPECT_EQ(good.status, 200);
  EXPECT_EQ(good.body, "");
  ASSERT_EQ(generator_.requests().size(), 1U);
  EXPECT_EQ(generator_.requests()[0].stop.max_new_tokens, 1);
  const schedule::Finish fault{.reason = schedule::FinishReason::kAbort, .message = "broken"};
  generator_.play(FakeGenerator::steps({{.tokens = 0, .finish = fault}}));
  EXPECT_EQ(request(port_, "GET", "/health_generate").status, 503);
  generator_.refuse_with("queue full");
  const ClientResponse refused = request(port_, "GET", "/health_generate");
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("queue full"));
}

TEST_F(ServerTest, HealthGenerateIsAbortedWithItsClient) {
  start();
  generator_.play(FakeGenerator::silence());
  HttpClient client(port_);
  client.send("GET", "/health_generate");
  ASSERT_TRUE(generator_.wait_until_live(1));
  client.close();
  EXPECT_TRUE(generator_.wait_until_live(0));
}

TEST_F(ServerTest, UnknownPathsAndMethods) {
  start();
  const ClientResponse missing = request(port_, "GET", "/v2/nothing");
  EXPECT_EQ(missing.status, 404);
  EXPECT_THAT(missing.json()["error"]["message"].get<std::string>(), HasSubstr("/v2/nothing"));
  const ClientResponse wrong = request(port_, "GET", "/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(request(port_, "BREW", "/v1/models").status, 405);
  EXPECT_EQ(request(port_, "DELETE", "/v1/models").headers.at("allow"), "GET, HEAD, OPTIONS");
  const ClientResponse options = request(port_, "OPTIONS", "/generate");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.headers.at("allow"), "POST, PUT, OPTIONS");
  EXPECT_EQ(request(port_, "OPTIONS", "/nothing").status, 404);
  const ClientResponse head = request(port_, "HEAD", "/v1/models");
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.headers.at("content-length"), "0");
  EXPECT_THAT(request(port_, "GET", "/").body, HasSubstr("curl"));
}

TEST_F(ServerTest, BodiesMustBeJson) {
  start();
  const std::string body = R"({"prompt": "x"})";
  const auto status = [&](const std::vector<std::pair<std::string, std::string>>& headers) {
    return request(port_, "POST", "/v1/completions", body, headers).status;
  };
  EXPECT_EQ(status({{"Content-Type", "application/json"}}), 200);
  EXPECT_EQ(status({{"Content-Type", "Application/JSON ; charset=utf-8"}}), 200);
  EXPECT_EQ(status({{"Content-Type", "text/plain"}}), 415);
  EXPECT_EQ(status({{"Content-Type", "application/x-www-form-urlencoded"}}), 415);
  EXPECT_EQ(status({{"Content-Type", "application/jsonx"}}), 415);
  HttpClient bare(port_);
  bare.send_raw("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n" + body);
  EXPECT_EQ(bare.receive().status, 200);
  HttpClient page(port_);
  page.send_raw("POST /v1/completions HTTP/1.1\r\nHost: x\r\nOrigin: http://evil\r\nContent-Length: 15\r\n\r\n" + body);
  EXPECT_EQ(page.receive().status, 415);
  refused("/v1/completions", "", "");
}

TEST_F(ServerTest, KeyIsAskedFor) {
  ServerOptions options;
  options.api_key = "s3cret";
  start(std::move(options));
  const auto status = [&](const char* path, const char* authorization) {
    std::vector<std::pair<std::string, std::string>> headers;
    if (authorization != nullptr) headers.emplace_back("Authorization", authorization);
    return request(port_, "GET", path, "", headers).status;
  };
  EXPECT_EQ(status("/v1/models", nullptr), 401);
  EXPECT_EQ(status("/v1/models", "Bearer s3cret"), 200);
  EXPECT_EQ(status("/v1/models", "bearer s3cret"), 200);
  for (const auto* wrong : {"Bearer s3cre", "Bearer s3crets", "Bearer ", "Bearer", "s3cret", "Basic s3cret",
                            "Bearer S3CRET", "Bearer s3cret s3cret", ""}) {
    EXPECT_EQ(status("/v1/models", wrong), 401) << wrong;
  }
  EXPECT_EQ(status("/nothing", nullptr), 401);
  for (const auto* open : {"/health", "/metrics", "/"}) EXPECT_EQ(status(open, nullptr), 200) << open;
  EXPECT_EQ(status("/health/../v1/models", nullptr), 401);
  EXPECT_EQ(post(port_, "/generate", {{"text", "x"}}).status, 401);
  EXPECT_TRUE(generator_.requests().empty());
}

TEST_F(ServerTest, OtherOriginsAreOffByDefault) {
  start();
  const std::vector<std::pair<std::string, std::string>> from = {{"Origin", "https://a.example"}};
  EXPECT_FALSE(request(port_, "GET", "/v1/models", "", from).headers.contains("access-control-allow-origin"));
  EXPECT_FALSE(request(port_, "OPTIONS", "/generate", "", from).headers.contains("access-control-allow-origin"));
}

TEST_F(ServerTest, NamedOriginsAreAllowed) {
  ServerOptions options;
  options.cors_origins = {"https://a.example"};
  options.api_key = "k";
  start(std::move(options));
  const auto ask = [&](const char* method, const char* origin) {
    return request(port_, method, "/v1/models", "", {{"Origin", origin}, {"Authorization", "Bearer k"}}).headers;
  };
  EXPECT_EQ(ask("GET", "https://a.example").at("access-control-allow-origin"), "https://a.example");
  EXPECT_FALSE(ask("GET", "https://b.example").contains("access-control-allow-origin"));
  // A browser asks first, without the key.
  const ClientResponse preflight = request(port_, "OPTIONS", "/generate", "", {{"Origin", "https://a.example"}});
  EXPECT_EQ(preflight.status, 204);
  EXPECT_THAT(preflight.headers.at("access-control-allow-headers"), HasSubstr("Authorization"));
  EXPECT_EQ(preflight.headers.at("access-control-allow-origin"), "https://a.example");
}

TEST_F(ServerTest, MetricsCountRequests) {
  start();
  EXPECT_EQ(post(port_, "/generate", {{"text", "hello"}, {"sampling_params", {{"max_new_tokens", 4}}}}).status, 200);
  EXPECT_EQ(post(port_, "/generate", {{"text", ""}}).status, 400);
  EXPECT_EQ(request(port_, "GET", "/made/up/path").status, 404);
  const ClientResponse response = request(port_, "GET", "/metrics");
  EXPECT_THAT(response.headers.at("content-type"), HasSubstr("version=0.0.4"));
  for (const auto* line : {"sglang:num_requests_total{model_name=\"pocket\"} 1\n",
                           "sglang:time_to_first_token_seconds_count{model_name=\"pocket\"} 1\n",
                           "sglang:inter_token_latency_seconds_count{model_name=\"pocket\"} 3\n",
                           "strobe:http_answers_total{model_name=\"pocket\",route=\"/generate\",status=\"200\"} 1\n",
                           "strobe:http_answers_total{model_name=\"pocket\",route=\"/generate\",status=\"400\"} 1\n",
                           "strobe:http_answers_total{model_name=\"pocket\",route=\"other\",status=\"404\"} 1\n",
                           "sglang:max_total_num_tokens{model_name=\"pocket\"} 8192\n"}) {
    EXPECT_THAT(response.body, HasSubstr(line));
  }
}

TEST_F(ServerTest, DisconnectAbortsAStream) {
  start();
  generator_.play(FakeGenerator::endless(milliseconds(5)));
  HttpClient client(port_);
  client.send("POST", "/v1/completions", R"({"prompt": "x", "n": 2, "stream": true})");
  EXPECT_EQ(client.receive_head().status, 200);
  ASSERT_TRUE(client.next_event());
  client.close();
  EXPECT_TRUE(generator_.wait_until_live(0));
  EXPECT_EQ(generator_.aborts(), 2);
}

TEST_F(ServerTest, DisconnectAbortsARequestThatDoesNotStream) {
  start();
  generator_.play(FakeGenerator::silence());  // a long prefill
  HttpClient client(port_);
  client.send("POST", "/v1/chat/completions", R"({"messages": [{"role": "user", "content": "x"}]})");
  ASSERT_TRUE(generator_.wait_until_live(1));
  client.close();
  EXPECT_TRUE(generator_.wait_until_live(0));
}

TEST_F(ServerTest, ManyDisconnectsLeaveNothingBehind) {
  start();
  generator_.play(FakeGenerator::endless(milliseconds(1)));
  for (int i = 0; i < 200; ++i) {
    HttpClient client(port_);
    client.send("POST", "/generate", json{{"text", "x"}, {"stream", i % 2 == 0}, {"rid", "same"}}.dump());
    if (i % 4 == 0) client.receive_head();
  }
  EXPECT_TRUE(generator_.wait_until_live(0));
  generator_.play(FakeGenerator::words());
  EXPECT_TRUE(eventually([&] { return post(port_, "/generate", {{"text", "x"}, {"rid", "same"}}).status == 200; }));
}

TEST_F(ServerTest, ClientThatDoesNotReadIsAborted) {
  ServerOptions options;
  options.http.stream_backlog_bytes_max = 1 << 20;
  start(std::move(options));
  generator_.play(FakeGenerator::endless(milliseconds(0), std::string(32 << 10, 'x')));
  HttpClient client(port_);
  client.set_receive_buffer(4096);
  client.send("POST", "/v1/completions", R"({"prompt": "x", "stream": true})");
  ASSERT_TRUE(generator_.wait_until_submitted(1));
  EXPECT_TRUE(generator_.wait_until_live(0));
}

TEST_F(ServerTest, DrainLetsRunningRequestsEndAndRefusesNewOnes) {
  start();
  generator_.play(FakeGenerator::words(milliseconds(100)));
  HttpClient running(port_);
  running.send("POST", "/v1/completions", R"({"prompt": "x", "stream": true, "max_tokens": 16})");
  EXPECT_EQ(running.receive_head().status, 200);
  ASSERT_TRUE(running.next_event());
  auto stopped = std::async(std::launch::async, [&] { server_->stop(std::chrono::minutes(1)); });
  EXPECT_TRUE(eventually([&] {
    try {
      return request(port_, "GET", "/health").status == 503;
    } catch (const std::runtime_error&) {
      return true;  // it no longer listens
    }
  }));
  std::string last;
  std::string reason;
  while (auto event = running.next_event()) {
    last = *event;
    if (last != "[DONE]" && !json::parse(last)["choices"][0]["finish_reason"].is_null()) {
      reason = json::parse(last)["choices"][0]["finish_reason"];
    }
  }
  EXPECT_EQ(last, "[DONE]");
  EXPECT_EQ(reason, "length");
  stopped.get();
  EXPECT_EQ(generator_.aborts(), 0);
}

TEST_F(ServerTest, RequestsThatOutlastTheDrainAreTold) {
  start();
  generator_.play(FakeGenerator::endless(milliseconds(5)));
  HttpClient streaming(port_);
  streaming.send("POST", "/v1/completions", R"({"prompt": "x", "stream": true})");
  EXPECT_EQ(streaming.receive_head().status, 200);
  HttpClient waiting(port_);
  waiting.send("POST", "/v1/completions", R"({"prompt": "x"})");
  ASSERT_TRUE(generator_.wait_until_live(2));
  auto stopped = std::async(std::launch::async, [&] { server_->stop(milliseconds(50)); });
  const ClientResponse told = waiting.receive();
  EXPECT_EQ(told.status, 503);
  std::vector<std::string> events;
  while (auto event = streaming.next_event()) events.push_back(*event);
  ASSERT_GE(events.size(), 2U);
  EXPECT_TRUE(json::parse(events[events.size() - 2]).contains("error"));
  EXPECT_EQ(events.back(), "[DONE]");
  stopped.get();
  EXPECT_EQ(generator_.live(), 0);
}

TEST_F(ServerTest, GeneratorMayOutliveTheServer) {
  start();
  generator_.play(FakeGenerator::endless(milliseconds(1)));
  HttpClient client(port_);
  client.send("POST", "/generate", R"({"text": "x", "stream": true})");
  ASSERT_TRUE(generator_.wait_until_live(1));
  server_.reset();
  EXPECT_TRUE(generator_.wait_until_live(0));
}

// 500 streams at once, read by one thread with poll, each checked to the last byte.
TEST_F(ServerTest, FiveHundredStreamsAtOnce) {
  constexpr int kStreams = 500;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 2 * kStreams + 100) GTEST_SKIP() << "only " << files.rlim_cur << " file descriptors";

  start();
  generator_.play(FakeGenerator::words(milliseconds(20)));
  std::vector<HttpClient> clients;
  std::vector<std::string> received(kStreams);
  std::vector<pollfd> polls(kStreams);
  for (int i = 0; i < kStreams; ++i) {
    clients.emplace_back(port_);
    clients.back().send("POST", "/v1/completions",
                        json{{"prompt", "x"}, {"max_tokens", 20 + i % 7}, {"stream", true}}.dump(),
                        {{"Connection", "close"}, {"Content-Type", "application/json"}});
    polls[static_cast<size_t>(i)] = {.fd = clients.back().socket(), .events = POLLIN};
  }
  int open = kStreams;
  while (open > 0) {
    ASSERT_GT(poll(polls.data(), polls.size(), 60'000), 0) << open << " streams got nothing for a minute";
    for (size_t i = 0; i < polls.size(); ++i) {
      if (polls[i].revents == 0) continue;
      char bytes[65536];
      const ssize_t count = recv(polls[i].fd, bytes, sizeof bytes, 0);
      if (count > 0) {
        received[i].append(bytes, static_cast<size_t>(count));
      } else {
        polls[i].fd = -1;
        --open;
      }
    }
  }
  for (int i = 0; i < kStreams; ++i) {
    const std::string& raw = received[static_cast<size_t>(i)];
    ASSERT_THAT(raw, testing::StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(raw, testing::EndsWith("data: [DONE]\n\n\r\n0\r\n\r\n"));
    std::string text;
    std::string expected;
    for (int w = 0; w < 20 + i % 7; ++w) expected += fmt::format(" w{}", w);
    for (size_t at = raw.find("data: {"); at != std::string::npos; at = raw.find("data: {", at + 1)) {
      text += json::parse(raw.substr(at + 6, raw.find('\n', at) - at - 6))["choices"][0]["text"].get<std::string>();
    }
    EXPECT_EQ(text, expected) << i;
  }
  EXPECT_EQ(generator_.aborts(), 0);
}

// A probe must not wait behind prompts.
TEST_F(ServerTest, ShortRequestsDoNotWaitForLongOnes) {
  std::promise<void> encoding, go_on;
  text_.on_encode = [&, gate = go_on.get_future().share()] {
    encoding.set_value();
    gate.wait();
  };
  ServerOptions options;
  options.http.handler_threads = 1;
  start(std::move(options));
  HttpClient slow(port_);
  slow.send("POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 1})");
  encoding.get_future().wait();  // the only thread for such requests is taken
  for (const auto* path : {"/health", "/health_generate", "/metrics", "/server_info", "/get_server_info", "/model_info",
                           "/v1/loads", "/get_load", "/v1/models", "/"}) {
    EXPECT_EQ(request(port_, "GET", path).status, 200) << path;
  }
  EXPECT_EQ(post(port_, "/abort_request", {{"rid", "none"}}).status, 200);
  go_on.set_value();
  EXPECT_EQ(slow.receive().status, 200);
}

TEST_F(ServerTest, EachTextThatEndsIsLogged) {
  std::mutex mutex;
  std::vector<json> lines;
  ServerOptions options;
  options.request_log = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.push_back(json::parse(line));
  };
  start(std::move(options));
  EXPECT_EQ(post(port_, "/v1/completions", {{"prompt", "secret"}, {"n", 2}, {"max_tokens", 7}, {"rid", "mine"}}).status,
            200);
  generator_.play(FakeGenerator::steps(
      {{.tokens = 0, .finish = schedule::Finish{.reason = schedule::FinishReason::kAbort, .message = "broken"}}}));
  EXPECT_EQ(post(port_, "/generate", {{"text", "x"}}).status, 500);
  const std::lock_guard lock(mutex);
  ASSERT_EQ(lines.size(), 3U);
  std::set<std::string> ids;
  for (const json& line : {lines[0], lines[1]}) {
    ids.insert(line["rid"].get<std::string>());
    EXPECT_EQ(line["path"], "/v1/completions");
    EXPECT_EQ(line["finish_reason"], "length");
    EXPECT_EQ(line["prompt_tokens"], 6);
    EXPECT_EQ(line["completion_tokens"], 7);
    EXPECT_EQ(line["spec_verify_ct"], 2);
    EXPECT_EQ(line["accept_length"], 3.0);
    EXPECT_GE(line["total_ms"], line["first_token_ms"]);
    EXPECT_THAT(line.dump(), testing::Not(HasSubstr("secret")));
  }
  EXPECT_EQ(ids, (std::set<std::string>{"mine#0", "mine#1"}));
  EXPECT_EQ(lines[2]["finish_reason"], "abort");
  EXPECT_EQ(lines[2]["message"], "broken");
}

}  // namespace
}  // namespace strobe::serve
