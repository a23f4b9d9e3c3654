// A web server whose answers a test writes.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "measure/http_client.h"
#include "serve/http_server.h"

namespace strobe::measure {

class FakeServer {
 public:
  explicit FakeServer(std::function<void(serve::Exchange&)> handler)
      : server_({.port = 0, .idle_timeout = std::chrono::milliseconds(60'000)}, {},
                [this, handler = std::move(handler)](const std::shared_ptr<serve::Exchange>& exchange) {
                  {
                    const std::lock_guard lock(mutex_);
                    requests_.push_back(exchange->request());
                  }
                  handler(*exchange);
                }) {
    endpoint_ = {.host = "127.0.0.1", .port = server_.start()};
  }

  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }
  [[nodiscard]] std::vector<serve::Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<serve::Request> requests_;
  Endpoint endpoint_;
  serve::HttpServer server_;
};

}  // namespace strobe::measure
