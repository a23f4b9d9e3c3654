// The SGLang dialect: /generate.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_fields.h"
#include "serve/services.h"
#include "serve/sglang_answer.h"

namespace strobe::serve {
namespace {

using nlohmann::json;

constexpr int64_t kNewTokensDefault = 128;  // SGLang's
constexpr int64_t kStreamedTopMax = 20;

class GeneratePlanner {
 public:
  GeneratePlanner(const Services& services, const RequestFields& fields) : services_(services), fields_(fields) {}

  JobPlan plan;
  SglangShape shape;

  Refusal make() {
    std::vector<Prompt> prompts;
    if (auto refusal = read_inputs(prompts)) return refusal;
    if (auto refusal = read_sampling(prompts.size())) return refusal;
    if (auto refusal = read_ids_of(prompts.size())) return refusal;
    schedule::GenerateRequest base;
    if (auto refusal = read_handling(fields_, base)) return refusal;
    const schedule::GeneratorStats stats = services_.generator.stats();
    shape.stream = fields_.stream.value_or(false);
    shape.draft_block_tokens = stats.draft_block_tokens;
    shape.list = !single_;
    if (auto refusal = read_logprobs()) return refusal;
    for (size_t p = 0; p < prompts.size(); ++p) {
      schedule::GenerateRequest request = base;
      request.prompt_ids = std::move(prompts[p].ids);
      if (auto refusal = check_logprob_start(request.prompt_ids.size())) return refusal;
      if (shape.logprobs) request.sampling.logprobs = static_cast<int32_t>(fields_.top_logprobs.value_or(0));
      if (auto refusal = add_prompt(p, std::move(request), stats.max_context_tokens)) return refusal;
    }
    return std::nullopt;
  }

 private:
  Refusal read_inputs(std::vector<Prompt>& prompts) {
    if ((fields_.text == nullptr) == (fields_.input_ids == nullptr)) {
      return ApiError{.message = "request body: text or input_ids must be given, and not both", .param = "text"};
    }
    const bool texts = fields_.text != nullptr;
    return read_prompts(texts ? *fields_.text : *fields_.input_ids, texts ? "text" : "input_ids",
                        {.texts = texts, .ids = !texts}, services_.text, services_.info.vocab_tokens,
                        static_cast<size_t>(services_.limits.prompts_max), prompts, single_);
  }

  // One set of sampling parameters for all prompts, or one for each.
  Refusal read_sampling(size_t prompts) {
    sampling_.resize(1);
    names_.assign(1, "sampling_params");
    if (fields_.sampling_params == nullptr) return std::nullopt;
    const json& given = *fields_.sampling_params;
    if (!given.is_array()) {
      return read_fields(given, kSamplingParams, "request body: sampling_params", "sampling_params", sampling_[0]);
    }
    if (single_ || given.size() != prompts) {
      return refuse_field("sampling_params", given,
                          single_ ? std::string("an object") : fmt::format("an object or an array of {}", prompts));
    }
    sampling_.resize(prompts);
    names_.resize(prompts);
    for (size_t i = 0; i < prompts; ++i) {
      names_[i] = fmt::format("sampling_params[{}]", i);
      if (auto refusal =
              read_fields(given[i], kSamplingParams, "request body: " + names_[i], names_[i], sampling_[i])) {
        return refusal;
      }
    }
    return std::nullopt;
  }

  Refusal read_ids_of(size_t prompts) {
    if (auto refusal = read_rids(fields_, !single_, plan.ids)) return refusal;
    if (plan.ids.empty()) plan.ids.push_back(services_.random.id(""));
    const bool one_each = fields_.rid != nullptr && fields_.rid->is_array();
    if (one_each && plan.ids.size() != prompts) {
      return refuse_field("rid", *fields_.rid, fmt::format("a string, or an array of {}", prompts));
    }
    return std::nullopt;
  }

  Refusal read_logprobs() {
    if (!fields_.want_logprobs.value_or(false)) {
      if (fields_.top_logprobs.value_or(0) == 0) return std::nullopt;
      return refuse_field("top_logprobs_num", json(*fields_.top_logprobs), "0, or with \"return_logprob\": true");
    }
    // An event holds all that was said so far, again.
    if (shape.stream && fields_.top_logprobs.value_or(0) > kStreamedTopMax) {
      return refuse_field("top_logprobs_num", json(*fields_.top_logprobs),
                          fmt::format("0 to {} with \"stream\": true", kStreamedTopMax));
    }
    shape.logprobs = {.top = fields_.top_logprobs.value_or(0) > 0,
                      .with_text = fields_.text_in_logprobs.value_or(false)};
    shape.text = &services_.text;
    return std::nullopt;
  }

