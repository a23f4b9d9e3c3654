#include "measure/eval.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/json_fields.h"
#include "measure/server_facts.h"

namespace strobe::measure {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Adds a sample to totals, and takes back nothing: totals grow as answers come.
class Tally {
 public:
  void add(const Sample& sample) {
    ++(sample.outcome == Outcome::kRight    ? totals_.right
       : sample.outcome == Outcome::kWrong  ? totals_.wrong
       : sample.outcome == Outcome::kFailed ? totals_.failed
                                            : totals_.not_asked);
    if (sample.outcome == Outcome::kNotAsked) return;
    ++totals_.asked;
    if (sample.outcome == Outcome::kWrong && !sample.extracted) ++totals_.invalid;
    totals_.completion_tokens += sample.completion_tokens;
    verify_steps_ += sample.verify_steps;
    accepted_tokens_ += sample.accepted_tokens;
    if (verify_steps_ > 0)
      totals_.accept_length =
          static_cast<double>(accepted_tokens_ + verify_steps_) / static_cast<double>(verify_steps_);
  }
  [[nodiscard]] const EvalTotals& totals() const { return totals_; }

 private:
  EvalTotals totals_;
  int64_t verify_steps_ = 0;
  int64_t accepted_tokens_ = 0;
};

Sample new_sample(const Gsm8kLine& line, Gsm8kProtocol protocol) {
  Sample sample;
  sample.file_line = line.file_line;
  sample.question = line.question;
  sample.gold = answer_number(line.answer, protocol).value_or("");
  return sample;
}

void ask(const EvalOptions& options, const HttpClient& client, const std::string& model, const std::string& prompt,
         const std::atomic<bool>& give_up, Sample& sample) {
  const auto start = Clock::now();
  const std::string body = request_body(options, model, prompt);
  const HttpReply reply = with_retries(
      options.retries, [&] { return give_up || client.stopped(); },
      [&] { return client.post(request_path(options.api), body); }, sample.tries);
  sample.seconds = seconds_since(start);
  if (reply.problem == "stopped") return;
  if (!reply.ok()) {
    sample.outcome = Outcome::kFailed;
    sample.problem = reply.describe();
    return;
  }
  read_answer(options, reply.body, sample);
}

// The text of an answer and where its counts stand; the counts' object may be absent.
struct AnswerParts {
  std::string text;
  std::string finish_reason;
  json usage = json::object();
};

AnswerParts take_apart(Api api, const json& answer) {
  AnswerParts parts;
  if (api == Api::kGenerate) {
    parts.text = answer.at("text").get<std::string>();
    parts.usage = answer.at("meta_info");
    const json& finish = parts.usage.at("finish_reason");
    if (finish.is_object()) parts.finish_reason = finish.value("type", "");
    return parts;
  }
  const json& choice = answer.at("choices").at(0);
  const json& text = api == Api::kChat ? choice.at("message").at("content") : choice.at("text");
  if (!text.is_null()) parts.text = text.get<std::string>();
  if (choice.contains("finish_reason") && choice["finish_reason"].is_string()) {
    parts.finish_reason = choice["finish_reason"].get<std::string>();
  }
  if (answer.contains("usage") && answer["usage"].is_object()) parts.usage = answer["usage"];
  return parts;
}

int64_t count_of(const json& usage, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (usage.contains(name) && usage[name].is_number_integer()) return usage[name].get<int64_t>();
  }
  return 0;
}

}  // namespace

std::string_view to_string(Api api) {
  return api == Api::kCompletion ? "completion" : api == Api::kChat ? "chat" : "generate";
}

std::string_view to_string(Gsm8kProtocol protocol) {
  return protocol == Gsm8kProtocol::kStandard ? "standard" : "few-shot-legacy";
}

std::optional<double> EvalTotals::score() const {
  const int64_t answered = right + wrong;
  if (answered == 0) return std::nullopt;
  return static_cast<double>(right) / static_cast<double>(answered);
}

EvalTotals add_up(const std::vector<Sample>& samples) {
  Tally tally;
  for (const Sample& sample : samples) tally.add(sample);
  return tally.totals();
}

Verdict judge(const EvalTotals& totals, const std::optional<double>& baseline) {
  const int64_t unknown = totals.failed + totals.not_asked;
  const int64_t all = totals.right + totals.wrong + unknown;
  if (all == 0) return Verdict::kUnknown;
  if (!baseline) return unknown == 0 ? Verdict::kPass : Verdict::kUnknown;
  const auto share = [&](int64_t count) { return static_cast<double>(count) / static_cast<double>(all); };
  if (share(totals.right) >= *baseline) return Verdict::kPass;
  return share(totals.right + unknown) < *baseline ? Verdict::kFail : Verdict::kUnknown;
}

