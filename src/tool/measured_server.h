// The server that eval and bench measure: one that runs already (--base-url), or one of our own with the flags given.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "measure/child_server.h"
#include "measure/http_client.h"
#include "tool/options.h"

namespace strobe::tool {

// Exit codes of the measuring commands.
constexpr int kPassed = 0;
constexpr int kBelowThreshold = 1;
constexpr int kUsageError = 2;
constexpr int kNotMeasured = 3;

struct MeasuredServerOptions {
  std::string base_url;
  std::string api_key;
  double timeout_seconds = 600;
  EngineOptions engine;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("--base-url", base_url, "the server to measure; default: one is started with the model's flags, and ended after");
    v("--api-key", api_key, "sent as a bearer token, for --base-url");
    v("--timeout", timeout_seconds, "seconds of silence after which a request counts as failed");
    engine.visit(v);
  }
};

// The flags of `strobe serve` that are not at their defaults, as its command line has them.
[[nodiscard]] std::vector<std::string> to_arguments(const EngineOptions& options);

// Errors name the flag; nothing is started.
Result<void> check(const MeasuredServerOptions& options);

class MeasuredServer {
 public:
  // The options must have passed check(). A server of our own logs to log_path and may write profiles to profile_dir.
  // Errors say why it is not ready.
  static Result<MeasuredServer> open(const MeasuredServerOptions& options, const std::string& log_path,
                                     const std::atomic<bool>& stop, const std::string& profile_dir = "");

  [[nodiscard]] const measure::HttpClient& client() const { return *client_; }

 private:
  std::unique_ptr<measure::ChildServer> child_;
  std::unique_ptr<measure::HttpClient> client_;
};

}  // namespace strobe::tool
