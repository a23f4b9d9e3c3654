// The protocol's rules, against what the published scorers' regular expressions and Python literals give.
#include "measure/gsm8k.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "../text/scratch_folder.h"
#include "source_dir.h"

namespace strobe::measure {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kStandard = Gsm8kProtocol::kStandard;
constexpr auto kLegacy = Gsm8kProtocol::kFewShotLegacy;

struct NumberCase {
  const char* text;
  const char* standard;  // nullptr: none
  const char* legacy;
};

TEST(Gsm8kNumber, TheLastOneCounts) {
  const NumberCase cases[] = {
      {"#### 18", "18", "18"},
      {"18 - 3 = 15 eggs, 15*2 = $30.", "30", "30"},
      {"a total of 1,234,567", "1234567", "1234567"},
      {"it is -5", "-5", "5"},
      {"10-4", "-4", "4"},
      {"10 - 4", "4", "4"},
      {"costs 12.50 dollars", "12.5", "50"},
      {"18.00", "18", "0"},
      {"0.5", "0.5", "5"},
      {"-0.0", "0", "0"},
      {"1.2.3", "3", "3"},
      {"in 1.2.", "1.2", "2"},
      {"--7", "-7", "7"},
      {"so 7-", "7", "7"},
      {"agent 007", nullptr, nullptr},
      {"00", "0", "0"},
      {"agent 007.5", "7.5", "5"},
      {"5 then 08", nullptr, nullptr},
      {"no number", nullptr, nullptr},
      {"", nullptr, nullptr},
      {"-", nullptr, nullptr},
      {".", nullptr, nullptr},
      {"3 .5", "5", "5"},
      {"1,2", "12", "12"},
  };
  for (const NumberCase& c : cases) {
    EXPECT_EQ(answer_number(c.text, kStandard).value_or("none"), c.standard == nullptr ? "none" : c.standard) << c.text;
    EXPECT_EQ(answer_number(c.text, kLegacy).value_or("none"), c.legacy == nullptr ? "none" : c.legacy) << c.text;
  }
}

std::vector<Gsm8kLine> four_lines() {
  return {{"q1", "a1\n#### 1", 1}, {"q2", "a2\n#### 2", 2}, {"q3", "#### 3", 3}, {"q4", "#### 4", 4}};
}

TEST(Gsm8kPrompt, ExamplesAreTheFirstLinesWithTheirSolutions) {
  const auto lines = four_lines();
  EXPECT_EQ(few_shot_prefix(lines, 2), "Question: q1\nAnswer: a1\n#### 1\n\nQuestion: q2\nAnswer: a2\n#### 2\n\n");
  EXPECT_EQ(few_shot_prefix(lines, 0), "");
  EXPECT_EQ(question_prompt(lines[2]), "Question: q3\nAnswer:");
}

TEST(Gsm8kPrompt, OnlyTheLegacyProtocolAsksTheExamples) {
  const auto lines = four_lines();
  const auto asked = [&](Gsm8kProtocol protocol, size_t shots, size_t examples) {
    std::string text;
    for (const auto& line : asked_lines(lines, protocol, shots, examples)) text += line.question;
    return text;
  };
  EXPECT_EQ(asked(kStandard, 2, 0), "q3q4");
  EXPECT_EQ(asked(kStandard, 2, 1), "q3");
  EXPECT_EQ(asked(kStandard, 2, 100), "q3q4");
  EXPECT_EQ(asked(kStandard, 9, 1), "");
  EXPECT_EQ(asked(kLegacy, 2, 0), "q1q2q3q4");
  EXPECT_EQ(asked(kLegacy, 2, 3), "q1q2q3");
}

TEST(Gsm8kFile, TheCommittedProblemsAreReadWhole) {
  const auto lines = read_gsm8k(source_dir() / "tests/data/wordproblems.jsonl", kStandard);
  ASSERT_TRUE(lines.ok()) << lines.message();
  EXPECT_EQ(lines->size(), 200u);
  EXPECT_THAT((*lines)[0].question, HasSubstr("Fatima"));
  EXPECT_EQ(answer_number((*lines)[0].answer, kStandard), "63");
}

TEST(Gsm8kFile, ErrorsNameTheLineAndTheField) {
  const strobe::testing::ScratchFolder folder;
  const std::string path = folder.path() / "questions.jsonl";
  const auto refusal = [&](const std::string& text, Gsm8kProtocol protocol = kStandard) {
    std::ofstream(path) << text;
    const auto lines = read_gsm8k(path, protocol);
    return lines.ok() ? "" : lines.message();
  };
  const std::string good = "{\"question\": \"q\", \"answer\": \"#### 1\"}\n";
  EXPECT_EQ(refusal(good + "\n" + good), "");
  EXPECT_THAT(refusal(good + "{\"question\": \"q\"}\n"), AllOf(HasSubstr(path + ":2"), HasSubstr("answer")));
  EXPECT_THAT(refusal(good + "\nnonsense\n"), HasSubstr(path + ":3"));
  EXPECT_THAT(refusal("{\"question\": \"q\", \"answer\": \"none\"}"), HasSubstr("ends in a number"));
  const std::string price = "{\"question\": \"q\", \"answer\": \"#### 8.05\"}";
  EXPECT_EQ(refusal(price), "");
  EXPECT_THAT(refusal(price, kLegacy), HasSubstr("few-shot-legacy"));
  EXPECT_THAT(refusal("\n"), AllOf(HasSubstr("--data-path"), HasSubstr("no questions")));
  EXPECT_THAT(read_gsm8k(folder.path() / "no.jsonl", kStandard).message(), HasSubstr("no.jsonl"));
}

}  // namespace
}  // namespace strobe::measure
