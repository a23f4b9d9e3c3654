// The SGLang dialect besides /generate: what the server is, how busy it is, the cache, aborts, the tokenizer.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_fields.h"
#include "serve/json_writer.h"
#include "serve/services.h"

namespace strobe::serve {
namespace {

using nlohmann::json;

// Accept counts since the last flush of the cache: benchmarks flush before each case and read the mean after it.
class AcceptSinceFlush {
 public:
  void reset(const schedule::GeneratorStats& now) {
    const std::lock_guard lock(mutex_);
    verify_steps_ = now.verify_steps_total;
    accepted_tokens_ = now.accepted_tokens_total;
  }
  // nullopt when there was no verify step.
  [[nodiscard]] std::optional<double> length(const schedule::GeneratorStats& now) const {
    const std::lock_guard lock(mutex_);
    const int64_t steps = now.verify_steps_total - verify_steps_;
    if (steps <= 0) return std::nullopt;
    return schedule::accept_length(now.accepted_tokens_total - accepted_tokens_, steps);
  }

 private:
  mutable std::mutex mutex_;
  int64_t verify_steps_ = 0;
  int64_t accepted_tokens_ = 0;
};

// Values that came from files or flags may hold any bytes.
std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

void handle_server_info(const Services& services, const AcceptSinceFlush& accepts, Exchange& exchange) {
  const schedule::GeneratorStats stats = services.generator.stats();
  json info = services.info.server_args;
  info["model_path"] = services.info.model_path;
  info["served_model_name"] = services.info.model_name;
  info["tokenizer_path"] = services.info.tokenizer_path;
  info["version"] = services.info.version;
  info["status"] = services.draining ? "stopping" : services.ready ? "ready" : "starting";
  info["vocab_size"] = services.info.vocab_tokens;
  info["max_total_num_tokens"] = stats.total_slots;
  info["max_req_input_len"] = stats.max_context_tokens - 1;
  json state;
  state["last_gen_throughput"] = stats.recent_tokens_per_second;
  state["memory_usage"] = services.info.memory_usage;
  state["memory_usage"]["token_capacity"] = stats.total_slots;
  state["effective_max_running_requests_per_dp"] = stats.max_running_requests;
  if (const auto length = accepts.length(stats)) state["avg_spec_accept_length"] = *length;
  info["internal_states"] = json::array({std::move(state)});
  exchange.send({.body = dump(info)});
}

void handle_model_info(const Services& services, Exchange& exchange) {
  exchange.send({.body = dump({{"model_path", services.info.model_path},
                               {"tokenizer_path", services.info.tokenizer_path},
                               {"is_generation", true},
                               {"preferred_sampling_params", nullptr},
                               {"weight_version", "default"},
                               {"has_image_understanding", false},
                               {"has_audio_understanding", false},
                               {"model_type", services.info.model_type},
                               {"architectures", services.info.architectures}})});
}

void handle_loads(const Services& services, Exchange& exchange) {
  const schedule::GeneratorStats stats = services.generator.stats();
  JsonWriter out;
  out.begin_object().field("timestamp", fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", fmt::gmtime(std::time(nullptr))));
  out.field("version", services.info.version).key("loads").begin_array().begin_object();
  out.field("dp_rank", 0);
  out.field("num_running_reqs", stats.running_requests).field("num_waiting_reqs", stats.queued_requests);
  out.field("num_total_reqs", stats.running_requests + stats.queued_requests);
  out.field("num_used_tokens", stats.used_slots).field("max_total_num_tokens", stats.total_slots);
  out.field("token_usage", stats.slot_usage());
  out.field("gen_throughput", stats.recent_tokens_per_second);
  out.field("utilization", stats.utilization());
  out.field("max_running_requests", stats.max_running_requests);
  out.key("speculative").begin_object().field("accept_length", stats.accept_length());
  out.field("accept_rate", stats.accept_rate());
  out.field("draft_block_tokens", stats.draft_block_tokens);
  out.field("verify_steps_total", stats.verify_steps_total);
  out.field("held_back_steps_total", stats.held_back_steps_total);
  out.field("accepted_tokens_total", stats.accepted_tokens_total);
  out.key("accept_histogram_total").begin_array();
  for (int32_t i = 0; i < std::min(stats.draft_block_tokens, schedule::kMaxBlockTokens); ++i) {
    out.integer(stats.accept_histogram[static_cast<size_t>(i)]);
  }
  out.end_array().end_object();
  out.field("generated_tokens_total", stats.generated_tokens_total);
  out.field("requests_total", stats.requests_total).field("aborted_total", stats.aborted_total);
  out.end_object().end_array().end_object();
  exchange.send({.body = out.take()});
}

void handle_get_load(const Services& services, Exchange& exchange) {
  const schedule::GeneratorStats stats = services.generator.stats();
  JsonWriter out;
  out.begin_array().begin_object().field("dp_rank", 0);
  out.field("num_reqs", stats.running_requests + stats.queued_requests);
  out.field("num_waiting_reqs", stats.queued_requests).field("num_tokens", stats.used_slots);
  exchange.send({.body = out.end_object().end_array().take()});
}

void handle_flush(const Services& services, AcceptSinceFlush& accepts, Exchange& exchange) {
  if (const auto flushed = services.generator.flush_cache(); !flushed) {
    return exchange.send(to_response({.message = flushed.message()}));
  }
  accepts.reset(services.generator.stats());
  exchange.send({.content_type = "text/plain", .body = "Cache flushed.\n"});
}

void handle_abort(const Services& services, Exchange& exchange) {
  json body;
  RequestFields fields;
  std::vector<std::string> ids;
  Refusal refusal = read_body(exchange.request(), body);
  if (!refusal) refusal = read_fields(body, kAbortRequest, "request body", "", fields);
  if (!refusal) refusal = read_rids(fields, false, ids);
  const bool all = fields.abort_all.value_or(false);
  if (!refusal && ids.empty() && !all) {
    refusal = ApiError{.message = "request body: rid is missing; accepted: a request's id, or \"abort_all\": true",
                       .param = "rid"};
  }
  if (refusal) return exchange.send(to_response(*refusal));
  int aborted = 0;
  if (all) {
    for (const auto& job : services.live.all()) {
      for (size_t i = 0; i < job->ids(); ++i) job->abort_by_user(i);
      ++aborted;
    }
  } else {
    aborted = services.live.abort(ids[0]);
  }
  exchange.send({.body = JsonWriter().begin_object().field("aborted", aborted).end_object().take()});
}

Refusal prepare(const Services& services, const Request& request, Dialect dialect, json& body, RequestFields& fields) {
  if (auto refusal = read_body(request, body)) return refusal;
  if (auto refusal = read_fields(body, dialect, "request body", "", fields)) return refusal;
  return check_model(fields, services.info);
}

Refusal tokenize(const Services& services, const Request& request, JsonWriter& out) {
  json body;
  RequestFields fields;
  if (auto refusal = prepare(services, request, kTokenize, body, fields)) return refusal;
  const json& prompt = fields.prompt == nullptr ? body["prompt"] : *fields.prompt;
  const bool single = prompt.is_string();
  if (!single && !prompt.is_array()) return refuse_field("prompt", prompt, "a string or an array of strings");
  std::vector<std::vector<int32_t>> lists;
  for (const json& text : single ? json::array({prompt}) : prompt) {
    if (!text.is_string()) return refuse_field("prompt", text, "a string or an array of strings");
    auto ids = services.text.encode(text.get_ref<const std::string&>());
    if (!ids) return ApiError{.message = "request body: prompt: " + ids.message(), .param = "prompt"};
    lists.push_back(*std::move(ids));
  }
  out.begin_object().key("tokens");
  if (!single) out.begin_array();
  for (const auto& list : lists) out.integers(list);
  if (!single) out.end_array();
  out.key("count");
  if (!single) out.begin_array();
  for (const auto& list : lists) out.integer(static_cast<int64_t>(list.size()));
  if (!single) out.end_array();
  out.field("max_model_len", services.generator.stats().max_context_tokens).end_object();
  return std::nullopt;
}

Refusal detokenize(const Services& services, const Request& request, JsonWriter& out) {
  json body;
  RequestFields fields;
  if (auto refusal = prepare(services, request, kDetokenize, body, fields)) return refusal;
  const json& tokens = fields.tokens == nullptr ? body["tokens"] : *fields.tokens;
  const bool several = tokens.is_array() && !tokens.empty() && tokens[0].is_array();
  const bool skip_special = fields.skip_special_tokens.value_or(true);
  out.begin_object().key("text");
  if (several) out.begin_array();
  for (const json& list : several ? tokens : json::array({tokens})) {
    std::vector<int32_t> ids;
    if (auto refusal = read_ids(list, "tokens", services.info.vocab_tokens, ids)) return refusal;
    out.string(services.text.decode(ids, skip_special));
  }
  if (several) out.end_array();
  out.end_object();
  return std::nullopt;
}

using MakeText = Refusal (*)(const Services&, const Request&, JsonWriter&);

Handler text_handler(const Services& services, MakeText make) {
  return [&services, make](const std::shared_ptr<Exchange>& exchange) {
    JsonWriter out;
    if (auto refusal = make(services, exchange->request(), out)) return exchange->send(to_response(*refusal));
    exchange->send({.body = out.take()});
  };
}

}  // namespace

void add_sglang_routes(Router& router, const Services& services) {
  const auto accepts = std::make_shared<AcceptSinceFlush>();
  for (const auto* path : {"/server_info", "/get_server_info"}) {
    router.add(
        "GET", path,
        [&services, accepts](const std::shared_ptr<Exchange>& exchange) {
          handle_server_info(services, *accepts, *exchange);
        },
        Handling::kShort);
  }
  for (const auto* path : {"/model_info", "/get_model_info"}) {
    router.add(
        "GET", path, [&services](const std::shared_ptr<Exchange>& exchange) { handle_model_info(services, *exchange); },
        Handling::kShort);
  }
  router.add(
      "GET", "/v1/loads", [&services](const std::shared_ptr<Exchange>& exchange) { handle_loads(services, *exchange); },
      Handling::kShort);
  router.add(
      "GET", "/get_load",
      [&services](const std::shared_ptr<Exchange>& exchange) { handle_get_load(services, *exchange); },
      Handling::kShort);
  for (const auto* method : {"GET", "POST"}) {
    router.add(method, "/flush_cache", [&services, accepts](const std::shared_ptr<Exchange>& exchange) {
      handle_flush(services, *accepts, *exchange);
    });
  }
  router.add(
      "POST", "/abort_request",
      [&services](const std::shared_ptr<Exchange>& exchange) { handle_abort(services, *exchange); }, Handling::kShort);
  for (const auto* path : {"/tokenize", "/v1/tokenize"}) router.add("POST", path, text_handler(services, tokenize));
  for (const auto* path : {"/detokenize", "/v1/detokenize"}) {
    router.add("POST", path, text_handler(services, detokenize));
  }
}

}  // namespace strobe::serve
