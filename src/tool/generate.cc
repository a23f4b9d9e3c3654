// strobe generate: texts from the command line.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <future>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/log.h"
#include "tool/assembly.h"
#include "tool/commands.h"
#include "tool/prompts.h"
#include "tool/text_adapter.h"

namespace strobe::tool {
namespace {

struct GenerateOptions {
  EngineOptions engine;
  std::string prompt;
  std::string chat;
  std::string jsonl;
  int32_t max_new_tokens = 256;
  double temperature = 0;
  double top_p = 1;
  int32_t top_k = 0;
  double min_p = 0;
  int64_t seed = -1;
  bool ignore_eos = false;
  bool json = false;
  bool quiet = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("--prompt", prompt, "a text to continue, as it is");
    v("--chat", chat, "a user's message, put through the chat template");
    v("--jsonl", jsonl,
      "a file with one object a line: `messages` (chat) or `prompt` (text); its other fields are passed through");
    v("--max-new-tokens", max_new_tokens, "longest answer");
    v("--temperature", temperature, "0: always the most likely token");
    v("--top-p", top_p, "sample from the likeliest tokens that make up this much");
    v("--top-k", top_k, "sample from this many likeliest tokens; 0: all");
    v("--min-p", min_p, "drop tokens below this share of the likeliest");
    v("--seed", seed, "of the random stream; -1: a new one each time");
    v("--ignore-eos", ignore_eos, "go on to --max-new-tokens whatever the model says");
    v("--json", json, "one JSON object an answer: text, ids, counts, times");
    v("--quiet", quiet, "nothing but answers and errors");
    engine.visit(v);
  }
};

struct Answer {
  std::string text;
  std::vector<int32_t> ids;
  schedule::Finish finish;
  schedule::Usage usage;
};

std::string_view to_string(schedule::FinishReason reason) {
  switch (reason) {
    case schedule::FinishReason::kStop:
      return "stop";
    case schedule::FinishReason::kLength:
      return "length";
    case schedule::FinishReason::kAbort:
      return "abort";
  }
  return "?";
}

double decode_tokens_per_second(const schedule::Usage& usage) {
  const double ms = usage.total_ms - usage.first_token_ms;
  return ms > 0 && usage.completion_tokens > 1 ? (usage.completion_tokens - 1) * 1000.0 / ms : 0.0;
}

Answer no_answer(const std::string& why) {
  Answer answer;
  answer.finish = {.reason = schedule::FinishReason::kAbort, .message = why};
  return answer;
}

Result<std::vector<int32_t>> encode(const serve::TextService& text, const Prompt& prompt) {
  return prompt.chat() ? text.encode_chat(prompt.messages, nlohmann::json::object()) : text.encode(prompt.text);
}

// Runs one request to its end; `on_text` sees its text as it comes.
Answer run_one(schedule::Generator& generator, schedule::GenerateRequest request,
               const std::function<void(const std::string&)>& on_text) {
  std::promise<Answer> done;
  Answer answer;
  const auto submitted = generator.submit(std::move(request), [&](schedule::Chunk chunk) {
    answer.text += chunk.text;
    answer.ids.insert(answer.ids.end(), chunk.token_ids.begin(), chunk.token_ids.end());
    if (!chunk.text.empty()) on_text(chunk.text);
    if (!chunk.finish) return;
    answer.finish = *chunk.finish;
    answer.usage = chunk.usage;
    done.set_value(std::move(answer));
  });
  if (!submitted.ok()) return no_answer(submitted.message());
  return done.get_future().get();
}

nlohmann::ordered_json to_json(const Prompt& prompt, const Answer& answer) {
  nlohmann::ordered_json line = prompt.passed;
  const auto& usage = answer.usage;
  line["text"] = answer.text;
  line["output_ids"] = answer.ids;
  line["prompt_tokens"] = usage.prompt_tokens;
  line["completion_tokens"] = usage.completion_tokens;
  line["finish_reason"] = to_string(answer.finish.reason);
  line["spec_verify_ct"] = usage.verify_steps;
  line["held_back_steps"] = usage.held_back_steps;
  line["accept_length"] = usage.accept_length();
  line["ttft_ms"] = usage.first_token_ms;
  line["decode_tokens_per_second"] = decode_tokens_per_second(usage);
  if (!answer.finish.message.empty()) line["error"] = answer.finish.message;
  return line;
}

// Sums over all prompts, for the progress line and the end.
struct Totals {
  int64_t answers = 0, tokens = 0, failed = 0, verify_steps = 0, held_back_steps = 0, accepted = 0;
  double decode_ms = 0;