std::string_view request_path(Api api) {
  return api == Api::kCompletion ? "/v1/completions" : api == Api::kChat ? "/v1/chat/completions" : "/generate";
}

std::string request_body(const EvalOptions& options, const std::string& model, const std::string& prompt) {
  json body;
  switch (options.api) {
    case Api::kCompletion:
      body = {{"model", model},
              {"prompt", prompt},
              {"temperature", 0},
              {"top_p", 1},
              {"max_tokens", options.max_tokens},
              {"stop", gsm8k_stops()}};
      break;
    case Api::kChat:
      body = {{"model", model},
              {"messages", json::array({{{"role", "user"}, {"content", prompt}}})},
              {"temperature", 0},
              {"top_p", 1},
              {"max_tokens", options.max_tokens}};
      break;
    case Api::kGenerate:
      body = {
          {"text", prompt},
          {"sampling_params", {{"temperature", 0}, {"max_new_tokens", options.max_tokens}, {"stop", gsm8k_stops()}}}};
      break;
  }
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

void read_answer(const EvalOptions& options, const std::string& body, Sample& sample) {
  AnswerParts parts;
  try {
    parts = take_apart(options.api, json::parse(body));
  } catch (const json::exception& e) {
    sample.outcome = Outcome::kFailed;
    sample.problem =
        fmt::format("the answer has no text where one is expected ({}): {}", e.what(), body.substr(0, 300));
    return;
  }
  sample.response = std::move(parts.text);
  sample.finish_reason = std::move(parts.finish_reason);
  sample.prompt_tokens = count_of(parts.usage, {"prompt_tokens"});
  sample.completion_tokens = count_of(parts.usage, {"completion_tokens"});
  sample.verify_steps = count_of(parts.usage, {"spec_verify_ct"});
  sample.accepted_tokens =
      count_of(parts.usage, {"accepted_tokens", "spec_num_correct_drafts", "spec_accepted_drafts"});
  if (sample.verify_steps > 0) {
    sample.accept_length =
        static_cast<double>(sample.accepted_tokens + sample.verify_steps) / static_cast<double>(sample.verify_steps);
  }
  if (sample.finish_reason == "abort") {
    sample.outcome = Outcome::kFailed;
    sample.problem = "the server aborted the request";
    return;
  }
  sample.extracted = answer_number(sample.response, options.protocol);
  sample.outcome = sample.extracted && *sample.extracted == sample.gold ? Outcome::kRight : Outcome::kWrong;
}

EvalReport run_eval(const EvalOptions& options, const HttpClient& client, const std::string& model,
                    const std::vector<Gsm8kLine>& lines,
                    const std::function<void(const Sample&, const EvalTotals&)>& on_sample) {
  const auto start = Clock::now();
  const auto shots = static_cast<size_t>(options.shots);
  const auto asked = asked_lines(lines, options.protocol, shots, static_cast<size_t>(options.examples));
  const std::string prefix = few_shot_prefix(lines, shots);
  EvalReport report{.options = options, .model = model, .server = client.endpoint().url()};
  for (const Gsm8kLine& line : asked) report.samples.push_back(new_sample(line, options.protocol));

  std::atomic<size_t> next = 0;
  std::atomic<bool> give_up = false;  // the server is gone: what is left would fail in the same way
  std::mutex mutex;
  Tally tally;
  int64_t failed_in_a_row = 0;
  const auto work = [&] {
    for (size_t i = next++; i < asked.size() && !give_up && !client.stopped(); i = next++) {
      Sample& sample = report.samples[i];
      ask(options, client, model, prefix + question_prompt(asked[i]), give_up, sample);
      if (sample.outcome == Outcome::kNotAsked) continue;
      const std::lock_guard lock(mutex);
      tally.add(sample);
      failed_in_a_row = sample.outcome == Outcome::kFailed ? failed_in_a_row + 1 : 0;
      if (failed_in_a_row >= 3 && !is_alive(client)) give_up = true;
      on_sample(sample, tally.totals());
    }
  };
  std::vector<std::thread> threads;
  const auto count = std::min<size_t>(static_cast<size_t>(options.parallel), asked.size());
  for (size_t t = 0; t < count; ++t) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  report.seconds = seconds_since(start);
  if (give_up) report.problem = "the server does not answer any more";
  if (client.stopped()) report.problem = kStoppedEarly;
  return report;
}

}  // namespace strobe::measure
