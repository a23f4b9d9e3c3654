// What eval, bench and suite say to wrong command lines, and how flags reach a server of their own.
#include "tool/measured_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "../text/scratch_folder.h"
#include "source_dir.h"
#include "tool/bench.h"
#include "tool/eval.h"

namespace strobe::tool {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ToArguments, OnlyWhatDiffersFromTheDefaults) {
  EngineOptions options;
  EXPECT_THAT(to_arguments(options), IsEmpty());
  options.model_path = "a b";
  options.tp = 8;
  options.trust_remote_code = true;
  options.mem_fraction_static = 0.5;
  options.speculative_draft_window_size = 4096;
  EXPECT_THAT(to_arguments(options),
              ElementsAre("--model-path", "a b", "--tp-size", "8", "--trust-remote-code", "--mem-fraction-static",
                          "0.5", "--speculative-draft-window-size", "4096"));
}

TEST(MeasuredServerOptionsTest, FlagsAndAddressExcludeEachOther) {
  MeasuredServerOptions options;
  options.base_url = "http://localhost:1";
  EXPECT_TRUE(check(options).ok());
  options.engine.page_size = 128;
  EXPECT_THAT(check(options).message(), AllOf(HasSubstr("--page-size"), HasSubstr("--base-url")));
  options.engine.page_size = 64;
  options.base_url = "localhost:1";
  EXPECT_THAT(check(options).message(), HasSubstr("http://HOST[:PORT]"));
  options.base_url = "";
  options.engine.page_size = 0;
  EXPECT_THAT(check(options).message(), HasSubstr("--page-size 0"));
}

TEST(Gsm8kPlanTest, EachWrongFlagIsNamed) {
  const strobe::testing::ScratchFolder folder;
  const auto refusal = [&](const std::function<void(Gsm8kOptions&)>& change) {
    Gsm8kOptions options;
    options.data_path = source_dir() / "tests/data/wordproblems.jsonl";
    options.output_dir = folder.path() / "out";
    options.server.base_url = "http://localhost:1";
    change(options);
    const auto plan = plan_gsm8k(options);
    return plan.ok() ? "" : plan.message();
  };
  EXPECT_EQ(refusal([](Gsm8kOptions&) {}), "");
  EXPECT_THAT(refusal([](Gsm8kOptions& o) { o.data_path = ""; }), HasSubstr("--data-path is needed"));
  EXPECT_THAT(refusal([](Gsm8kOptions& o) { o.data_path = "/none"; }), HasSubstr("--data-path /none"));
  EXPECT_THAT(refusal([](Gsm8kOptions& o) { o.api = "x"; }),
              HasSubstr("--api x: accepted: completion, chat, generate"));
  EXPECT_THAT(refusal([](Gsm8kOptions& o) { o.protocol = "x"; }), HasSubstr("--protocol x"));
  EXPECT_THAT(refusal([](Gsm8kOptions& o) { o.baseline = 92; }), HasSubstr("--baseline 92"));
  EXPECT_THAT(refusal([](Gsm8kOptions& o) { o.parallel = 0; }), HasSubstr("--parallel 0"));
  EXPECT_THAT(refusal([](Gsm8kOptions& o) { o.num_shots = 200; }), HasSubstr("--num-shots 200"));
  EXPECT_EQ(refusal([](Gsm8kOptions& o) { o.num_shots = 200, o.protocol = "few-shot-legacy"; }), "");
  EXPECT_THAT(refusal([](Gsm8kOptions& o) { o.num_examples = -1; }), HasSubstr("--num-examples -1"));
  EXPECT_THAT(refusal([](Gsm8kOptions& o) { o.retries = 0; }), HasSubstr("--retries 0"));
  EXPECT_THAT(refusal([&](Gsm8kOptions& o) { o.output_dir = "/proc/none"; }), HasSubstr("--output-dir /proc/none"));
}

TEST(Gsm8kPlanTest, ProtocolsHaveTheirOwnDefaults) {
  Gsm8kOptions options;
  const strobe::testing::ScratchFolder folder;
  options.data_path = source_dir() / "tests/data/wordproblems.jsonl";
  options.output_dir = folder.path();
  const auto standard = plan_gsm8k(options);
  ASSERT_TRUE(standard.ok()) << standard.message();
  EXPECT_EQ(standard->options.api, measure::Api::kCompletion);
  EXPECT_EQ(standard->options.max_tokens, 2048);
  EXPECT_EQ(standard->options.baseline, std::nullopt);
  options.protocol = "few-shot-legacy";
  options.baseline = 0.9;
  const auto legacy = plan_gsm8k(options);
  ASSERT_TRUE(legacy.ok()) << legacy.message();
  EXPECT_EQ(legacy->options.api, measure::Api::kGenerate);
  EXPECT_EQ(legacy->options.max_tokens, 512);
  EXPECT_EQ(legacy->options.baseline, 0.9);
}

TEST(BenchOptionsTest, EachWrongFlagIsNamed) {
  const strobe::testing::ScratchFolder folder;
  const auto refusal = [&](const std::function<void(BenchOptions&)>& change) {
    BenchOptions options;
    options.output_dir = folder.path();
    options.server.base_url = "http://localhost:1";
    change(options);
    const auto checked = check(options);
    return checked.ok() ? "" : checked.message();
  };
  EXPECT_EQ(refusal([](BenchOptions&) {}), "");
  EXPECT_THAT(refusal([](BenchOptions& o) { o.batch_size = {1, 0}; }), HasSubstr("--batch-size 0"));
  EXPECT_THAT(refusal([](BenchOptions& o) { o.input_len = {0}; }), HasSubstr("--input-len 0"));
  EXPECT_THAT(refusal([](BenchOptions& o) { o.output_len = {}; }), HasSubstr("--output-len"));
  EXPECT_THAT(refusal([](BenchOptions& o) { o.dataset = "x"; }), HasSubstr("--dataset x"));
  EXPECT_THAT(refusal([](BenchOptions& o) { o.dataset = "jsonl"; }), HasSubstr("needs --data-path"));
  EXPECT_THAT(refusal([](BenchOptions& o) { o.data_path = "x"; }), HasSubstr("--data-path x"));
  EXPECT_THAT(refusal([](BenchOptions& o) { o.request_rate = 2; }), HasSubstr("without --open-loop"));
  EXPECT_THAT(refusal([](BenchOptions& o) { o.open_loop = true, o.batch_size = {8}; }), HasSubstr("--batch-size"));
  EXPECT_THAT(refusal([](BenchOptions& o) { o.open_loop = true, o.arrivals = "x"; }), HasSubstr("--arrivals x"));
  EXPECT_THAT(refusal([](BenchOptions& o) { o.spec_accept_length_threshold = -1; }), HasSubstr("threshold -1"));
}

}  // namespace
}  // namespace strobe::tool
