// Streams, figures, cases and verdicts, against a server written here.
#include "measure/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../text/scratch_folder.h"
#include "fake_server.h"
#include "measure/bench_report.h"
#include "measure/dataset.h"
#include "measure/svg_plot.h"

namespace strobe::measure {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string event(int index, int64_t tokens, const char* finish = nullptr) {
  json meta = {{"completion_tokens", tokens}, {"prompt_tokens", 3}, {"finish_reason", nullptr}};
  if (finish != nullptr) {
    meta["finish_reason"] = {{"type", finish}};
    meta["spec_verify_ct"] = 2;
    meta["spec_accepted_drafts"] = 3;
    meta["spec_accept_histogram"] = {0, 1, 1};
  }
  return json{{"text", ""}, {"output_ids", {1, 2}}, {"index", index}, {"meta_info", meta}}.dump();
}

TEST(GenerateStream, AnEventOfSeveralTokensIsSeveralEqualGaps) {
  GenerateStream stream(2);
  stream.event(event(0, 1), 1.0);
  stream.event(event(1, 2), 1.5);
  stream.event(event(0, 5), 3.0);
  stream.event(event(0, 6, "length"), 3.5);
  EXPECT_THAT(stream.problem(), HasSubstr("request 1 of the batch has no end"));
  stream.event(event(1, 2, "length"), 9.0);
  EXPECT_THAT(stream.problem(), HasSubstr("[DONE]"));
  stream.event("[DONE]", 9.1);
  EXPECT_EQ(stream.problem(), "");
  const RequestRecord& first = stream.records()[0];
  EXPECT_DOUBLE_EQ(first.first_s, 1.0);
  EXPECT_DOUBLE_EQ(first.last_s, 3.5);
  EXPECT_THAT(first.gaps_s, ElementsAre(0.5, 0.5, 0.5, 0.5, 0.5));
  EXPECT_EQ(first.accept_histogram, (std::vector<int64_t>{0, 1, 1}));
  EXPECT_THAT(stream.records()[1].gaps_s, IsEmpty());
  EXPECT_EQ(stream.records()[1].first_event_tokens, 2);
}

TEST(GenerateStream, WhatIsWrongIsNamed) {
  const auto problem = [](const std::string& data) {
    GenerateStream stream(1);
    stream.event(data, 1);
    stream.event("[DONE]", 2);
    return stream.problem();
  };
  EXPECT_THAT(problem(R"({"error": {"message": "no room"}})"), HasSubstr("no room"));
  EXPECT_THAT(problem("{"), HasSubstr("cannot be read"));
  EXPECT_THAT(problem("[]"), HasSubstr("cannot be read"));
  EXPECT_THAT(problem(event(1, 1)), HasSubstr("request 1 of 1"));
  EXPECT_THAT(problem(event(0, 1, "abort")), HasSubstr("'abort'"));
  EXPECT_EQ(problem(event(0, 1, "length")), "");
}

TEST(Figures, AreThoseOfTheProtocol) {
  std::vector<RequestRecord> records(2);
  records[0] = {
      .first_s = 1, .last_s = 5, .gaps_s = {2, 2}, .completion_tokens = 3, .verify_steps = 1, .accepted_tokens = 1};
  records[1] = {
      .first_s = 2, .last_s = 6, .gaps_s = {4}, .completion_tokens = 2, .verify_steps = 1, .accepted_tokens = 4};
  CaseResult result;
  fill_figures(records, {{1, 2, 3}, {4, 5, 6}}, 6.5, result);
  EXPECT_DOUBLE_EQ(result.ttft_s, 2);
  EXPECT_DOUBLE_EQ(result.input_throughput, 3);
  EXPECT_DOUBLE_EQ(result.output_throughput, 5 / 4.5);
  EXPECT_DOUBLE_EQ(result.overall_throughput, 11 / 6.5);
  EXPECT_DOUBLE_EQ(result.accept_length.value(), 3.5);
  EXPECT_NEAR(result.itl_ms.mean, 8000.0 / 3, 1e-9);
}

TEST(Misfit, IsSaidInNumbers) {
  const ServerFacts facts = {.token_capacity = 100, .max_running_requests = 4, .max_context_tokens = 60};
  EXPECT_EQ(misfit({.batch_size = 2, .input_len = 40, .output_len = 10}, facts), "");
  EXPECT_THAT(misfit({.batch_size = 1, .input_len = 60, .output_len = 1}, facts), HasSubstr("context of 60"));
  EXPECT_THAT(misfit({.batch_size = 3, .input_len = 30, .output_len = 10}, facts), HasSubstr("cache of 100"));
  EXPECT_THAT(misfit({.batch_size = 5, .input_len = 1, .output_len = 1}, facts), HasSubstr("batch of 5"));
  EXPECT_EQ(misfit({.batch_size = 5, .input_len = 1, .output_len = 1}, {}), "");
}

// Answers as a model server that emits two tokens a request.
void serve_like_a_model(serve::Exchange& e, const std::string& generate_finish = "length") {
  const std::string path = e.request().path;
  if (path == "/v1/models") return e.send({.body = R"({"data": [{"id": "m"}]})"});
  if (path == "/server_info") {
    return e.send({.body = R"({"internal_states": [{"avg_spec_accept_length": 4.5, "last_gen_throughput": 9,
                                "memory_usage": {"token_capacity": 50}, "effective_max_running_requests_per_dp": 8}]})"});
  }
  if (path == "/flush_cache") return e.send({.body = ""});
  const json body = json::parse(e.request().body);
  const bool list = body["input_ids"][0].is_array();
  e.begin_stream({.content_type = "text/event-stream"});
  for (size_t i = 0; i < (list ? body["input_ids"].size() : 1); ++i) {
    e.write("data: " + event(static_cast<int>(i), 1) + "\n\n");
    e.write("data: " + event(static_cast<int>(i), 2, generate_finish.c_str()) + "\n\n");
  }
  e.write("data: [DONE]\n\n");
  e.end();
}

