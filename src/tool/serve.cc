// strobe serve: the HTTP server.
#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/failure.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "serve/server.h"
#include "tool/assembly.h"
#include "tool/check_options.h"
#include "tool/commands.h"
#include "tool/self_test.h"
#include "tool/text_adapter.h"

namespace strobe::tool {
namespace {

struct ServeOptions {
  EngineOptions engine;
  std::string host = "127.0.0.1";
  int32_t port = 30000;
  std::string served_model_name;
  std::string api_key;
  std::string cors_origins;
  bool log_requests = false;
  int32_t drain_seconds = 30;
  std::string spec_self_test = "on";
  std::string profile_dir;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("--host", host, "address to listen on");
    v("--port", port, "0: any free one");
    v("--served-model-name", served_model_name, "the name that clients use; default: the model folder's");
    v("--api-key", api_key, "requests need it as a bearer token");
    v("--cors-origins", cors_origins,
      "web pages from these origins may use the server: https://a.example,https://b.example, or * for any; default: "
      "none");
    v("--log-requests", log_requests,
      "one line of JSON in the log for each text that ends: ids, counts, times, no text");
    v("--drain-seconds", drain_seconds, "how long running requests may go on after SIGTERM");
    v("--spec-self-test", spec_self_test,
      "on | off | strict: answer a few stored prompts at start and warn when the draft fits badly; strict: refuse to "
      "serve when it is broken");
    v("--profile-dir", profile_dir, "where /start_profile may write; default: profiles are refused");
    engine.visit(v);
  }
};

// Flags as JSON, for /server_info: --max-total-tokens is max_total_tokens there, as SGLang has it.
class FlagsToJson {
 public:
  template <class T>
  void operator()(const char* names, const T& field, const char* /*help*/) {
    std::string name = names;
    name = name.substr(2, name.find(',') == std::string::npos ? std::string::npos : name.find(',') - 2);
    for (char& c : name) c = c == '-' ? '_' : c;
    if (name != "api_key") flags_[name] = field;
  }
  [[nodiscard]] nlohmann::json take() { return std::move(flags_); }

