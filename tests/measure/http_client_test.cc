// The client against servers that answer, stream, refuse, say nothing, or are not there.
#include "measure/http_client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fake_server.h"
#include "measure/sse_parser.h"

namespace strobe::measure {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A bound port: with `listens`, connections are taken and never answered; without, they are refused.
class DeafPort {
 public:
  explicit DeafPort(bool listens) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    if (listens) {
      EXPECT_EQ(listen(socket_, 4), 0);
    }
    endpoint_ = {.host = "127.0.0.1", .port = ntohs(address.sin_port)};
  }
  ~DeafPort() { close(socket_); }
  DeafPort(const DeafPort&) = delete;
  DeafPort& operator=(const DeafPort&) = delete;
  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }

 private:
  int socket_;
  Endpoint endpoint_;
};

TEST(BaseUrl, HostPortAndPrefix) {
  const auto url = [](const char* text) {
    const auto endpoint = parse_base_url("--base-url", text);
    return endpoint.ok() ? endpoint->url() : endpoint.message();
  };
  EXPECT_EQ(url("http://localhost:30000"), "http://localhost:30000");
  EXPECT_EQ(url("http://10.0.0.1:1/"), "http://10.0.0.1:1");
  EXPECT_EQ(url("http://host"), "http://host:80");
  EXPECT_EQ(url("http://host:8/a/b/"), "http://host:8/a/b");
  for (const char* wrong : {"https://host", "host:1", "http://", "http://:80", "http://u@h", ""}) {
    EXPECT_THAT(url(wrong), HasSubstr("accepted: http://HOST[:PORT]")) << wrong;
  }
  for (const char* wrong : {"http://h:0", "http://h:70000", "http://h:x", "http://h:"}) {
    EXPECT_THAT(url(wrong), HasSubstr("accepted: 1 to 65535")) << wrong;
  }
}

TEST(Sse, EventsComeWholeHoweverTheBytesAreCut) {
  const std::string stream = ": comment\r\ndata: one\r\n\r\nevent: x\ndata: two\ndata:three\n\ndata: [DONE]\n\n\n";
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    SseParser parser;
    std::vector<std::string> events;
    for (size_t i = 0; i < stream.size(); i += piece) {
      parser.feed(std::string_view(stream).substr(i, piece), [&](std::string_view data) { events.emplace_back(data); });
    }
    EXPECT_THAT(events, ElementsAre("one", "two\nthree", "[DONE]")) << piece;
    EXPECT_FALSE(parser.inside_event());
  }
}

TEST(HttpClient, AsksAndReads) {
  FakeServer server(
      [](serve::Exchange& e) { e.send({.status = e.request().method == "GET" ? 200 : 404, .body = "{}"}); });
  Endpoint endpoint = server.endpoint();
  endpoint.api_key = "secret";
  endpoint.prefix = "/under";
  const HttpClient client(endpoint);
  const HttpReply got = client.get("/a?b=c");
  EXPECT_TRUE(got.ok());
  EXPECT_EQ(got.body, "{}");
  const HttpReply posted = client.post("/p", "[1]");
  EXPECT_EQ(posted.status, 404);
  EXPECT_FALSE(posted.ok());
  EXPECT_FALSE(posted.worth_retrying());
  EXPECT_EQ(posted.describe(), "answered 404: {}");
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].path, "/under/a");
  EXPECT_EQ(requests[0].header("Authorization"), "Bearer secret");
  EXPECT_EQ(requests[1].body, "[1]");
  EXPECT_EQ(requests[1].header("Content-Type"), "application/json");
}

TEST(HttpClient, StreamsEvents) {
  FakeServer server([](serve::Exchange& e) {
    e.begin_stream({.content_type = "text/event-stream"});
    e.write("data: a\n");
    e.write("\ndata: b\n\n");
    e.end();
  });
  std::vector<std::string> events;
  const HttpReply reply =
      HttpClient(server.endpoint()).post_stream("/s", "{}", [&](std::string_view data) { events.emplace_back(data); });
  EXPECT_TRUE(reply.ok()) << reply.describe();
  EXPECT_THAT(events, ElementsAre("a", "b"));
}

TEST(HttpClient, ARefusedStreamIsReadAsABody) {
  FakeServer server([](serve::Exchange& e) { e.send({.status = 400, .body = "why"}); });
  const HttpReply reply =
      HttpClient(server.endpoint()).post_stream("/s", "{}", [](std::string_view) { ADD_FAILURE() << "no event"; });
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body, "why");
}

TEST(HttpClient, AStreamThatIsCutIsAProblem) {
  FakeServer server([](serve::Exchange& e) {
    e.begin_stream({.content_type = "text/event-stream"});
    e.write("data: a\n\n");
  });  // dropped without end()
  const HttpReply reply = HttpClient(server.endpoint()).post_stream("/s", "{}", [](std::string_view) {});
  EXPECT_FALSE(reply.ok());
  EXPECT_TRUE(reply.worth_retrying());
}

TEST(HttpClient, NobodyThere) {
  const DeafPort port(false);
  const HttpReply reply = HttpClient(port.endpoint()).get("/");
  EXPECT_EQ(reply.status, 0);
  EXPECT_TRUE(reply.worth_retrying());
  EXPECT_THAT(reply.describe(), HasSubstr(port.endpoint().url()));
}

TEST(HttpClient, SilenceEnds) {
  const DeafPort port(true);
  const HttpReply reply = HttpClient(port.endpoint(), {.silence = milliseconds(20)}).get("/");
  EXPECT_THAT(reply.describe(), HasSubstr("within 20 ms"));
  EXPECT_TRUE(reply.worth_retrying());
}

TEST(HttpClient, StopEndsARequest) {
  const DeafPort port(true);
  const std::atomic<bool> stop = true;
  const HttpReply reply = HttpClient(port.endpoint(), {}, &stop).get("/");
  EXPECT_EQ(reply.problem, "stopped");
  EXPECT_FALSE(reply.worth_retrying());
}

TEST(Retries, OnlyWhatMayHelpIsAskedAgain) {
  const auto tries_for = [](const std::vector<HttpReply>& replies) {
    int tries = 0;
    size_t next = 0;
    (void)with_retries(
        {.tries = 3, .first_pause = milliseconds(0)}, [] { return false; },
        [&] { return replies[std::min(next++, replies.size() - 1)]; }, tries);
    return tries;
  };
  EXPECT_EQ(tries_for({{.status = 200}}), 1);
  EXPECT_EQ(tries_for({{.status = 400}}), 1);
  EXPECT_EQ(tries_for({{.status = 503}, {.status = 200}}), 2);
  EXPECT_EQ(tries_for({{.status = 429}}), 3);
  EXPECT_EQ(tries_for({{.problem = "gone"}, {.problem = "gone"}, {.status = 200}}), 3);
  EXPECT_EQ(tries_for({{.problem = "stopped"}}), 1);
}

}  // namespace
}  // namespace strobe::measure
