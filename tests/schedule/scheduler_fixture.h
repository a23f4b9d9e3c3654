// A scheduler on a fake stepper. However a test ends, all pages must be free again.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <thread>

#include "fake_stepper.h"
#include "listener.h"
#include "schedule/scheduler.h"
#include "table_tokenizer.h"

namespace strobe::schedule {

// Token 7 is the text "07."
inline std::unique_ptr<TableTokenizer> number_tokenizer(int32_t vocab) {
  std::vector<std::string> tokens;
  for (int32_t i = 0; i < vocab; ++i) tokens.push_back(fmt::format("{:02}.", i));
  return std::make_unique<TableTokenizer>(std::move(tokens));
}

inline std::string number_text(const Ids& tokens) {
  std::string text;
  for (const int32_t token : tokens) text += fmt::format("{:02}.", token);
  return text;
}

inline void expect_end(const Listener& listener, FinishReason reason) {
  EXPECT_EQ(listener.wait().reason, reason);
}

class SchedulerFixture : public testing::Test {
 protected:
  struct Setup {
    FakeOptions fake;
    int32_t running = 4;
    int32_t queued = 100;
    bool prefix_cache = true;
    int32_t chunk = 0;
    DraftCost draft_cost;
    TraceRecorder* trace = nullptr;
  };

  // Set hooks of stepper() before the first submit.
  void start(const Setup& setup) {
    setup_ = setup;
    stepper_ = std::make_unique<FakeStepper>(setup.fake);
    pages_ = std::make_unique<cache::PagePool>(setup.fake.pages, setup.fake.page_size);
    tokenizer_ = number_tokenizer(setup.fake.vocab);
    scheduler_ = std::make_unique<Scheduler>(*stepper_, *pages_, *tokenizer_,
                                             SchedulerOptions{.max_running_requests = setup.running,
                                                              .max_queued_requests = setup.queued,
                                                              .max_context_tokens = setup.fake.max_context_tokens,
                                                              .vocab = setup.fake.vocab,
                                                              .eos_ids = {0},
                                                              .prefix_cache = setup.prefix_cache,
                                                              .chunk_tokens = setup.chunk,
                                                              .draft_cost = setup.draft_cost,
                                                              .trace = setup.trace});
  }
  // Ends the scheduler and counts.
  void stop() {
    if (!scheduler_) return;
    scheduler_.reset();
    EXPECT_EQ(pages_->free_pages(), pages_->capacity_pages()) << "pages were lost";
  }
  void TearDown() override { stop(); }

  [[nodiscard]] FakeStepper& stepper() { return *stepper_; }
  [[nodiscard]] Scheduler& scheduler() { return *scheduler_; }
  [[nodiscard]] Ids answer(const Ids& prompt, int32_t count) const { return stepper_->answer(prompt, count); }

  static Ids prompt(int32_t count, int32_t first = 1) {
    Ids ids(static_cast<size_t>(count));
    std::iota(ids.begin(), ids.end(), first);
    for (int32_t& id : ids) id %= 100;
    return ids;
  }
  static GenerateRequest request(Ids prompt_ids, int32_t max_new_tokens, std::string id = "") {
    GenerateRequest r{.id = std::move(id), .prompt_ids = std::move(prompt_ids)};
    r.stop.max_new_tokens = max_new_tokens;
    return r;
  }
  Listener submit(GenerateRequest r) {
    Listener listener;
    const auto id = scheduler().submit(std::move(r), listener.sink());
    EXPECT_TRUE(id.ok()) << (id.ok() ? "" : id.message());
    return listener;
  }
  // Holds the scheduler inside step `step` until the gate opens.
  void hold_step(int step, Gate& reached, Gate& go_on) {
    stepper().on_step = [step, &reached, &go_on](const engine::StepPlan&, int number) {
      if (number != step) return;
      reached.open();
      go_on.pass();
    };
  }
  // Stats are published after each step.
  GeneratorStats wait_for_stats(const std::function<bool(const GeneratorStats&)>& wanted) {
    for (int i = 0; i < 30000; ++i) {
      const GeneratorStats stats = scheduler().stats();
      if (wanted(stats)) return stats;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "stats never came";
    return scheduler().stats();
  }

 private:
  Setup setup_;
  std::unique_ptr<FakeStepper> stepper_;
  std::unique_ptr<cache::PagePool> pages_;
  std::unique_ptr<TableTokenizer> tokenizer_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace strobe::schedule
