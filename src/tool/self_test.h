// The accept self-test (--spec-self-test): a draft that does not fit its target leaves every text right and only makes
// it slow, so a few stored prompts are answered at start and their accept length is compared with what the pair is
// known for.
//
// What is known lies in expected.json beside the draft's folder or in it:
//   {"accept_length": 7.5, "draft_tokens": 8, "prompts": ["...", ...]}      user turns, greedy, up to 64 tokens each
// Without the file, built-in prompts tell a draft that guesses nothing, and one that guesses too little to pay.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "schedule/generator.h"
#include "serve/text_service.h"
#include "tool/plan.h"

namespace strobe::tool {

struct ExpectedAcceptance {
  std::string source;  // the file, or empty
  double accept_length = 0;
  int32_t draft_tokens = 0;  // 0: of any block size
  bool own_prompts = false;  // the length is that of these prompts, not of the pair in general
  std::vector<std::string> prompts;
};

// Errors name file and field.
Result<ExpectedAcceptance> read_expected_acceptance(const std::string& draft_folder);

struct SelfTestVerdict {
  enum class Fit {
    kGood,    // or too little was measured to say
    kPoor,    // less than expected, or so little that plain decoding is likely faster: a warning
    kBroken,  // the draft guesses nothing, or far from what it guessed on these very prompts: "strict" refuses it
  };
  Fit fit = Fit::kGood;
  std::string text;  // a line for the log
};

// Pure: what an accept length measured over `steps` verify steps says. draft_cost: of a step with a draft in plain
// steps, where texts that give less are decoded plainly; 0: every step has a draft.
[[nodiscard]] SelfTestVerdict judge_acceptance(const ExpectedAcceptance& expected, double accept_length, int64_t steps,
                                               int32_t draft_tokens, double draft_cost);

// Runs it; `text` makes chats of the prompts.
Result<SelfTestVerdict> run_self_test(const Plan& plan, schedule::Generator& generator, const serve::TextService& text);

}  // namespace strobe::tool
