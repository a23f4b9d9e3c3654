#include "tool/self_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "source_dir.h"
#include "tool/assembly.h"
#include "tool/text_adapter.h"

namespace strobe::tool {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SelfTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("self_test_" + std::to_string(getpid()));
    fs::create_directories(folder_ / "draft");
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const fs::path& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  std::string refusal(const std::string& json) {
    write("expected.json", json);
    const auto read = read_expected_acceptance(folder_ / "draft");
    return read.ok() ? "it was accepted" : read.message();
  }
  // pocket-k2 with the draft of `draft`.
  static Result<SelfTestVerdict> verdict(const fs::path& draft) {
    EngineOptions o;
    o.model_path = source_dir() / "models/pocket-k2/target";
    o.speculative_algorithm = "DFLASH";
    o.speculative_draft_model_path = draft;
    o.log_level = "error";
    STROBE_ASSIGN(auto system, assemble(o));
    const auto text = make_text_service(*system->tokenizer, o.model_path);
    start_scheduler(*system);
    return run_self_test(*system, *system->scheduler, *text);
  }

  fs::path folder_;
};

TEST_F(SelfTest, ReadsWhatIsExpected) {
  auto read = read_expected_acceptance(folder_ / "draft");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->source, "");
  EXPECT_GE(read->prompts.size(), 3U);
  write("expected.json", R"({"accept_length": 2.65, "prompts": ["Hi"]})");
  for (const char* name : {"draft", "draft/"}) {
    read = read_expected_acceptance(folder_ / name);
    ASSERT_TRUE(read.ok()) << read.message();
    EXPECT_EQ(read->accept_length, 2.65);
    EXPECT_EQ(read->draft_tokens, 0);
    EXPECT_EQ(read->prompts, (std::vector<std::string>{"Hi"}));
  }
  write("draft/expected.json", R"({"accept_length": 3, "draft_tokens": 16})");
  read = read_expected_acceptance(folder_ / "draft");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->draft_tokens, 16) << "the draft's own file comes first";
}

TEST_F(SelfTest, RefusesWhatIsNoExpectation) {
  EXPECT_THAT(refusal("{}"), AllOf(HasSubstr("expected.json"), HasSubstr("accept_length")));
  EXPECT_THAT(refusal(R"({"accept_length": "long"})"), HasSubstr("accept_length"));
  EXPECT_THAT(refusal(R"({"accept_length": 0.5})"), HasSubstr("0.5"));
  EXPECT_THAT(refusal(R"({"accept_length": 2, "prompts": []})"), HasSubstr("1 to 64 strings"));
  EXPECT_THAT(refusal(R"({"accept_length": 2, "prompts": [1]})"), HasSubstr("prompts"));
}

constexpr auto kGood = SelfTestVerdict::Fit::kGood;
constexpr auto kPoor = SelfTestVerdict::Fit::kPoor;
constexpr auto kBroken = SelfTestVerdict::Fit::kBroken;

SelfTestVerdict::Fit fit(const ExpectedAcceptance& expected, double accept_length, int64_t steps = 100,
                         int32_t draft_tokens = 8, double draft_cost = 0) {
  return judge_acceptance(expected, accept_length, steps, draft_tokens, draft_cost).fit;
}

TEST_F(SelfTest, JudgesByWhatIsKnown) {
  const ExpectedAcceptance known{.source = "expected.json", .accept_length = 5, .draft_tokens = 8};
  EXPECT_EQ(fit(known, 4.2), kGood);
  EXPECT_EQ(fit(known, 3.0), kGood);
  EXPECT_EQ(fit(known, 2.9), kPoor) << "the prompts may be harder than those that 5 is known of";
  EXPECT_EQ(fit(known, 1.04), kBroken);
  ExpectedAcceptance own = known;
  own.own_prompts = true;
  EXPECT_EQ(fit(own, 4.2), kGood);
  EXPECT_EQ(fit(own, 4.19), kBroken);
  const std::string text = judge_acceptance(own, 2.9, 100, 8, 0).text;
  EXPECT_THAT(text, AllOf(HasSubstr("2.90"), HasSubstr("at least 4.20"), HasSubstr("target_layer_ids")));
  EXPECT_EQ(fit(known, 1.5, 100, 4), kGood) << "another block size: nothing is known";
}

TEST_F(SelfTest, JudgesAPairThatNothingIsKnownOf) {
  EXPECT_EQ(fit({}, 1.0), kBroken);
  EXPECT_EQ(fit({}, 1.04), kBroken);
  EXPECT_EQ(fit({}, 1.05), kPoor);
  EXPECT_EQ(fit({}, 1.07), kPoor);
  EXPECT_EQ(fit({}, 1.49), kPoor);
  EXPECT_EQ(fit({}, 1.5), kGood);
  const std::string text = judge_acceptance({}, 1.07, 100, 8, 0).text;
  EXPECT_THAT(text, AllOf(HasSubstr("1.07"), HasSubstr("likely slower than plain decoding"), HasSubstr("1.5")));
  EXPECT_THAT(judge_acceptance({}, 1.6, 100, 8, 0).text, Not(HasSubstr("slower")));
}

TEST_F(SelfTest, JudgesByTheCostOfAStepWhereItIsKnown) {
  EXPECT_EQ(fit({}, 3.99, 100, 8, 4), kPoor);
  EXPECT_EQ(fit({}, 4, 100, 8, 4), kGood);
  EXPECT_EQ(fit({}, 1.3, 100, 8, 1.25), kGood);
  EXPECT_EQ(fit({}, 1.04, 100, 8, 1), kBroken) << "whatever it costs";
  const std::string text = judge_acceptance({}, 3.5, 100, 8, 4).text;
  EXPECT_THAT(text, AllOf(HasSubstr("3.50"), HasSubstr("costs 4.00 plain steps"), HasSubstr("without a draft")));
}

// A short length is one of slow decoding also where the file says so.
TEST_F(SelfTest, WhatDoesNotPayIsSaidOfAnExpectedLengthToo) {
  const ExpectedAcceptance known{.source = "expected.json", .accept_length = 1.4, .own_prompts = true};
  EXPECT_EQ(fit(known, 1.4), kPoor);
  EXPECT_EQ(fit(known, 1.2), kBroken);
}

TEST_F(SelfTest, TooFewStepsSayNothing) {
  EXPECT_EQ(fit({}, 1.0, 7), kGood);
  EXPECT_EQ(fit({}, 1.0, 8), kBroken);
}

TEST_F(SelfTest, PocketPassesAndADraftFedWithOtherLayersDoesNot) {
  const fs::path pocket = source_dir() / "models/pocket-k2";
  auto good = verdict(pocket / "draft");
  ASSERT_TRUE(good.ok()) << good.message();
  EXPECT_EQ(good->fit, kGood) << good->text;
  EXPECT_THAT(good->text, HasSubstr("7.50 expected by"));
  // The same weights, but features of other layers.
  fs::copy(pocket / "draft", folder_ / "draft");
  fs::copy(pocket / "expected.json", folder_);
  std::ifstream file(pocket / "draft/config.json");
  auto config = nlohmann::json::parse(file);
  ASSERT_EQ(config["dflash_config"]["target_layer_ids"], (std::vector<int>{1, 2, 4}));
  config["dflash_config"]["target_layer_ids"] = {0, 1, 3};
  write("draft/config.json", config.dump());
  const auto bad = verdict(folder_ / "draft");
  ASSERT_TRUE(bad.ok()) << bad.message();
  EXPECT_EQ(bad->fit, kBroken) << bad->text;
}

}  // namespace
}  // namespace strobe::tool