const MakePrompts kThreeTokens = [](const BenchCase& c) {
  return std::vector<std::vector<int32_t>>(static_cast<size_t>(c.batch_size), {7, 8, 9});
};

TEST(RunCase, SendsOneCallAndAsksTheServer) {
  FakeServer server([](serve::Exchange& e) { serve_like_a_model(e); });
  const CaseResult result =
      run_case(HttpClient(server.endpoint()), {.batch_size = 2, .input_len = 3, .output_len = 2}, kThreeTokens);
  ASSERT_EQ(result.problem, "");
  EXPECT_EQ(result.input_tokens, 6);
  EXPECT_EQ(result.output_tokens, 4);
  EXPECT_DOUBLE_EQ(result.accept_length.value(), 4.5);
  EXPECT_EQ(result.accept_histogram, (std::vector<int64_t>{0, 2, 2}));
  const auto requests = server.requests();
  ASSERT_GE(requests.size(), 2u);
  EXPECT_EQ(requests[0].path, "/flush_cache");
  EXPECT_EQ(json::parse(requests[1].body), json::parse(R"({"input_ids": [[7, 8, 9], [7, 8, 9]], "stream": true,
              "sampling_params": {"temperature": 0, "max_new_tokens": 2, "ignore_eos": true, "stream_interval": 1}})"));
}

TEST(RunCase, AFailureIsTheCasesProblem) {
  FakeServer refusing([](serve::Exchange& e) {
    if (e.request().path == "/generate") return e.send({.status = 400, .body = "no"});
    serve_like_a_model(e);
  });
  EXPECT_THAT(run_case(HttpClient(refusing.endpoint()), {.output_len = 2}, kThreeTokens).problem,
              HasSubstr("/generate: answered 400"));
  FakeServer aborting([](serve::Exchange& e) { serve_like_a_model(e, "abort"); });
  EXPECT_THAT(run_case(HttpClient(aborting.endpoint()), {.output_len = 2}, kThreeTokens).problem, HasSubstr("abort"));
}

