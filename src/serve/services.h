// What the dialects' handlers have at hand. Owned by Server.
#pragma once

#include <atomic>

#include "base/result.h"
#include "schedule/generator.h"
#include "serve/build_request.h"
#include "serve/fields.h"
#include "serve/job.h"
#include "serve/metrics.h"
#include "serve/router.h"
#include "serve/server_info.h"
#include "serve/text_service.h"

namespace strobe::serve {

struct RequestLimits {
  int prompts_max = 4096;  // in one body
  int choices_max = 8192;  // texts being made or waiting, of all requests
};

struct Services {
  const ServerInfo& info;
  const RequestLimits& limits;
  schedule::Generator& generator;
  const TextService& text;
  Metrics& metrics;
  LiveJobs& live;
  RandomBits& random;
  const std::atomic<bool>& ready;
  const std::atomic<bool>& draining;
  const RequestLog& request_log;

  [[nodiscard]] JobServices for_jobs() const {
    return {generator, metrics, live, draining, limits.choices_max, request_log};
  }
};

// The body as a JSON object, for the endpoints that take one.
Refusal read_body(const Request& request, nlohmann::json& body);
// `model`, when given, must be the served one.
Refusal check_model(const RequestFields& fields, const ServerInfo& info);
// Generation needs a model that is ready and a server that stays.
Refusal check_ready(const Services& services);
// The fields that concern a whole request and not its sampling: `speculative` and `timeout_ms`.
Refusal read_handling(const RequestFields& fields, schedule::GenerateRequest& out);
// `rid`: as many ids as there are; none when absent. More than one only when `several` is allowed.
Refusal read_rids(const RequestFields& fields, bool several, std::vector<std::string>& ids);

// POST /v1/completions, POST /v1/chat/completions, GET /v1/models.
void add_openai_routes(Router& router, const Services& services);
// POST /generate.
void add_generate_routes(Router& router, const Services& services);
// /server_info, /model_info and their kin, /flush_cache, /abort_request, /v1/loads, /tokenize, /detokenize.
void add_sglang_routes(Router& router, const Services& services);
// /health, /health_generate, /metrics, and the page at /.
void add_common_routes(Router& router, const Services& services);

}  // namespace strobe::serve
