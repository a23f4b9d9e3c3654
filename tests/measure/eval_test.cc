// Evaluation against servers whose answers are written here: scores, failures, verdicts, reports.
#include "measure/eval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "fake_server.h"
#include "measure/eval_report.h"

namespace strobe::measure {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<Gsm8kLine> lines_up_to(int count) {
  std::vector<Gsm8kLine> lines;
  for (int i = 1; i <= count; ++i) {
    lines.push_back({"what is " + std::to_string(i) + "?", "#### " + std::to_string(i), i});
  }
  return lines;
}

EvalOptions quick(int64_t shots, Api api = Api::kCompletion) {
  return {.api = api,
          .examples = 0,
          .shots = shots,
          .parallel = 3,
          .retries = {.tries = 2, .first_pause = milliseconds(0)}};
}

std::string completion(const std::string& text, int64_t verify_steps = 0, int64_t accepted = 0) {
  json body = {{"choices", {{{"text", text}, {"finish_reason", "stop"}}}},
               {"usage", {{"prompt_tokens", 5}, {"completion_tokens", 7}}}};
  if (verify_steps > 0) {
    body["usage"]["spec_verify_ct"] = verify_steps;
    body["usage"]["accepted_tokens"] = accepted;
  }
  return body.dump();
}

// The number in the last question of a prompt.
std::string asked_number(const serve::Request& request) {
  const std::string prompt = json::parse(request.body)["prompt"];
  const size_t at = prompt.rfind("what is ") + 8;
  return prompt.substr(at, prompt.find('?', at) - at);
}

EvalReport evaluate(const EvalOptions& options, const FakeServer& server, int lines) {
  return run_eval(options, HttpClient(server.endpoint()), "m", lines_up_to(lines),
                  [](const Sample&, const EvalTotals&) {});
}

TEST(Eval, ScoresTheAnswers) {
  FakeServer server([](serve::Exchange& e) {
    const std::string number = asked_number(e.request());
    e.send({.body = completion(number == "5"   ? " it is 6"
                               : number == "6" ? "no idea"
                                               : " it is " + number + ".0",
                               2, 5)});
  });
  const EvalReport report = evaluate(quick(2), server, 6);
  const EvalTotals totals = add_up(report.samples);
  EXPECT_EQ(totals.right, 2);
  EXPECT_EQ(totals.wrong, 2);
  EXPECT_EQ(totals.invalid, 1);
  EXPECT_EQ(totals.failed, 0);
  EXPECT_EQ(totals.score(), 0.5);
  EXPECT_EQ(totals.completion_tokens, 28);
  EXPECT_DOUBLE_EQ(totals.accept_length.value(), 3.5);
  ASSERT_EQ(report.samples.size(), 4u);
  EXPECT_EQ(report.samples[0].file_line, 3);
  EXPECT_EQ(report.samples[0].extracted, "3");
  EXPECT_EQ(report.samples[3].extracted, std::nullopt);
}

TEST(Eval, ARequestIsWhatTheProtocolSays) {
  FakeServer server([](serve::Exchange& e) { e.send({.body = completion("1")}); });
  evaluate(quick(1), server, 2);
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(server.requests()[0].path, "/v1/completions");
  EXPECT_EQ(json::parse(server.requests()[0].body),
            json({{"model", "m"},
                  {"prompt", "Question: what is 1?\nAnswer: #### 1\n\nQuestion: what is 2?\nAnswer:"},
                  {"temperature", 0},
                  {"top_p", 1},
                  {"max_tokens", 2048},
                  {"stop", {"Question", "Assistant:", "<|separator|>"}}}));
  const json chat = json::parse(request_body(quick(0, Api::kChat), "m", "p"));
  EXPECT_EQ(chat["messages"], json::parse(R"([{"role": "user", "content": "p"}])"));
  EXPECT_FALSE(chat.contains("stop"));
  const json generate = json::parse(request_body(quick(0, Api::kGenerate), "m", "p"));
  EXPECT_EQ(generate["text"], "p");
  EXPECT_EQ(generate["sampling_params"]["max_new_tokens"], 2048);
}

TEST(Eval, EachDialectIsRead) {
  const auto outcome = [](Api api, const char* body) {
    Sample sample;
    sample.gold = "4";
    read_answer(quick(0, api), body, sample);
    return sample;
  };
  EXPECT_EQ(outcome(Api::kChat, R"({"choices":[{"message":{"content":"4"},"finish_reason":"stop"}]})").outcome,
            Outcome::kRight);
  EXPECT_EQ(outcome(Api::kChat, R"({"choices":[{"message":{"content":null}}]})").outcome, Outcome::kWrong);
  const Sample generated = outcome(
      Api::kGenerate,
      R"({"text":"4","meta_info":{"finish_reason":{"type":"length"},"completion_tokens":9,"spec_verify_ct":2,"spec_num_correct_drafts":6}})");
  EXPECT_EQ(generated.outcome, Outcome::kRight);
  EXPECT_EQ(generated.finish_reason, "length");
  EXPECT_EQ(generated.completion_tokens, 9);
  EXPECT_DOUBLE_EQ(generated.accept_length.value(), 4.0);
  EXPECT_EQ(outcome(Api::kGenerate, R"({"text":"4","meta_info":{"finish_reason":{"type":"abort"}}})").outcome,
            Outcome::kFailed);
  for (const char* wrong : {"", "[]", "{}", R"({"choices":[]})", R"({"choices":[{"text":4}]})"}) {
    EXPECT_EQ(outcome(Api::kCompletion, wrong).outcome, Outcome::kFailed) << wrong;
  }
}

TEST(Eval, AFailedRequestIsTriedAgainAndIsNoWrongAnswer) {
  std::mutex mutex;
  std::map<std::string, int> asked;
  FakeServer server([&](serve::Exchange& e) {
    if (e.request().path == "/health") return e.send({});
    const std::string number = asked_number(e.request());
    const std::lock_guard lock(mutex);
    const int time = ++asked[number];
    if (number == "1" || (number == "2" && time == 1)) return e.send({.status = 503, .body = "busy"});
    if (number == "3") return e.send({.status = 400, .body = "too long"});
    e.send({.body = completion(number)});
  });
  const EvalReport report = evaluate(quick(0), server, 4);
  EXPECT_EQ(report.samples[0].outcome, Outcome::kFailed);
  EXPECT_EQ(report.samples[0].tries, 2);
  EXPECT_THAT(report.samples[0].problem, HasSubstr("busy"));
  EXPECT_EQ(report.samples[1].outcome, Outcome::kRight);
  EXPECT_EQ(report.samples[1].tries, 2);
  EXPECT_EQ(report.samples[2].outcome, Outcome::kFailed);
  EXPECT_EQ(report.samples[2].tries, 1);
  const EvalTotals totals = add_up(report.samples);
  EXPECT_EQ(totals.score(), 1.0);
  EXPECT_EQ(totals.failed, 2);
  EXPECT_THAT(to_text(report), HasSubstr("2 requests failed"));
  EXPECT_EQ(judge(totals, std::nullopt), Verdict::kUnknown);
}

TEST(Eval, AServerThatIsGoneEndsTheRun) {
  auto server = std::make_unique<FakeServer>([](serve::Exchange& e) { e.send({}); });
  const HttpClient client(server->endpoint());
  server.reset();
  EvalOptions options = quick(0);
  options.parallel = 1;
  const EvalReport report = run_eval(options, client, "m", lines_up_to(20), [](const Sample&, const EvalTotals&) {});
  const EvalTotals totals = add_up(report.samples);
  EXPECT_EQ(totals.failed, 3);
  EXPECT_EQ(totals.not_asked, 17);
  EXPECT_THAT(report.problem, HasSubstr("does not answer"));
  // No answer is no score, and no 0 either.
  EXPECT_EQ(totals.score(), std::nullopt);
  EXPECT_EQ(to_json(report)["score"], nullptr);
  EXPECT_THAT(to_text(report), HasSubstr("gsm8k score none: 0 of 0"));
}

TEST(Eval, AStoppedRunKeepsWhatItHas) {
  FakeServer server([](serve::Exchange& e) { e.send({.body = completion(asked_number(e.request()))}); });
  std::atomic<bool> stop = false;
  EvalOptions options = quick(0);
  options.parallel = 1;
  const EvalReport report = run_eval(options, HttpClient(server.endpoint(), {}, &stop), "m", lines_up_to(9),
                                     [&](const Sample&, const EvalTotals& so_far) { stop = so_far.asked == 4; });
  EXPECT_EQ(add_up(report.samples).right, 4);
  EXPECT_EQ(add_up(report.samples).not_asked, 5);
  EXPECT_THAT(to_text(report), HasSubstr("5 questions were not asked: stopped"));
}

TEST(Verdict, HoldsWhateverTheMissingAnswersAre) {
  const auto verdict = [](int64_t right, int64_t wrong, int64_t failed, double baseline) {
    return judge({.right = right, .wrong = wrong, .failed = failed}, baseline);
  };
  EXPECT_EQ(verdict(92, 8, 0, 0.92), Verdict::kPass);
  EXPECT_EQ(verdict(91, 9, 0, 0.92), Verdict::kFail);
  EXPECT_EQ(verdict(92, 0, 8, 0.92), Verdict::kPass);
  EXPECT_EQ(verdict(91, 8, 1, 0.92), Verdict::kUnknown);
  EXPECT_EQ(verdict(90, 9, 1, 0.92), Verdict::kFail);
  EXPECT_EQ(verdict(0, 0, 0, 0.92), Verdict::kUnknown);
  EXPECT_EQ(judge({.right = 1, .not_asked = 1}, std::nullopt), Verdict::kUnknown);
  EXPECT_EQ(judge({.right = 0, .wrong = 1}, std::nullopt), Verdict::kPass);
}

TEST(EvalReport, ThePageShowsWhatAModelSaysAsText) {
  EvalReport report{.options = quick(0)};
  report.options.baseline = 0.5;
  report.samples.resize(1);
  report.samples[0].outcome = Outcome::kWrong;
  report.samples[0].response = "<script>alert(1)</script>";
  const std::string page = to_html(report);
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("FAIL: the baseline is 0.5"));
  const json object = to_json(report);
  EXPECT_EQ(object["verdict"], "fail");
  EXPECT_EQ(object["samples"][0]["outcome"], "wrong");
  EXPECT_EQ(object["accept_length"], nullptr);
}

}  // namespace
}  // namespace strobe::measure