TEST(OpenLoopRun, CountsAnsweredAndFailed) {
  std::atomic<int> calls = 0;
  FakeServer server([&](serve::Exchange& e) {
    if (e.request().path == "/generate" && ++calls == 2) return e.send({.status = 503, .body = "full"});
    serve_like_a_model(e);
  });
  int64_t last_done = 0;
  const OpenLoopResult result =
      run_open_loop(HttpClient(server.endpoint()), {.requests = 5, .max_concurrency = 2},
                    {.input_len = 3, .output_len = 2}, kThreeTokens, [&](int64_t done) { last_done = done; });
  EXPECT_EQ(result.failed, 1);
  EXPECT_THAT(result.first_problem, HasSubstr("503"));
  EXPECT_EQ(result.figures.bench_case.batch_size, 4);
  EXPECT_EQ(result.figures.output_tokens, 8);
  EXPECT_EQ(result.tpot_ms.count, 4);
  EXPECT_EQ(last_done, 5);
  EXPECT_GT(result.most_late_s, 0);  // two clients for five requests that arrive together
  const BenchReport report{.load = OpenLoop{}, .open = result};
  EXPECT_EQ(judge(report), Verdict::kUnknown);
}

// Who is stopped has no failures: what was answered counts, the rest was not asked.
TEST(OpenLoopRun, StoppedKeepsWhatItHas) {
  std::atomic<bool> stop = false;
  std::atomic<int> calls = 0;
  FakeServer server([&](serve::Exchange& e) {
    if (e.request().path == "/generate" && ++calls == 3) {
      stop = true;
      e.begin_stream({.content_type = "text/event-stream"});  // and never an event
      return;
    }
    serve_like_a_model(e);
  });
  OpenLoopResult result = run_open_loop(HttpClient(server.endpoint(), {}, &stop), {.requests = 5, .max_concurrency = 1},
                                        {.input_len = 3, .output_len = 2}, kThreeTokens, [](int64_t) {});
  EXPECT_EQ(result.figures.bench_case.batch_size, 2);
  EXPECT_EQ(result.failed, 0);
  EXPECT_EQ(result.not_asked, 3);
  const BenchReport report{.load = OpenLoop{}, .open = result};
  EXPECT_EQ(judge(report), Verdict::kUnknown);
  EXPECT_EQ(verdict_line(report), "not measured: stopped before the end");
  EXPECT_THAT(to_markdown(report), HasSubstr("3 requests were not asked: stopped before the end"));
  EXPECT_EQ(to_json(report)["open_loop"]["output_tokens"], 4);
  EXPECT_EQ(plots(report)[0].name, "latency");
}

CaseResult case_with(std::optional<double> accept_length) {
  CaseResult result{.bench_case = {.batch_size = 1}};
  result.accept_length = accept_length;
  return result;
}

TEST(BenchReportText, CasesThatWereNotReachedAreNamed) {
  CaseResult reached = case_with(3), left;
  reached.bench_case = {.batch_size = 2, .output_len = 16};
  reached.input_tokens = 90;
  left.bench_case.batch_size = 8;
  left.problem = kStoppedEarly;
  const BenchReport report{.cases = {reached, left}};
  EXPECT_THAT(to_markdown(report),
              AllOf(HasSubstr("| 2 | 45 (mean) | 16 |"), HasSubstr("| 8 | as is | 0 | stopped before the end |")));
  EXPECT_EQ(verdict_line(report), "not measured: stopped before the end");
}