  // Those of the prompt's own tokens are not served.
  Refusal check_logprob_start(size_t prompt_tokens) const {
    const int64_t start = fields_.logprob_start_len.value_or(-1);
    if (!shape.logprobs || start == -1 || start >= static_cast<int64_t>(prompt_tokens)) return std::nullopt;
    return refuse_field(
        "logprob_start_len", json(start),
        fmt::format("-1, or the prompt's {} tokens: log probabilities of the prompt are not served", prompt_tokens));
  }

  Refusal add_prompt(size_t p, schedule::GenerateRequest request, int64_t context_tokens) {
    const size_t which = sampling_.size() == 1 ? 0 : p;
    const RequestFields& sampling = sampling_[which];
    const std::string prefix = names_[which] + ".";
    const std::string max_name = prefix + "max_new_tokens";
    const std::string min_name = prefix + "min_new_tokens";
    if (auto refusal = build_sampling(sampling, {}, services_.info.vocab_tokens, prefix, services_.random, request)) {
      return refusal;
    }
    const LengthRule rule{.prompt_name = fields_.text != nullptr ? "text" : "input_ids",
                          .max_name = max_name,
                          .min_name = min_name,
                          .asked = sampling.max_tokens.value_or(0),
                          .fallback = kNewTokensDefault,
                          .context_tokens = context_tokens};
    if (auto refusal = build_length(rule, sampling, request)) return refusal;
    const int64_t n = sampling.n.value_or(1);
    if (n > 1) shape.list = true;
    if (static_cast<int64_t>(plan.requests.size()) + n > services_.limits.prompts_max) {
      return refuse_field(prefix + "n", json(n),
                          fmt::format("up to {} texts for all prompts", services_.limits.prompts_max));
    }
    const uint64_t first_seed = request.sampling.seed;
    for (int64_t i = 0; i < n; ++i) {
      request.sampling.seed = sampling.seed ? first_seed + static_cast<uint64_t>(i) : services_.random.next();
      plan.requests.push_back(request);
      plan.prompt_of.push_back(static_cast<int>(p));
      shape.interval.push_back(sampling.stream_interval.value_or(1));
      const std::string& id = plan.ids[plan.ids.size() == 1 ? 0 : p];
      shape.ids.push_back(shape.list && plan.ids.size() == 1 ? fmt::format("{}_{}", id, shape.ids.size()) : id);
    }
    return std::nullopt;
  }

  const Services& services_;
  const RequestFields& fields_;
  std::vector<RequestFields> sampling_;  // one, or one a prompt
  std::vector<std::string> names_;       // of those, in messages
  bool single_ = true;
};

Refusal plan_generate(const Services& services, const Request& request, json& body, RequestFields& fields,
                      std::unique_ptr<GeneratePlanner>& planner) {
  if (auto refusal = check_ready(services)) return refusal;
  if (auto refusal = read_body(request, body)) return refusal;
  if (auto refusal = read_fields(body, kGenerate, "request body", "", fields)) return refusal;
  if (auto refusal = check_model(fields, services.info)) return refusal;
  planner = std::make_unique<GeneratePlanner>(services, fields);
  return planner->make();
}

void handle_generate(const Services& services, const std::shared_ptr<Exchange>& exchange) {
  json body;
  RequestFields fields;
  std::unique_ptr<GeneratePlanner> planner;
  if (auto refusal = plan_generate(services, exchange->request(), body, fields, planner)) {
    return exchange->send(to_response(*refusal));
  }
  Job::launch(services.for_jobs(), exchange, std::move(planner->plan),
              std::make_unique<SglangAnswer>(std::move(planner->shape)));
}

}  // namespace

void add_generate_routes(Router& router, const Services& services) {
  const auto handler = [&services](std::shared_ptr<Exchange> exchange) { handle_generate(services, exchange); };
  router.add("POST", "/generate", handler);
  router.add("PUT", "/generate", handler);
}

}  // namespace strobe::serve
