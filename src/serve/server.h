// Server: the HTTP server with its endpoints over one generator.
//
//   Server server(options, info, generator, text);
//   server.start();      // binds; /health answers 503
//   server.warm_up();    // one token is generated, then /health answers 200
//   ...
//   server.stop(drain);  // new requests 503; running ones have `drain` to end, then they are aborted
//
// The generator and the text service must outlive the server. After stop() the server calls neither; a generator may
// still call the sinks of aborted requests, which then do nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/trace.h"
#include "schedule/generator.h"
#include "serve/http_server.h"
#include "serve/server_info.h"
#include "serve/services.h"
#include "serve/text_service.h"

namespace strobe::serve {

struct ServerOptions {
  HttpOptions http;
  RequestLimits limits;
  // Not empty: requests need "Authorization: Bearer KEY". /health, /health_generate, /metrics and the page at / do not.
  std::string api_key;
  // Web pages from these origins may use the server ("https://example.com"; "*": any). Empty: none.
  std::vector<std::string> cors_origins;
  // Records profiles for /start_profile, written below profile_dir (empty: refused). May be null: no such endpoints.
  TraceRecorder* trace = nullptr;
  std::string profile_dir;
  // Told of each text that has ended (job.h). May be empty.
  RequestLog request_log;
};

class Server {
 public:
  Server(ServerOptions options, ServerInfo info, schedule::Generator& generator, const TextService& text);
  // As stop(0).
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Binds and serves; returns the port. Failure when the address cannot be had.
  uint16_t start();
  // Generates one token and then becomes ready; logs when that fails. Returns at once. `done` is told, on the
  // generator's thread: the problem, or nothing.
  void warm_up(std::function<void(const std::string& problem)> done = {});
  // For programs that know already that the engine works.
  void set_ready();
  [[nodiscard]] bool ready() const;
  // Any number of calls.
  void stop(std::chrono::milliseconds drain);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strobe::serve
