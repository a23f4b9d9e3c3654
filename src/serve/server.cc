#include "serve/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "base/log.h"
#include "serve/assets.h"
#include "serve/health.h"
#include "serve/profile.h"

namespace strobe::serve {
namespace {

constexpr auto kAbortGrace = std::chrono::milliseconds(2000);  // for aborted requests to tell their clients

constexpr size_t kShortBodyBytes = 4096;  // a long body is a long matter, whatever the handler

// Compares in a time that does not tell how much of a guess is right.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned char different = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    different |= static_cast<unsigned char>(a[i] ^ (b.empty() ? '\0' : b[i % b.size()]));
  }
  return different == 0;
}

bool open_to_all(std::string_view path) {
  if (path == "/health" || path == "/health_generate" || path == "/metrics") return true;
  return std::ranges::any_of(assets(), [&](const Asset& asset) { return asset.path == path; });
}

Refusal check_key(const Request& request, std::string_view key) {
  if (key.empty() || open_to_all(request.path)) return std::nullopt;
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view given = request.header("Authorization");
  const bool bearer = equal_ignoring_case(given.substr(0, kScheme.size()), kScheme);
  if (bearer && same_secret(given.substr(kScheme.size()), key)) return std::nullopt;
  return ApiError{.status = 401,
                  .message = "the header Authorization must be 'Bearer ' and the server's API key",
                  .code = "invalid_api_key"};
}

// Bodies must say that they are JSON. Besides catching mistakes this keeps web pages of other sites out: a browser lets
// them send other types, or none, without asking the server first.
Refusal check_content_type(const Request& request) {
  if (request.body.empty() || (request.method != "POST" && request.method != "PUT")) return std::nullopt;
  const std::string_view given = request.header("Content-Type");
  if (given.empty() && request.header("Origin").empty()) return std::nullopt;
  std::string_view type = given.substr(0, given.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  if (equal_ignoring_case(type, "application/json")) return std::nullopt;
  return ApiError{.status = 415, .message = "the header Content-Type must be application/json"};
}

}  // namespace

class Server::Impl {
 public:
  Impl(ServerOptions options, ServerInfo info, schedule::Generator& generator, const TextService& text)
      : options_(std::move(options)),
        info_(std::move(info)),
        generator_(generator),
        services_{info_, options_.limits, generator, text,      metrics_,
                  live_, random_,         *ready_,   draining_, options_.request_log},
        http_(options_.http, make_hooks(),
              [this](std::shared_ptr<Exchange> exchange) { handle(std::move(exchange)); }) {
    add_common_routes(router_, services_);
    add_openai_routes(router_, services_);
    add_generate_routes(router_, services_);
    add_sglang_routes(router_, services_);
    if (options_.trace != nullptr) add_profile_routes(router_, *options_.trace, options_.profile_dir);
  }
  ~Impl() { stop(std::chrono::milliseconds(0)); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  uint16_t start() { return http_.start(); }
  void warm_up(std::function<void(const std::string&)> done);
  void set_ready() { *ready_ = true; }
  [[nodiscard]] bool ready() const { return *ready_; }
  void stop(std::chrono::milliseconds drain);

 private:
  HttpHooks make_hooks();
  void handle(std::shared_ptr<Exchange> exchange);
  // The origin to allow, empty for none.
  [[nodiscard]] std::string_view allowed_origin(const Request& request) const;
  bool wait_for_jobs(std::chrono::milliseconds limit) const;

  const ServerOptions options_;
  const ServerInfo info_;
  schedule::Generator& generator_;
  Metrics metrics_;
  LiveJobs live_;
  RandomBits random_;
  const std::shared_ptr<std::atomic<bool>> ready_ = std::make_shared<std::atomic<bool>>(false);  // the probe holds it
  std::atomic<bool> draining_ = false;
  const Services services_;
  Router router_;
  HttpServer http_;
};

HttpHooks Server::Impl::make_hooks() {
  HttpHooks hooks;
  hooks.extra_headers = [this](const Request& request) -> std::vector<Header> {
    const std::string_view origin = allowed_origin(request);
    if (origin.empty()) return {};
    return {{"Access-Control-Allow-Origin", std::string(origin)}, {"Vary", "Origin"}};
  };
  hooks.is_short = [this](const Request& request) {
    return request.body.size() <= kShortBodyBytes && router_.is_short(request.path);
  };
  hooks.on_answer = [this](const Request& request, int status) {
    metrics_.answered(router_.route_of(request.path), status);
    log_debug("{} {} {}", request.method, request.path, status);
  };
  return hooks;
}

std::string_view Server::Impl::allowed_origin(const Request& request) const {
  const std::string_view origin = request.header("Origin");
  if (origin.empty()) return {};
  for (const std::string& allowed : options_.cors_origins) {
    if (allowed == "*") return "*";
    if (allowed == origin) return allowed;
  }
  return {};
}

void Server::Impl::handle(std::shared_ptr<Exchange> exchange) {
  const Request& request = exchange->request();
  if (request.method == "OPTIONS" && !allowed_origin(request).empty()) {
    return exchange->send({.status = 204,
                           .headers = {{"Access-Control-Allow-Methods", "GET, POST, PUT, OPTIONS"},
                                       {"Access-Control-Allow-Headers", "Authorization, Content-Type"},
                                       {"Access-Control-Max-Age", "600"}}});
  }
  if (const Refusal refusal = check_key(request, options_.api_key)) return exchange->send(to_response(*refusal));
  if (const Refusal refusal = check_content_type(request)) return exchange->send(to_response(*refusal));
  router_.handle(std::move(exchange));
}

void Server::Impl::warm_up(std::function<void(const std::string&)> done) {
  start_probe(generator_, random_.id("warm-up-"), [ready = ready_, done = std::move(done)](const std::string& problem) {
    if (problem.empty()) {
      *ready = true;
      log_info("the model is ready");
    } else {
      log_error("the first token could not be generated: {}", problem);
    }
    if (done) done(problem);
  });
}

bool Server::Impl::wait_for_jobs(std::chrono::milliseconds limit) const {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (live_.choices() > 0) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void Server::Impl::stop(std::chrono::milliseconds drain) {
  draining_ = true;
  if (!wait_for_jobs(drain)) {
    for (const auto& job : live_.all()) job->abort_by_server();
    wait_for_jobs(kAbortGrace);
  }
  http_.stop(drain.count() > 0 ? kAbortGrace : std::chrono::milliseconds(0));
}

Server::Server(ServerOptions options, ServerInfo info, schedule::Generator& generator, const TextService& text)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(info), generator, text)) {}
Server::~Server() = default;
uint16_t Server::start() {
  return impl_->start();
}
void Server::warm_up(std::function<void(const std::string& problem)> done) {
  impl_->warm_up(std::move(done));
}
void Server::set_ready() {
  impl_->set_ready();
}
bool Server::ready() const {
  return impl_->ready();
}
void Server::stop(std::chrono::milliseconds drain) {
  impl_->stop(drain);
}

}  // namespace strobe::serve