 private:
  nlohmann::json flags_ = nlohmann::json::object();
};

std::string model_name(const ServeOptions& o) {
  if (!o.served_model_name.empty()) return o.served_model_name;
  std::filesystem::path folder = std::filesystem::absolute(o.engine.model_path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  // models/pocket-k2/target is "pocket-k2": a folder called `target` says nothing.
  return folder.filename() == "target" ? folder.parent_path().filename().string() : folder.filename().string();
}

serve::ServerInfo server_info(ServeOptions& o, System& system) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  serve::ServerInfo info;
  info.model_name = model_name(o);
  info.model_path = o.engine.model_path;
  info.tokenizer_path = o.engine.tokenizer_folder();
  info.model_type = system.config.wrapper_type.empty() ? system.config.model_type : system.config.wrapper_type;
  info.architectures = system.config.architectures;
  info.version = STROBE_VERSION;
  info.vocab_tokens = static_cast<int32_t>(system.config.vocab_size);
  info.created_unix_s =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  const auto& defaults = system.config.sampling;
  info.sampling_defaults = {defaults.temperature, defaults.top_p, defaults.top_k, defaults.min_p,
                            defaults.repetition_penalty};
  FlagsToJson flags;
  o.engine = system.options;
  o.visit(flags);
  info.server_args = flags.take();
  for (const Decision& decision : system.decisions) {
    info.server_args["decisions"][decision.what] = {{"value", decision.value}, {"reason", decision.reason}};
  }
  for (const engine::MemoryItem& item : system.memory.items) {
    info.server_args["memory_plan"].push_back({{"what", item.what}, {"bytes", item.bytes}, {"detail", item.detail}});
  }
  const int64_t kv = system.target_store->bytes() + (system.draft_store ? system.draft_store->bytes() : 0);
  info.memory_usage = {{"weight", static_cast<double>(system.arena->bytes()) / kGiB},
                       {"kvcache", static_cast<double>(kv) / kGiB},
                       {"token_capacity", system.options.max_total_tokens},
                       {"graph", 0}};
  return info;
}

void say_what_next(const ServeOptions& o, const std::string& name, uint16_t port) {
  const std::string host = o.host == "0.0.0.0" ? "127.0.0.1" : o.host;
  fmt::print(
      "\nStrobe serves {} on http://{}:{}\n"
      "  open that address, or ask it something:\n"
      "  curl http://{}:{}/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{{\"model\": \"{}\", \"messages\": [{{\"role\": \"user\", \"content\": \"Priya is 19 years old now. "
      "Erik is 9 years older than Priya. How old was Erik 3 years ago?\"}}]}}'\n"
      "  Ctrl-C ends it.\n\n",
      name, host, port, host, port, name);
  std::fflush(stdout);
}

// A draft that fits badly is a warning; one that is broken, with "strict", the end.
Result<void> self_test(const ServeOptions& o, System& system, const serve::TextService& text) {
  STROBE_ASSIGN(const SelfTestVerdict verdict, run_self_test(system, *system.scheduler, text));
  using enum SelfTestVerdict::Fit;
  if (verdict.fit == kGood) {
    log_info("self-test: {}", verdict.text);
  } else if (verdict.fit == kBroken && o.spec_self_test == "strict") {
    return error("--spec-self-test strict: {}", verdict.text);
  } else {
    log_warning("self-test: {}", verdict.text);
  }
  return {};
}

Result<int> serve_model(ServeOptions o) {
  if (o.port < 0 || o.port > 65535) return error("--port {}: accepted: 0 to 65535", o.port);
  if (o.spec_self_test != "on" && o.spec_self_test != "off" && o.spec_self_test != "strict") {
    return error("--spec-self-test {}: accepted: on, off, strict", o.spec_self_test);
  }
  if (o.drain_seconds < 0) return error("--drain-seconds {}: accepted: 0 and more", o.drain_seconds);
  STROBE_ASSIGN(auto origins, parse_origins(o.cors_origins));
  Stopwatch watch;
  default_to_pocket(o.engine);
  serve::check_address(o.host, static_cast<uint16_t>(o.port));
  STROBE_ASSIGN(auto system, assemble(o.engine));
  const auto text = make_text_service(*system->tokenizer, o.engine.tokenizer_folder());
  // From here on signals are taken by sigwait, in this thread alone: they are blocked before the threads that serve
  // start. Until here, and while running requests are being let go below, a signal ends the program at once.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  start_scheduler(*system);
  serve::ServerInfo info = server_info(o, *system);
  const std::string name = info.model_name;
  serve::ServerOptions server_options;
  server_options.http.host = o.host;
  server_options.http.port = static_cast<uint16_t>(o.port);
  server_options.api_key = o.api_key;
  server_options.cors_origins = std::move(origins);
  server_options.trace = &system->trace;
  server_options.profile_dir = o.profile_dir;
  if (o.log_requests) {
    server_options.request_log = [](std::string_view line) { log_info("request {}", line); };
  }
  serve::Server server(std::move(server_options), std::move(info), *system->scheduler, *text);
  const uint16_t port = server.start();
  if (system->speculates() && o.spec_self_test != "off") STROBE_TRY(self_test(o, *system, *text));
  enum class WarmUp { kRunning, kDone, kFailed };
  const auto state = std::make_shared<std::atomic<WarmUp>>(WarmUp::kRunning);
  server.warm_up([state](const std::string& problem) { *state = problem.empty() ? WarmUp::kDone : WarmUp::kFailed; });
  while (*state == WarmUp::kRunning) {  // a signal may come before the first token does
    const timespec moment{.tv_sec = 0, .tv_nsec = 2'000'000};
    if (sigtimedwait(&signals, nullptr, &moment) > 0) return 0;
  }
  if (*state == WarmUp::kFailed) fail("the model loads but cannot generate; the reason is logged above");
  log_info("ready after {:.0f} ms", watch.lap_ms());
  say_what_next(o, name, port);
  int signal = 0;
  sigwait(&signals, &signal);
  log_info("shutting down; running requests have {} s", o.drain_seconds);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  server.stop(std::chrono::seconds(o.drain_seconds));
  return 0;
}

}  // namespace

Subcommand serve_command() {
  auto options = std::make_shared<ServeOptions>();
  return {.name = "serve",
          .help = "serve a model over HTTP (OpenAI's and SGLang's dialects)",
          .add_options = [options](OptionAdder& add) { options->visit(add); },
          .run = [options] { return exit_code(serve_model(*options)); }};
}

}  // namespace strobe::tool
