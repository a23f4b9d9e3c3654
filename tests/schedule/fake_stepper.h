// A stepper that only does arithmetic. The next token is a function of all tokens before it, so every answer is known
// beforehand; and each plan is held to the contract of engine/step.h, against a cache that holds token ids in slots.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/step.h"

namespace strobe::schedule {

using Ids = std::vector<int32_t>;

struct FakeOptions {
  int32_t block_tokens = 1;
  int32_t max_rows = 64;
  int32_t vocab = 100;
  int32_t pages = 65;  // page 0 included
  int32_t page_size = 4;
  int32_t max_context_tokens = 200;
};

class FakeStepper : public engine::Stepper {
 public:
  explicit FakeStepper(const FakeOptions& options)
      : options_(options), slots_(static_cast<size_t>(options.pages * options.page_size), kNothing) {}

  // Called with each plan before it runs, on the scheduler's thread; may throw Failure. `step` counts from 0.
  std::function<void(const engine::StepPlan& plan, int step)> on_step;
  // How many of `drafts` stand; by default any number, by the position.
  std::function<int32_t(int32_t position, int32_t drafts)> accept;

  [[nodiscard]] int32_t max_block_tokens() const override { return options_.block_tokens; }
  [[nodiscard]] int32_t max_rows() const override { return options_.max_rows; }
  engine::StepResult run(const engine::StepPlan& plan) override;

  // What follows a text; never 0, which tests use as an end token.
  [[nodiscard]] static int32_t next_token(std::span<const int32_t> text, int32_t vocab);
  [[nodiscard]] Ids answer(Ids prompt, int32_t count) const;
  // What it says of a token, to those who ask for log probabilities.
  [[nodiscard]] static engine::TokenLogprobs logprobs(int32_t token);

 private:
  static constexpr int32_t kNothing = -1;
  static constexpr int32_t kRefused = -2;  // the key of a draft that did not stand

  void check(const engine::StepSequence& sequence) const;
  engine::StepOutput run_one(const engine::StepSequence& sequence);
  [[nodiscard]] size_t slot(const engine::StepSequence& sequence, int32_t position) const;

  FakeOptions options_;
  std::vector<int32_t> slots_;
  int steps_ = 0;
};

}  // namespace strobe::schedule
