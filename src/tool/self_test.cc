#include "tool/self_test.h"

#include <fmt/format.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"
#include "load/model_config.h"

namespace strobe::tool {
namespace {

constexpr int32_t kMaxNewTokens = 64;
// How much of the expected gain must be there. On the very prompts only rounding differs; on others much may.
constexpr double kLeastShare = 0.8;
constexpr double kLeastShareOfOthers = 0.5;
// A draft that guesses at random stays at 1.0; one that was made for its target is above this even on hard text.
constexpr double kLeastLength = 1.05;
// What a step of draft and verify costs in plain steps where it was cheapest (pocket-k2, one stream on an H200; 2.5
// with 8 streams, 3.3 on two CPU cores: docs/MEASURED.md). Fewer tokens a step than that do not pay.
constexpr double kPayingLength = 1.5;
constexpr int64_t kFewestSteps = 8;
constexpr size_t kMostPrompts = 64;

const std::vector<std::string>& builtin_prompts() {
  static const std::vector<std::string> prompts = {
      "Count from 1 to 20.", "Write the days of the week in order, twice.",
      "Repeat this sentence three times: The quick brown fox jumps over the lazy dog."};
  return prompts;
}

struct Counts {
  int64_t accepted = 0;
  int64_t steps = 0;
};

// All prompts at once; waits for all.
Result<Counts> measure(const ExpectedAcceptance& expected, schedule::Generator& generator,
                       const serve::TextService& text) {
  struct State {
    std::mutex mutex;
    std::condition_variable done;
    Counts counts;
    size_t left = 0;
    std::string problem;
  };
  const auto state = std::make_shared<State>();
  for (const std::string& prompt : expected.prompts) {
    auto ids =
        text.encode_chat(nlohmann::json::array({{{"role", "user"}, {"content", prompt}}}), nlohmann::json::object());
    if (!ids.ok()) ids = text.encode(prompt);  // a model without a chat template
    if (!ids.ok()) return ids.error();
    schedule::GenerateRequest request{.prompt_ids = std::move(ids).value()};
    request.sampling.temperature = 0;
    request.drafting = schedule::Drafting::kAlways;  // a draft that guesses nothing shall be seen
    request.stop.max_new_tokens = kMaxNewTokens;
    {
      const std::lock_guard lock(state->mutex);
      ++state->left;
    }
    const auto id = generator.submit(std::move(request), [state](const schedule::Chunk& chunk) {
      if (!chunk.finish) return;
      const std::lock_guard lock(state->mutex);
      if (chunk.finish->reason == schedule::FinishReason::kAbort) state->problem = chunk.finish->message;
      state->counts.accepted += chunk.usage.accepted_tokens;
      state->counts.steps += chunk.usage.verify_steps;
      if (--state->left == 0) state->done.notify_one();
    });
    if (!id.ok()) {
      const std::lock_guard lock(state->mutex);
      --state->left;
      state->problem = id.message();
    }
  }
  std::unique_lock lock(state->mutex);
  state->done.wait(lock, [&] { return state->left == 0; });
  if (!state->problem.empty()) return error("the self-test's prompts were not answered: {}", state->problem);
  return state->counts;
}

}  // namespace

Result<ExpectedAcceptance> read_expected_acceptance(const std::string& draft_folder) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::absolute(draft_folder).lexically_normal();
  const fs::path inside = folder / "expected.json";
  fs::path beside = folder;
  if (!beside.has_filename()) beside = beside.parent_path();
  beside = beside.parent_path() / "expected.json";
  std::error_code ignored;
  const fs::path& path = fs::exists(inside, ignored) ? inside : beside;
  if (!fs::exists(path, ignored)) return ExpectedAcceptance{.prompts = builtin_prompts()};
  STROBE_ASSIGN(const nlohmann::json json, read_json_file(path));
  ExpectedAcceptance expected{.source = path.string()};
  STROBE_ASSIGN(const JsonFields fields, JsonFields::of(json, expected.source));
  STROBE_ASSIGN(expected.accept_length, fields.get<double>("accept_length", {.min = 1, .max = 64}));
  STROBE_ASSIGN(expected.draft_tokens, fields.get_or<int>("draft_tokens", 0, {.min = 0, .max = 64}));
  STROBE_ASSIGN(auto prompts, fields.list_if<std::string>("prompts"));
  if (prompts && (prompts->empty() || prompts->size() > kMostPrompts)) {
    return fields.refuse("prompts", fmt::format("1 to {} strings", kMostPrompts));
  }
  expected.own_prompts = prompts.has_value();
  expected.prompts = prompts ? std::move(*prompts) : builtin_prompts();
  return expected;
}

SelfTestVerdict judge_acceptance(const ExpectedAcceptance& expected, double accept_length, int64_t steps,
                                 int32_t draft_tokens, double draft_cost) {
  using enum SelfTestVerdict::Fit;
  const std::string measured = fmt::format("accept length {:.2f} over {} verify steps", accept_length, steps);
  if (steps < kFewestSteps) {
    return {.text = fmt::format("{}: too few to judge the draft by", measured)};
  }
  const bool known =
      expected.accept_length > 0 && (expected.draft_tokens == 0 || expected.draft_tokens == draft_tokens);
  const double share = expected.own_prompts ? kLeastShare : kLeastShareOfOthers;
  const double least = known ? 1 + (expected.accept_length - 1) * share : kLeastLength;
  const std::string wanted = known ? fmt::format("{:.2f} expected by {}", expected.accept_length, expected.source)
                                   : "nothing is known of this pair and block size";
  if (accept_length < least) {
    // On other prompts than those the length is known of, less of it may be their fault.
    const bool sure = accept_length < kLeastLength || (known && expected.own_prompts);
    return {.fit = sure ? kBroken : kPoor,
            .text = fmt::format(
                "{}, at least {:.2f} wanted ({}): the draft does not know this target; look at whether both belong "
                "together, at target_layer_ids, mask_token_id, rope settings and the draft's weights. Texts are "
                "right all the same, only slow",
                measured, least, wanted)};
  }
  if (draft_cost > 0 && accept_length < draft_cost) {
    return {
        .fit = kPoor,
        .text = fmt::format(
            "{} ({}): drafting does not pay, for a step of draft and verify costs {:.2f} plain steps here; texts like "
            "these are decoded without a draft, but for tries",
            measured, wanted, draft_cost)};
  }
  if (draft_cost == 0 && accept_length < kPayingLength) {
    return {.fit = kPoor,
            .text = fmt::format(
                "{} ({}): likely slower than plain decoding, for a step of draft and verify costs at least about {} "
                "plain steps; texts are right all the same. Compare with \"speculative\": \"off\" in a request",
                measured, wanted, kPayingLength)};
  }
  return {.text = fmt::format("{} ({})", measured, wanted)};
}

Result<SelfTestVerdict> run_self_test(const Plan& plan, schedule::Generator& generator,
                                      const serve::TextService& text) {
  STROBE_ASSIGN(const ExpectedAcceptance expected, read_expected_acceptance(plan.options.speculative_draft_model_path));
  STROBE_ASSIGN(const Counts counts, measure(expected, generator, text));
  return judge_acceptance(expected, schedule::accept_length(counts.accepted, counts.steps), counts.steps,
                          plan.options.speculative_num_draft_tokens, plan.draft_cost.value_or(0));
}

}  // namespace strobe::tool
