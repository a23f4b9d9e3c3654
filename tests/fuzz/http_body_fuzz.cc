// Request bodies through every endpoint that takes one, down to what the generator would get.
//
// Input: one byte for the endpoint, then the body. The answer must come, once, be JSON (or events of JSON), and never
// blame the server for the client's fault (500).
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "serve/fake_text.h"
#include "serve/services.h"

namespace strobe::serve {
namespace {

constexpr std::array kPaths = {"/v1/completions", "/v1/chat/completions", "/generate",
                               "/tokenize",       "/detokenize",          "/abort_request"};

[[noreturn]] void complain(std::string_view what, std::string_view text) {
  fmt::print(stderr, "http_body_fuzz: {}: {}\n", what, text);
  std::abort();
}

// Answers within submit(); checks that the request keeps the contract of generator.h.
class InlineGenerator final : public schedule::Generator {
 public:
  Result<std::string> submit(schedule::GenerateRequest request, schedule::ChunkSink sink) override {
    const auto prompt = static_cast<int64_t>(request.prompt_ids.size());
    if (prompt < 1 || request.stop.max_new_tokens < 1 || prompt + request.stop.max_new_tokens > kContext ||
        request.stop.min_new_tokens > request.stop.max_new_tokens) {
      complain("lengths", fmt::format("{} and {}", prompt, request.stop.max_new_tokens));
    }
    for (const int32_t id : request.prompt_ids) {
      if (id < 0 || id >= 2048) complain("a prompt token", fmt::format("{}", id));
    }
    const engine::SamplingParams& sampling = request.sampling;
    if (!(sampling.temperature >= 0) || !(sampling.top_p > 0 && sampling.top_p <= 1) || sampling.top_k < 0 ||
        !(sampling.min_p >= 0 && sampling.min_p < 1) ||
        !(sampling.repetition_penalty > 0 && sampling.repetition_penalty <= 2)) {
      complain("sampling", fmt::format("{} {} {} {}", sampling.temperature, sampling.top_p, sampling.min_p,
                                       sampling.repetition_penalty));
    }
    schedule::Chunk chunk;
    chunk.usage.prompt_tokens = static_cast<int32_t>(prompt);
    chunk.usage.completion_tokens = 1;
    chunk.token_ids = {7};
    if (sampling.logprobs) {
      if (*sampling.logprobs < 0 || *sampling.logprobs > 128)
        complain("logprobs", fmt::format("{}", *sampling.logprobs));
      chunk.logprobs = {{.logprob = -1, .top = {{7, -1.0F}, {8, -2.0F}}}};
    }
    chunk.text = "x\xFF";
    sink(chunk);
    chunk.usage.completion_tokens = 2;
    chunk.finish = schedule::Finish{.reason = schedule::FinishReason::kLength};
    sink(std::move(chunk));
    return request.id;
  }
  void abort(const std::string& /*id*/) override {}
  Result<void> flush_cache() override { return {}; }
  [[nodiscard]] schedule::GeneratorStats stats() const override {
    schedule::GeneratorStats stats;
    stats.max_context_tokens = kContext;
    return stats;
  }

 private:
  static constexpr int64_t kContext = 256;
};

class MemoryExchange final : public Exchange {
 public:
  explicit MemoryExchange(Request request) : request_(std::move(request)) {}
  int answers = 0;
  int status = 0;
  std::string body;
  bool streaming = false;

  [[nodiscard]] const Request& request() const override { return request_; }
  void run(std::function<void()> task) override { task(); }
  void run_later(std::chrono::milliseconds /*delay*/, std::function<void()> /*task*/) override {}
  void on_gone(std::function<void()> /*callback*/) override {}
  void send(Response response) override {
    ++answers;
    status = response.status;
    body = std::move(response.body);
  }
  void begin_stream(Response head) override {
    streaming = true;
    status = head.status;
  }
  void write(std::string piece) override { body += piece; }
  void end() override { ++answers; }
  [[nodiscard]] size_t backlog_bytes() const override { return 0; }

 private:
  const Request request_;
};

void check_json(std::string_view text) {
  if (!nlohmann::json::accept(text)) complain("not JSON", text);
}

void check_answer(const MemoryExchange& exchange) {
  if (exchange.answers != 1) complain("answers", fmt::format("{}", exchange.answers));
  if (exchange.status != 200 && (exchange.status < 400 || exchange.status == 500)) complain("status", exchange.body);
  if (!exchange.streaming) return check_json(exchange.body);
  std::string_view events = exchange.body;
  while (events != "data: [DONE]\n\n") {
    const size_t end = events.find("\n\n");
    if (!events.starts_with("data: ") || end == std::string_view::npos) complain("not an event", events);
    check_json(events.substr(6, end - 6));
    events.remove_prefix(end + 2);
  }
}

struct Bench {
  ServerInfo info = test_info();
  RequestLimits limits{.prompts_max = 64, .choices_max = 64};
  InlineGenerator generator;
  FakeText text;
  Metrics metrics;
  LiveJobs live;
  RandomBits random;
  std::atomic<bool> ready = true;
  std::atomic<bool> draining = false;
  RequestLog request_log;
  Services services{info, limits, generator, text, metrics, live, random, ready, draining, request_log};
  Router router;

  Bench() {
    add_openai_routes(router, services);
    add_generate_routes(router, services);
    add_sglang_routes(router, services);
  }
};

}  // namespace
}  // namespace strobe::serve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strobe::serve;
  if (size == 0) return 0;
  static Bench bench;
  Request request;
  request.method = "POST";
  request.path = kPaths[data[0] % kPaths.size()];
  request.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto exchange = std::make_shared<MemoryExchange>(std::move(request));
  bench.router.handle(exchange);
  check_answer(*exchange);
  if (bench.live.choices() != 0) complain("left behind", fmt::format("{} texts", bench.live.choices()));
  return 0;
}