TEST(BenchVerdict, NeedsEveryCaseAndAnAcceptLength) {
  BenchReport report{.cases = {case_with(1.5), case_with(2.5)}};
  EXPECT_EQ(judge(report), Verdict::kPass);
  report.threshold = 2.0;
  EXPECT_EQ(judge(report), Verdict::kPass);
  report.threshold = 2.1;
  EXPECT_EQ(judge(report), Verdict::kFail);
  report.cases[1].problem = "gone";
  EXPECT_EQ(judge(report), Verdict::kUnknown);
  report.cases = {case_with(std::nullopt)};
  EXPECT_EQ(judge(report), Verdict::kUnknown);
  report.cases[0].skipped = "too large";
  report.threshold.reset();
  EXPECT_EQ(judge(report), Verdict::kUnknown);
}

TEST(BenchReportText, FlatteryIsSaid) {
  CaseResult result = case_with(7);
  EXPECT_EQ(flattery(result), "");
  result.output_repeated_share = 0.8;
  EXPECT_THAT(flattery(result), AllOf(HasSubstr("80% of the output's"), Not(HasSubstr("prompts'"))));
  EXPECT_THAT(to_markdown({.model = "m", .cases = {result}}), AllOf(HasSubstr("| 1 | as is | 0 |"), HasSubstr("80%")));
}

TEST(BenchPlots, StandAlone) {
  CaseResult result = case_with(3);
  result.accept_histogram = {1, 1, 2};
  result.output_throughput = 120;
  const auto all = plots({.cases = {result, result}});
  ASSERT_EQ(all.size(), 4u);
  for (const NamedPlot& plot : all) {
    EXPECT_THAT(plot.svg, AllOf(HasSubstr("<svg"), HasSubstr("</svg>"), Not(HasSubstr("nan")))) << plot.name;
    EXPECT_THAT(kPlotNames, Contains(plot.name));
  }
  EXPECT_THAT(all[0].svg, HasSubstr("<title>1: 120</title>"));
  EXPECT_THAT(all[3].svg, HasSubstr("<title>1: 0.75</title>"));
  EXPECT_THAT(plots({}), IsEmpty());
  EXPECT_THAT(to_svg({.title = "a<b", .labels = {"x"}, .series = {{"s", {0}}}}), HasSubstr("a&lt;b"));
  EXPECT_DOUBLE_EQ(scale_end(0.03), 0.05);
  EXPECT_DOUBLE_EQ(scale_end(100), 100);
  EXPECT_DOUBLE_EQ(scale_end(0), 1);
}

TEST(Datasets, AreReadAndCut) {
  const strobe::testing::ScratchFolder folder;
  folder.write("a.jsonl", "{\"prompt\": \"p\"}\n\n{\"question\": \"q\"}\n");
  folder.write("b.jsonl", "{\"prompt\": \"p\"}\n{\"text\": 1}\n");
  folder.write("s.json", R"([{"conversations": [{"from": "system", "value": "x"}, {"from": "human", "value": "hi"}]},
                             {"conversations": []}])");
  const std::string path = folder.path();
  EXPECT_THAT(read_prompt_lines(path + "/a.jsonl").value(), ElementsAre("p", "Question: q\nAnswer:"));
  EXPECT_THAT(read_prompt_lines(path + "/b.jsonl").message(), HasSubstr("b.jsonl:2"));
  EXPECT_THAT(read_sharegpt(path + "/s.json").value(), ElementsAre("hi"));
  EXPECT_THAT(read_sharegpt(path + "/a.jsonl").message(), HasSubstr("a.jsonl"));
  EXPECT_THAT(read_sharegpt(path + "/none").message(), HasSubstr("--data-path"));
  const std::vector<int32_t> ids = {1, 2, 3};
  EXPECT_THAT(fit(ids, 5), ElementsAre(1, 2, 3, 1, 2));
  EXPECT_THAT(fit(ids, 2), ElementsAre(1, 2));
  EXPECT_THAT(fit(ids, 0), ElementsAre(1, 2, 3));
  EXPECT_THAT(consecutive_ids(8, 4, 10), ElementsAre(8, 9, 0, 1));
}

}  // namespace
}  // namespace strobe::measure