  void add(const Answer& answer) {
    ++answers;
    failed += answer.finish.reason == schedule::FinishReason::kAbort ? 1 : 0;
    tokens += answer.usage.completion_tokens;
    verify_steps += answer.usage.verify_steps;
    held_back_steps += answer.usage.held_back_steps;
    accepted += answer.usage.accepted_tokens;
    decode_ms += answer.usage.total_ms - answer.usage.first_token_ms;
  }
  [[nodiscard]] std::string line(size_t prompts) const {
    std::string text = fmt::format("{}/{} answers, {} tokens", answers, prompts, tokens);
    if (decode_ms > 0)
      text += fmt::format(", {:.0f} tokens/s decoding", static_cast<double>(tokens - answers) * 1000 / decode_ms);
    if (verify_steps > 0)
      text += fmt::format(", accept length {:.2f}", schedule::accept_length(accepted, verify_steps));
    if (held_back_steps > 0) text += fmt::format(", {} steps without a draft", held_back_steps);
    if (failed > 0) text += fmt::format(", {} failed", failed);
    return text;
  }
};

schedule::GenerateRequest to_request(const GenerateOptions& o, std::vector<int32_t> ids, uint64_t seed) {
  schedule::GenerateRequest request{.prompt_ids = std::move(ids)};
  request.sampling.temperature = static_cast<float>(o.temperature);
  request.sampling.top_p = static_cast<float>(o.top_p);
  request.sampling.top_k = o.top_k;
  request.sampling.min_p = static_cast<float>(o.min_p);
  request.sampling.seed = seed;
  request.stop.max_new_tokens = o.max_new_tokens;
  request.stop.ignore_eos = o.ignore_eos;
  return request;
}

Result<std::vector<Prompt>> gather_prompts(const GenerateOptions& o) {
  if (static_cast<int>(!o.prompt.empty()) + static_cast<int>(!o.chat.empty()) + static_cast<int>(!o.jsonl.empty()) !=
      1) {
    return error("give exactly one of --prompt TEXT, --chat TEXT and --jsonl FILE");
  }
  if (!o.jsonl.empty()) return read_prompts(o.jsonl);
  if (!o.chat.empty()) return std::vector<Prompt>{chat_prompt(o.chat)};
  Prompt prompt;
  prompt.text = o.prompt;
  return std::vector<Prompt>{std::move(prompt)};
}

Result<void> check(const GenerateOptions& o) {
  if (o.max_new_tokens < 1) return error("--max-new-tokens {}: accepted: 1 and more", o.max_new_tokens);
  if (!(o.temperature >= 0 && o.temperature <= 100))
    return error("--temperature {}: accepted: 0 to 100", o.temperature);
  if (!(o.top_p > 0 && o.top_p <= 1)) return error("--top-p {}: accepted: above 0, at most 1", o.top_p);
  if (o.top_k < 0) return error("--top-k {}: accepted: 0 (all) and more", o.top_k);
  if (!(o.min_p >= 0 && o.min_p < 1)) return error("--min-p {}: accepted: 0 and more, below 1", o.min_p);
  return {};
}

Result<int> generate(GenerateOptions o) {
  STROBE_TRY(check(o));
  STROBE_ASSIGN(const std::vector<Prompt> prompts, gather_prompts(o));
  default_to_pocket(o.engine);
  if (o.quiet && o.engine.log_level == "info") o.engine.log_level = "warning";
  STROBE_ASSIGN(auto system, assemble(o.engine));
  const auto text = make_text_service(*system->tokenizer, o.engine.tokenizer_folder());
  start_scheduler(*system);

  std::random_device entropy;
  Totals totals;
  const bool progress = o.json && !o.quiet && isatty(STDERR_FILENO) != 0;  // texts show it themselves
  const auto show = [&](const std::string& piece) {
    if (o.json) return;
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  };
  for (const Prompt& prompt : prompts) {
    const uint64_t seed = o.seed >= 0 ? static_cast<uint64_t>(o.seed) : uint64_t{entropy()} << 32 | entropy();
    auto ids = encode(*text, prompt);
    const Answer answer = ids.ok() ? run_one(*system->scheduler, to_request(o, std::move(ids).value(), seed), show)
                                   : no_answer(ids.message());
    totals.add(answer);
    if (o.json) {
      fmt::print("{}\n", to_json(prompt, answer).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
      fmt::print("\n");
    }
    std::fflush(stdout);
    if (answer.finish.reason == schedule::FinishReason::kAbort)
      log_error("{}{}no answer: {}", prompt.where, prompt.where.empty() ? "" : ": ", answer.finish.message);
    if (progress) fmt::print(stderr, "\r\033[K{}", totals.line(prompts.size()));
  }
  if (!o.quiet) fmt::print(stderr, "{}{}\n", progress ? "\r\033[K" : "", totals.line(prompts.size()));
  return totals.failed == 0 ? 0 : 1;
}

}  // namespace

Subcommand generate_command() {
  auto options = std::make_shared<GenerateOptions>();
  return {.name = "generate",
          .help = "answer prompts from the command line",
          .add_options = [options](OptionAdder& add) { options->visit(add); },
          .run = [options] { return exit_code(generate(*options)); }};
}

}  // namespace strobe::tool
