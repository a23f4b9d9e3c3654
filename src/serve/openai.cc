// The OpenAI dialect: from bodies of /v1/completions and /v1/chat/completions to jobs.
#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_fields.h"
#include "base/ordered_json.h"
#include "serve/json_writer.h"
#include "serve/openai_answer.h"
#include "serve/services.h"

namespace strobe::serve {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int64_t kCompletionTokensDefault = 16;  // OpenAI's
constexpr std::string_view kRoles = R"("system", "developer", "user", "assistant" or "tool")";

int64_t unix_seconds() {
  using std::chrono::duration_cast;
  using std::chrono::seconds;
  using std::chrono::system_clock;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

// A string, or parts of type text; which of the two forms a template reads is the text room's affair.
Refusal check_content(const ordered_json& content, const std::string& name) {
  if (content.is_string()) return std::nullopt;
  if (!content.is_array()) return refuse_field(name, content, "a string or an array of parts");
  for (size_t i = 0; i < content.size(); ++i) {
    const ordered_json& part = content[i];
    const std::string part_name = fmt::format("{}[{}]", name, i);
    if (!part.is_object()) return refuse_field(part_name, part, R"(an object with "type": "text")");
    const json type = part.value("type", ordered_json());
    if (type != "text") return refuse_field(part_name + ".type", type, R"("text")");
    const json text = part.value("text", ordered_json());
    if (!text.is_string()) return refuse_field(part_name + ".text", text, "a string");
  }
  return std::nullopt;
}

// Makes them messages as chat templates know them.
Refusal check_messages(ordered_json& messages) {
  if (!messages.is_array() || messages.empty()) {
    return refuse_field("messages", messages, "an array of at least one message");
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string name = fmt::format("messages[{}]", i);
    ordered_json& message = messages[i];
    if (!message.is_object()) return refuse_field(name, message, "an object with role and content");
    const json role = message.value("role", ordered_json());
    if (role == "developer") message["role"] = "system";
    if (role != "system" && role != "developer" && role != "user" && role != "assistant" && role != "tool") {
      return refuse_field(name + ".role", role, kRoles);
    }
    const ordered_json content = message.value("content", ordered_json());
    if (content.is_null() && role == "assistant") {  // one that only called tools has none
      message["content"] = message.contains("tool_calls") ? ordered_json() : ordered_json("");
    } else if (auto refusal = check_content(content, name + ".content")) {
      return refusal;
    }
  }
  return std::nullopt;
}

Refusal read_stream_options(const RequestFields& fields, OpenAiShape& shape) {
  if (fields.stream_options == nullptr) return std::nullopt;
  RequestFields options;
  if (auto refusal = read_fields(*fields.stream_options, kStreamOptions, "request body: stream_options",
                                 "stream_options", options)) {
    return refusal;
  }
  if (!shape.stream) {
    return ApiError{.message = "request body: stream_options is given without stream; accepted: with \"stream\": true",
                    .param = "stream_options"};
  }
  shape.include_usage = options.include_usage.value_or(false);
  shape.continuous_usage = options.continuous_usage_stats.value_or(false);
  return std::nullopt;
}

// The parts of a body that completions and chat have in common, once the prompts are known.
class OpenAiPlanner {
 public:
  OpenAiPlanner(const Services& services, const RequestFields& fields, bool chat)
      : services_(services), fields_(fields) {
    shape.chat = chat;
    shape.stream = fields.stream.value_or(false);
    shape.token_ids = fields.return_token_ids.value_or(false);
    shape.token_origins = fields.return_token_origins.value_or(false);
    shape.skip_special_tokens = fields.skip_special_tokens.value_or(true);
    shape.text = &services.text;
    shape.created_unix_s = unix_seconds();
    shape.model = services.info.model_name;
  }

  JobPlan plan;
  OpenAiShape shape;

  Refusal make(std::vector<Prompt> prompts, std::string_view prompt_name) {
    if (auto refusal = read_stream_options(fields_, shape)) return refusal;
    if (auto refusal = read_rids(fields_, false, plan.ids)) return refusal;
    if (plan.ids.empty()) plan.ids.push_back(services_.random.id(shape.chat ? "chatcmpl-" : "cmpl-"));
    shape.id = plan.ids[0];
    const schedule::GeneratorStats stats = services_.generator.stats();
    shape.draft_block_tokens = stats.draft_block_tokens;
    const int64_t n = fields_.n.value_or(1);
    if (n * static_cast<int64_t>(prompts.size()) > services_.limits.prompts_max) {
      return refuse_field("n", json(n), fmt::format("up to {} texts for all prompts", services_.limits.prompts_max));
    }
    schedule::GenerateRequest base;
    if (auto refusal = build_sampling(fields_, services_.info.sampling_defaults, services_.info.vocab_tokens, "",
                                      services_.random, base)) {
      return refusal;
    }
    if (auto refusal = read_handling(fields_, base)) return refusal;
    if (auto refusal = read_logprobs(base.sampling)) return refusal;
    LengthRule rule{.prompt_name = prompt_name,
                    .max_name = "max_tokens",
                    .min_name = "min_tokens",
                    .fallback = shape.chat ? std::numeric_limits<int32_t>::max() : kCompletionTokensDefault,
                    .context_tokens = stats.max_context_tokens};
    if (auto refusal = read_max_tokens(rule)) return refusal;
    for (size_t p = 0; p < prompts.size(); ++p) {
      schedule::GenerateRequest request = base;
      request.prompt_ids = std::move(prompts[p].ids);
      if (auto refusal = build_length(rule, fields_, request)) return refusal;
      for (int64_t i = 0; i < n; ++i) {
        request.sampling.seed = fields_.seed ? base.sampling.seed + static_cast<uint64_t>(i) : services_.random.next();
        plan.requests.push_back(request);
        plan.prompt_of.push_back(static_cast<int>(p));
      }
    }
    shape.prompt_of = plan.prompt_of;
    return std::nullopt;
  }

 private:
  Refusal read_max_tokens(LengthRule& rule) const {
    const auto& older = fields_.max_tokens;
    const auto& newer = fields_.max_completion_tokens;
    if (older && newer && *older != *newer) {
      return refuse_field("max_completion_tokens", json(*newer),
                          fmt::format("the same as max_tokens ({}), or one of the two alone", *older));
    }
    if (newer) rule.max_name = "max_completion_tokens";
    rule.asked = newer ? *newer : older.value_or(0);
    return std::nullopt;
  }

  Refusal read_logprobs(engine::SamplingParams& sampling) {
    if (!shape.chat) {
      if (!fields_.logprobs) return std::nullopt;
      if (fields_.echo.value_or(false)) {
        return refuse_field("logprobs", json(*fields_.logprobs),
                            "null with \"echo\": true, as log probabilities of the prompt are not served");
      }
      sampling.logprobs = static_cast<int32_t>(*fields_.logprobs);
    } else if (fields_.want_logprobs.value_or(false)) {
      sampling.logprobs = static_cast<int32_t>(fields_.top_logprobs.value_or(0));
    } else if (fields_.top_logprobs.value_or(0) > 0) {
      return refuse_field("top_logprobs", json(*fields_.top_logprobs), "0, or with \"logprobs\": true");
    }
    shape.logprobs = sampling.logprobs.has_value();
    return std::nullopt;
  }

  const Services& services_;
  const RequestFields& fields_;
};

Refusal prepare(const Services& services, const Request& request, Dialect dialect, json& body, RequestFields& fields) {
  if (auto refusal = check_ready(services)) return refusal;
  if (auto refusal = read_body(request, body)) return refusal;
  if (auto refusal = read_fields(body, dialect, "request body", "", fields)) return refusal;
  return check_model(fields, services.info);
}

Refusal plan_completion(const Services& services, const RequestFields& fields, OpenAiPlanner& planner) {
  if (fields.prompt == nullptr) {
    return ApiError{.message =
                        "request body: prompt is missing; accepted: a string, an array of strings, an array of "
                        "token ids, or an array of such arrays",
                    .param = "prompt"};
  }
  std::vector<Prompt> prompts;
  bool single = false;
  if (auto refusal = read_prompts(*fields.prompt, "prompt", {}, services.text, services.info.vocab_tokens,
                                  static_cast<size_t>(services.limits.prompts_max), prompts, single)) {
    return refusal;
  }
  if (fields.echo.value_or(false)) {
    const bool skip_special = fields.skip_special_tokens.value_or(true);
    for (const Prompt& prompt : prompts) {
      planner.shape.echo.push_back(prompt.is_text ? prompt.text : services.text.decode(prompt.ids, skip_special));
    }
  }
  return planner.make(std::move(prompts), "prompt");
}

Refusal plan_chat(const Services& services, const Request& request, const RequestFields& fields,
                  OpenAiPlanner& planner) {
  if (fields.messages == nullptr) {
    return ApiError{.message = "request body: messages is missing; accepted: an array of at least one message",
                    .param = "messages"};
  }
  // What a template may print keeps the order that the client gave it.
  auto body = parse_ordered_json(request.body, "request body");
  if (!body) return ApiError{.message = body.message(), .code = "bad_json"};
  ordered_json& messages = (*body)["messages"];
  if (auto refusal = check_messages(messages)) return refusal;
  const ordered_json args =
      fields.chat_template_kwargs == nullptr ? ordered_json::object() : std::move((*body)["chat_template_kwargs"]);
  if (!args.is_object()) return refuse_field("chat_template_kwargs", args, "an object");
  auto ids = services.text.encode_chat(messages, args);
  if (!ids) return ApiError{.message = fmt::format("request body: messages: {}", ids.message()), .param = "messages"};
  std::vector<Prompt> prompts(1);
  prompts[0].ids = *std::move(ids);
  return planner.make(std::move(prompts), "messages");
}

void handle_text(const Services& services, const std::shared_ptr<Exchange>& exchange, bool chat) {
  json body;
  RequestFields fields;
  if (auto refusal = prepare(services, exchange->request(), chat ? kChat : kCompletions, body, fields)) {
    return exchange->send(to_response(*refusal));
  }
  OpenAiPlanner planner(services, fields, chat);
  if (auto refusal = chat ? plan_chat(services, exchange->request(), fields, planner)
                          : plan_completion(services, fields, planner)) {
    return exchange->send(to_response(*refusal));
  }
  Job::launch(services.for_jobs(), exchange, std::move(planner.plan),
              std::make_unique<OpenAiAnswer>(std::move(planner.shape)));
}

void write_model(JsonWriter& out, const Services& services) {
  out.begin_object().field("id", services.info.model_name).field("object", "model");
  out.field("created", services.info.created_unix_s).field("owned_by", "strobe");
  out.field("root", services.info.model_path).null_field("parent");
  out.field("max_model_len", services.generator.stats().max_context_tokens).end_object();
}

void handle_models(const Services& services, const std::shared_ptr<Exchange>& exchange) {
  JsonWriter out;
  out.begin_object().field("object", "list").key("data").begin_array();
  write_model(out, services);
  exchange->send({.body = out.end_array().end_object().take()});
}

void handle_model(const Services& services, const std::shared_ptr<Exchange>& exchange) {
  constexpr std::string_view kPrefix = "/v1/models/";
  const std::string name = percent_decode(std::string_view(exchange->request().path).substr(kPrefix.size()));
  if (name != services.info.model_name) {
    return exchange->send(to_response(
        {.status = 404,
         .message = fmt::format("no model {}; there is '{}'", describe(json(name)), services.info.model_name),
         .param = "model",
         .code = "model_not_found"}));
  }
  JsonWriter out;
  write_model(out, services);
  exchange->send({.body = out.take()});
}

}  // namespace

void add_openai_routes(Router& router, const Services& services) {
  router.add("POST", "/v1/completions",
             [&services](std::shared_ptr<Exchange> exchange) { handle_text(services, exchange, false); });
  router.add("POST", "/v1/chat/completions",
             [&services](std::shared_ptr<Exchange> exchange) { handle_text(services, exchange, true); });
  router.add(
      "GET", "/v1/models", [&services](std::shared_ptr<Exchange> exchange) { handle_models(services, exchange); },
      Handling::kShort);
  router.add(
      "GET", "/v1/models/*", [&services](std::shared_ptr<Exchange> exchange) { handle_model(services, exchange); },
      Handling::kShort);
}

}  // namespace strobe::serve
