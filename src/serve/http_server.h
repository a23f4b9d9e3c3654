// HttpServer: HTTP/1.1 over TCP for the handlers of http.h. http_loop.h: the thread that reads and writes;
// http_reply.h: an answer on its way; http_connection.h: a client. Boost stays inside these.
//
// One thread (the loop) does all reading and writing; a few more run handlers, so that a long prompt being tokenised
// does not hold up the streams of others; and one runs only the short ones, so that a probe does not wait for prompts.
// What a client may cost is bounded:
//   headers     header_bytes_max, header_timeout from their first byte (431, 408)
//   body        body_bytes_max (413), body_timeout plus its length at 16 KiB a second (408), and all bodies together
//               buffered_bytes_max (503)
//   idle        idle_timeout between requests
//   answers     each write must get something through within write_timeout; a stream whose client lags
//               stream_backlog_bytes_max behind is cut
//   number      connections_max (503)
// A client that closes its side of the connection while its request runs counts as gone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http.h"

namespace strobe::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address, or "localhost"
  uint16_t port = 30000;           // 0: any free one
  size_t header_bytes_max = 64 << 10;
  size_t body_bytes_max = 32 << 20;
  size_t buffered_bytes_max = size_t{512} << 20;
  size_t stream_backlog_bytes_max = 8 << 20;
  int connections_max = 4096;
  int handler_threads = 2;
  std::chrono::milliseconds header_timeout{20'000};
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds idle_timeout{75'000};
  std::chrono::milliseconds write_timeout{30'000};
};

// What the program does besides answering; each may be empty.
struct HttpHooks {
  // More headers for an answer (CORS). Any thread.
  std::function<std::vector<Header>(const Request&)> extra_headers;
  // Whether the request's handler is short: it then never waits for others that are not. On the loop.
  std::function<bool(const Request&)> is_short;
  // After each answer's head has been made. On the loop.
  std::function<void(const Request&, int status)> on_answer;
};

// Failure when the address cannot be had now: it is worth knowing before a model is loaded.
void check_address(const std::string& host, uint16_t port);

class HttpServer {
 public:
  HttpServer(HttpOptions options, HttpHooks hooks, Handler handler);
  // As stop(0).
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Binds and listens; the port that was bound. Failure when the address cannot be had.
  uint16_t start();
  // No more connections; those without a request are closed, the others have `drain` to finish, then their clients
  // count as gone. Returns when nothing runs. Any number of calls.
  void stop(std::chrono::milliseconds drain);
  // Connections whose request is being answered.
  [[nodiscard]] int busy_connections() const;
  [[nodiscard]] int open_connections() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strobe::serve
