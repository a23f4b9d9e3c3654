// A server of our own to measure: `strobe serve` as a child process, from ready to stopped.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "measure/http_client.h"

namespace strobe::measure {

struct ChildServerOptions {
  std::string program;                 // the strobe binary
  std::vector<std::string> arguments;  // of `serve`; --host and --port are added
  std::string log_path;                // where its output goes
  std::chrono::milliseconds ready_limit{1'200'000};
};

class ChildServer {
 public:
  // Starts it on a free port and waits until it answers ready. Errors hold the end of its log. `stop` may be null.
  static Result<std::unique_ptr<ChildServer>> start(const ChildServerOptions& options, const std::atomic<bool>* stop);
  // Ends it: asked first, then by force.
  ~ChildServer();
  ChildServer(const ChildServer&) = delete;
  ChildServer& operator=(const ChildServer&) = delete;

  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }

 private:
  ChildServer() = default;
  Result<void> wait_until_ready(const ChildServerOptions& options, const std::atomic<bool>* stop);
  [[nodiscard]] bool running();

  pid_t process_ = -1;
  int output_ = -1;  // what it prints; its log goes to log_path
  int end_status_ = 0;
  Endpoint endpoint_;
};

// The port in "... on http://HOST:PORT\n" of what a server prints; nullopt until that line is whole.
std::optional<uint16_t> port_in(std::string_view printed);

// The last lines of a file, for messages; empty when it cannot be read.
std::string last_lines(const std::string& path, size_t lines);

}  // namespace strobe::measure
