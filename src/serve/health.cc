#include "serve/health.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>

#include "serve/assets.h"
#include "serve/services.h"

namespace strobe::serve {
namespace {

constexpr auto kProbeTimeout = std::chrono::seconds(20);  // as SGLang has it

void handle_health(const Services& services, Exchange& exchange) {
  if (const Refusal refusal = check_ready(services)) return exchange.send(to_response(*refusal));
  exchange.send({.content_type = "text/plain", .body = ""});
}

// Answers when the token comes, when it does not, or after the timeout; a busy engine that made other tokens meanwhile
// is well.
void handle_health_generate(const Services& services, const std::shared_ptr<Exchange>& exchange) {
  if (services.draining) return handle_health(services, *exchange);
  const int64_t tokens_before = services.generator.stats().generated_tokens_total;
  const std::string id =
      start_probe(services.generator, services.random.id("health-"), [exchange](std::string problem) {
        if (problem.empty()) return exchange->send({.content_type = "text/plain", .body = ""});
        exchange->send(to_response({.status = 503, .message = std::move(problem)}));
      });
  if (id.empty()) return;
  exchange->on_gone([&services, id] { services.generator.abort(id); });
  exchange->run_later(kProbeTimeout, [&services, id, tokens_before, weak = std::weak_ptr<Exchange>(exchange)] {
    const std::shared_ptr<Exchange> waiting = weak.lock();
    if (waiting == nullptr) return;
    services.generator.abort(id);
    if (services.generator.stats().generated_tokens_total > tokens_before) {
      return waiting->send({.content_type = "text/plain", .body = ""});
    }
    waiting->send(to_response({.status = 503, .message = "no token was generated in time"}));
  });
}

}  // namespace

std::string start_probe(schedule::Generator& generator, std::string id, std::function<void(std::string)> done) {
  schedule::GenerateRequest request;
  request.id = std::move(id);
  request.prompt_ids = {0};
  request.sampling.temperature = 0;
  request.stop.max_new_tokens = 1;
  request.stop.ignore_eos = true;
  const auto once = std::make_shared<std::function<void(std::string)>>(std::move(done));
  const auto submitted = generator.submit(std::move(request), [once](const schedule::Chunk& chunk) {
    if (!*once || (chunk.usage.completion_tokens == 0 && !chunk.finish)) return;
    const auto call = std::exchange(*once, nullptr);
    if (chunk.usage.completion_tokens > 0) return call("");
    call(fmt::format("no token was generated: {}", chunk.finish->message));
  });
  if (submitted) return *submitted;
  if (*once) std::exchange(*once, nullptr)(submitted.message());
  return "";
}

void add_common_routes(Router& router, const Services& services) {
  router.add(
      "GET", "/health", [&services](const std::shared_ptr<Exchange>& exchange) { handle_health(services, *exchange); },
      Handling::kShort);
  router.add(
      "GET", "/health_generate",
      [&services](const std::shared_ptr<Exchange>& exchange) { handle_health_generate(services, exchange); },
      Handling::kShort);
  router.add(
      "GET", "/metrics",
      [&services](const std::shared_ptr<Exchange>& exchange) {
        exchange->send({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                        .body = services.metrics.text(services.info.model_name, services.generator.stats())});
      },
      Handling::kShort);
  for (const Asset& asset : assets()) {
    router.add(
        "GET", std::string(asset.path),
        [&asset](const std::shared_ptr<Exchange>& exchange) {
          exchange->send(answer_with(asset, exchange->request()));
        },
        Handling::kShort);
  }
}

}  // namespace strobe::serve
