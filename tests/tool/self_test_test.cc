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

TEST_F(SelfTest, Judges) {
  const ExpectedAcceptance known{.source = "expected.json", .accept_length = 5, .draft_tokens = 8};
  EXPECT_TRUE(judge_acceptance(known, 4.2, 100, 8).good);
  EXPECT_TRUE(judge_acceptance(known, 3.0, 100, 8).good);
  const auto bad = judge_acceptance(known, 2.9, 100, 8);
  EXPECT_FALSE(bad.good);
  EXPECT_THAT(bad.text, AllOf(HasSubstr("2.90"), HasSubstr("at least 3.00"), HasSubstr("target_layer_ids")));
  ExpectedAcceptance own = known;
  own.own_prompts = true;
  EXPECT_TRUE(judge_acceptance(own, 4.3, 100, 8).good);
  EXPECT_FALSE(judge_acceptance(own, 4.1, 100, 8).good);
  EXPECT_TRUE(judge_acceptance(known, 1.5, 100, 4).good) << "another block size: nothing is known";
  EXPECT_TRUE(judge_acceptance(known, 1.0, 3, 8).good) << "too few steps";
  EXPECT_FALSE(judge_acceptance({}, 1.0, 100, 8).good);
  EXPECT_TRUE(judge_acceptance({}, 1.4, 100, 8).good);
}

TEST_F(SelfTest, PocketPassesAndADraftFedWithOtherLayersDoesNot) {
  const fs::path pocket = source_dir() / "models/pocket-k2";
  auto good = verdict(pocket / "draft");
  ASSERT_TRUE(good.ok()) << good.message();
  EXPECT_TRUE(good->good) << good->text;
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
  EXPECT_FALSE(bad->good) << bad->text;
}

}  // namespace
}  // namespace strobe::tool
