// A blocking HTTP/1.1 client for the measuring tools: one connection a request, time limits, and event streams.
//
// A request that cannot be answered is no exception: the reply says what went wrong, and whether asking again may help.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace strobe::measure {

struct Endpoint {
  std::string host;
  uint16_t port = 80;
  std::string prefix;   // path before every request's, without a last '/'
  std::string api_key;  // sent as a bearer token when there is one

  [[nodiscard]] std::string url() const;
};

// "http://host[:port][/prefix]". Refused: https, and whatever is no address.
Result<Endpoint> parse_base_url(std::string_view flag, std::string_view url);

struct HttpReply {
  int status = 0;       // 0: no answer came
  std::string body;     // of a stream that was answered with 200: empty
  std::string problem;  // why there is no (whole) answer; empty when there is one

  [[nodiscard]] bool ok() const { return problem.empty() && status == 200; }
  // No connection, a time limit, 408, 429 or 5xx: the same request may succeed later.
  [[nodiscard]] bool worth_retrying() const;
  // For messages: "answered 503: {...}", or the problem. Long bodies are cut.
  [[nodiscard]] std::string describe() const;
};

// The problem of what was not measured because the client was stopped: the user ended the run.
inline constexpr std::string_view kStoppedEarly = "stopped before the end";

struct HttpLimits {
  std::chrono::milliseconds connect{10'000};
  std::chrono::milliseconds silence{600'000};  // the longest time in which nothing comes
};

class HttpClient {
 public:
  // `stop`, when given, ends requests soon after it becomes true; it must outlive the client.
  explicit HttpClient(Endpoint endpoint, HttpLimits limits = {}, const std::atomic<bool>* stop = nullptr);

  [[nodiscard]] HttpReply get(std::string_view path) const;
  // `body` is JSON; an empty one is sent without a content type.
  [[nodiscard]] HttpReply post(std::string_view path, const std::string& body) const;
  // For answers that are event streams: the data of each event, as it comes ("[DONE]" included).
  [[nodiscard]] HttpReply post_stream(std::string_view path, const std::string& body,
                                      const std::function<void(std::string_view data)>& on_event) const;

  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }
  [[nodiscard]] bool stopped() const { return stop_ != nullptr && *stop_; }

 private:
  Endpoint endpoint_;
  HttpLimits limits_;
  const std::atomic<bool>* stop_;
};

struct RetryPolicy {
  int tries = 6;
  std::chrono::milliseconds first_pause{1000};  // doubles after each try
};

// Asks until the reply is one that is not worth retrying, the tries are used up, or stopped() is true. `tries` counts
// what was asked.
HttpReply with_retries(const RetryPolicy& policy, const std::function<bool()>& stopped,
                       const std::function<HttpReply()>& ask, int& tries);

}  // namespace strobe::measure
