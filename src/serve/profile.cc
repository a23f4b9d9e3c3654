#include "serve/profile.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"
#include "serve/api_error.h"
#include "serve/services.h"

namespace strobe::serve {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kLongestRun = 100;

// Letters, digits, '.', '-' and '_', and no dot at the beginning: one name, no path.
bool is_plain_name(const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_';
  };
  return !name.empty() && name.size() <= kLongestRun && name[0] != '.' && std::ranges::all_of(name, plain);
}

// The folder a client named, made when it is missing; it must be `root` or lie below it, links resolved.
Result<std::string> folder_below(const std::string& root, const std::string& named) {
  std::error_code problem;
  fs::path base = fs::weakly_canonical(root, problem);
  if (!base.has_filename()) base = base.parent_path();  // "folder/"
  const fs::path wanted = named.empty() ? base : fs::weakly_canonical(fs::path(root) / named, problem);
  const auto [end, ignored] = std::mismatch(base.begin(), base.end(), wanted.begin(), wanted.end());
  if (problem || end != base.end()) {
    return error("output_dir is '{}'; accepted: the server's --profile-dir ('{}') or a folder below it", named, root);
  }
  fs::create_directories(wanted, problem);
  if (problem) return error("output_dir '{}' cannot be made: {}", wanted.string(), problem.message());
  return wanted.string();
}

Result<TraceRequest> read_request(const json& body, const std::string& root) {
  STROBE_ASSIGN(const JsonFields fields, JsonFields::of(body, "request body"));
  STROBE_ASSIGN(const std::string named, fields.get_or<std::string>("output_dir", ""));
  TraceRequest request;
  STROBE_ASSIGN(request.run,
                fields.get_or<std::string>("profile_prefix",
                                           fmt::format("strobe-{:%Y%m%d-%H%M%S}", fmt::gmtime(std::time(nullptr)))));
  if (!is_plain_name(request.run)) {
    return fields.refuse("profile_prefix", "1 to 100 letters, digits, '-', '_' and '.', the first no '.'");
  }
  STROBE_ASSIGN(request.steps, fields.get_or<int64_t>("num_steps", 0, {.min = 1, .max = 1'000'000'000}));
  STROBE_ASSIGN(request.folder, folder_below(root, named));
  return request;
}

void refuse(Exchange& exchange, const std::string& why) {
  exchange.send(to_response({.message = why}));
}

void handle_start(TraceRecorder& recorder, const std::string& root, Exchange& exchange) {
  json body = json::object();
  if (!exchange.request().body.empty()) {
    if (const Refusal refusal = read_body(exchange.request(), body)) return exchange.send(to_response(*refusal));
  }
  auto request = read_request(body, root);
  if (!request) return refuse(exchange, request.message());
  if (const auto started = recorder.start(*request); !started) return refuse(exchange, started.message());
  exchange.send({.content_type = "text/plain", .body = "Start profiling.\n"});
}

void handle_stop(TraceRecorder& recorder, Exchange& exchange) {
  const auto files = recorder.stop();
  if (!files) return refuse(exchange, files.message());
  const json answer = {{"files", files->paths}, {"summary", files->summary}};
  exchange.send({.body = answer.dump(-1, ' ', false, json::error_handler_t::replace)});
}

}  // namespace

void add_profile_routes(Router& router, TraceRecorder& recorder, const std::string& folder) {
  const auto guarded = [folder](auto handle) {
    return [folder, handle](const std::shared_ptr<Exchange>& exchange) {
      if (folder.empty()) return refuse(*exchange, "profiles are off: start the server with --profile-dir");
      handle(*exchange);
    };
  };
  router.add("POST", "/start_profile",
             guarded([&recorder, folder](Exchange& exchange) { handle_start(recorder, folder, exchange); }));
  router.add("POST", "/stop_profile", guarded([&recorder](Exchange& exchange) { handle_stop(recorder, exchange); }));
}

}  // namespace strobe::serve
