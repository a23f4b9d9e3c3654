#include "fake_stepper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace strobe::schedule {

int32_t FakeStepper::next_token(std::span<const int32_t> text, int32_t vocab) {
  uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const int32_t token : text) hash = (hash ^ static_cast<uint32_t>(token)) * 1099511628211ULL;
  return static_cast<int32_t>((hash >> 32) % static_cast<uint64_t>(vocab - 1)) + 1;
}

Ids FakeStepper::answer(Ids prompt, int32_t count) const {
  Ids said;
  for (int32_t i = 0; i < count; ++i) {
    said.push_back(next_token(prompt, options_.vocab));
    prompt.push_back(said.back());
  }
  return said;
}

engine::StepResult FakeStepper::run(const engine::StepPlan& plan) {
  const int step = steps_++;
  if (on_step) on_step(plan, step);
  EXPECT_FALSE(plan.sequences.empty());
  int32_t rows = 0;
  std::set<int32_t> pages;
  for (const auto& sequence : plan.sequences) {
    check(sequence);
    rows += static_cast<int32_t>(sequence.tokens.size()) + sequence.block_tokens - 1;
    // Pages that are written belong to one request alone; those behind which it reads may be shared.
    const auto written = static_cast<size_t>(sequence.first_position / options_.page_size);
    for (size_t i = written; i < sequence.pages.size(); ++i) {
      EXPECT_TRUE(pages.insert(sequence.pages[i]).second) << "page " << sequence.pages[i] << " is shared";
    }
  }
  EXPECT_LE(rows, options_.max_rows);
  for (const auto& sequence : plan.sequences) {
    for (int32_t i = 0; i < sequence.first_position / options_.page_size; ++i) {
      EXPECT_FALSE(pages.contains(sequence.pages[static_cast<size_t>(i)])) << "a shared page is written";
    }
  }
  engine::StepResult result;
  for (const auto& sequence : plan.sequences) result.outputs.push_back(run_one(sequence));
  return result;
}

void FakeStepper::check(const engine::StepSequence& sequence) const {
  const auto fed = static_cast<int32_t>(sequence.tokens.size());
  const int32_t end = sequence.first_position + fed;
  ASSERT_GT(fed, 0);
  ASSERT_LE(end, std::ssize(sequence.history));
  EXPECT_TRUE(
      std::equal(sequence.tokens.begin(), sequence.tokens.end(), sequence.history.begin() + sequence.first_position));
  EXPECT_EQ(sequence.wants_token, end == std::ssize(sequence.history));
  EXPECT_LE(sequence.prompt_tokens, std::ssize(sequence.history));
  EXPECT_TRUE(sequence.sampling != nullptr);
  EXPECT_GE(sequence.block_tokens, 1);
  EXPECT_LE(sequence.block_tokens, options_.block_tokens);
  EXPECT_TRUE(sequence.block_tokens == 1 || (fed == 1 && sequence.wants_token));
  const int32_t reach = end + sequence.block_tokens - 1;
  EXPECT_LE(reach, options_.max_context_tokens);
  ASSERT_LE(reach, std::ssize(sequence.pages) * options_.page_size);
  for (const int32_t page : sequence.pages) {
    ASSERT_GT(page, 0);
    ASSERT_LT(page, options_.pages);
  }
  for (int32_t p = 0; p < sequence.first_position; ++p) {
    ASSERT_EQ(slots_[slot(sequence, p)], sequence.history[static_cast<size_t>(p)]) << "key of position " << p;
  }
}

engine::StepOutput FakeStepper::run_one(const engine::StepSequence& sequence) {
  for (size_t i = 0; i < sequence.tokens.size(); ++i) {
    slots_[slot(sequence, sequence.first_position + static_cast<int32_t>(i))] = sequence.tokens[i];
  }
  engine::StepOutput output;
  if (!sequence.wants_token) return output;
  output.drafted = sequence.block_tokens - 1;
  const auto end = static_cast<int32_t>(sequence.history.size());
  output.accepted = accept ? accept(end, output.drafted) : end * 7 % (output.drafted + 1);
  Ids text(sequence.history.begin(), sequence.history.end());
  for (int32_t i = 0; i <= output.accepted; ++i) {
    output.tokens.push_back(next_token(text, options_.vocab));
    text.push_back(output.tokens.back());
    if (sequence.sampling->logprobs) output.logprobs.push_back(logprobs(output.tokens.back()));
  }
  for (int32_t i = 0; i < output.drafted; ++i) {
    slots_[slot(sequence, end + i)] = i < output.accepted ? output.tokens[static_cast<size_t>(i)] : kRefused;
  }
  return output;
}

engine::TokenLogprobs FakeStepper::logprobs(int32_t token) {
  return {.logprob = -static_cast<float>(token), .top = {{token, -static_cast<float>(token)}}};
}

size_t FakeStepper::slot(const engine::StepSequence& sequence, int32_t position) const {
  const int32_t page = sequence.pages[static_cast<size_t>(position / options_.page_size)];
  return static_cast<size_t>(page * options_.page_size + position % options_.page_size);
}

}  // namespace strobe::schedule
