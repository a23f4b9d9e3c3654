// HTTP as the handlers see it: a Request, an Exchange to answer it through, no sockets. http_server.h has the one
// implementation that talks to a network; tests have another.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace strobe::serve {

struct Header {
  std::string name;
  std::string value;
};

struct Request {
  std::string method;  // as sent: "GET"
  std::string path;    // before the '?', as sent (percent signs kept)
  std::string query;   // after it
  std::vector<Header> headers;
  std::string body;

  // The first header of that name (case ignored); empty when there is none.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<Header> headers;  // besides Content-Type and Content-Length
  std::string body;
};

// One request and its answer: either send() once, or begin_stream(), write() any number of times, end().
//
// Threads: every method but backlog_bytes() may be called from any thread and returns at once. Calls take effect on one
// thread (the loop) in the order of the calls. Calls that come after the answer's end or after the client has gone do
// nothing. An Exchange that is dropped without an answer answers 500 by itself; one dropped in mid-stream cuts the
// connection, so that the client does not take what it has for the whole.
class Exchange {
 public:
  virtual ~Exchange() = default;
  [[nodiscard]] virtual const Request& request() const = 0;

  // Runs `task` on the loop. Tasks must be short and must not throw. After the server has stopped they are dropped.
  virtual void run(std::function<void()> task) = 0;
  virtual void run_later(std::chrono::milliseconds delay, std::function<void()> task) = 0;
  // `callback` runs on the loop, once, when the client goes away before the answer's end: it closed the connection, is
  // too slow to take the stream, or the server stops. At once when it has gone already.
  virtual void on_gone(std::function<void()> callback) = 0;

  virtual void send(Response response) = 0;
  virtual void begin_stream(Response head) = 0;  // head.body is not sent
  virtual void write(std::string piece) = 0;     // empty pieces are dropped
  virtual void end() = 0;
  // Bytes written but not yet taken by the network. On the loop only.
  [[nodiscard]] virtual size_t backlog_bytes() const = 0;
};

using Handler = std::function<void(std::shared_ptr<Exchange>)>;

[[nodiscard]] std::string_view status_text(int status);
// "%2F" to "/"; what is no such escape stays as it is.
[[nodiscard]] std::string percent_decode(std::string_view text);
[[nodiscard]] bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace strobe::serve
