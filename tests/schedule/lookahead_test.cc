// What is done while a step runs: by the thread for it, and by the scheduler that has one.
#include "schedule/lookahead.h"

#include <atomic>

#include "scheduler_fixture.h"

namespace strobe::schedule {
namespace {

TEST(Lookahead, WorksWhenOpenOnly) {
  std::atomic<int> runs = 0;
  std::atomic<bool> open = false;
  {
    Lookahead lookahead([&] {
      EXPECT_TRUE(open);
      ++runs;
    });
    const auto wait_for_runs = [&](int wanted) {
      for (int i = 0; i < 30000 && runs < wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_EQ(runs, wanted);
    };
    lookahead.ring();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(runs, 0) << "it is shut";
    open = true;
    lookahead.open(false);
    wait_for_runs(1);  // it had been rung for
    lookahead.ring();
    wait_for_runs(2);
    lookahead.close();
    lookahead.open(true);
    wait_for_runs(3);
    lookahead.close();
    lookahead.open(false);
    lookahead.close();
    open = false;
  }
  EXPECT_EQ(runs, 3);
}

TEST(Lookahead, CloseWaitsForTheWork) {
  Gate begun;
  std::atomic<bool> done = false;
  Lookahead lookahead([&] {
    begun.open();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    done = true;
  });
  lookahead.open(true);
  begun.pass();
  lookahead.close();
  EXPECT_TRUE(done);
}

using SchedulerLookahead = SchedulerFixture;

TEST_F(SchedulerLookahead, WhoComesWhileAStepRunsIsAdmittedBeforeItEnds) {
  start({.fake = {.page_size = 4}, .running = 2});
  Gate reached, go_on;
  hold_step(2, reached, go_on);
  const Listener a = submit(request(prompt(6), 20));
  reached.pass();
  const Listener b = submit(request(prompt(5, 30), 20)), c = submit(request(prompt(5, 60), 20));
  // Two may run.
  wait_for_stats([](const GeneratorStats& s) { return s.running_requests == 2 && s.queued_requests == 1; });
  go_on.open();
  for (const Listener& one : {a, b, c}) expect_end(one, FinishReason::kLength);
  EXPECT_EQ(a.tokens(), answer(prompt(6), 20));
  EXPECT_EQ(b.tokens(), answer(prompt(5, 30), 20));
  EXPECT_EQ(c.tokens(), answer(prompt(5, 60), 20));
}

TEST_F(SchedulerLookahead, PagesOfTheNextStepAreTakenWhileOneRuns) {
  start({.fake = {.block_tokens = 4, .page_size = 4}});
  Gate reached, go_on;
  hold_step(1, reached, go_on);
  // Step 1 fills positions 7 to 10, in three pages; the next may reach 14, which is in a fourth.
  const Listener a = submit(request(prompt(7), 30));
  reached.pass();
  wait_for_stats([](const GeneratorStats& s) { return s.used_slots == 16; });
  go_on.open();
  expect_end(a, FinishReason::kLength);
  EXPECT_EQ(a.tokens(), answer(prompt(7), 30));
}

TEST_F(SchedulerLookahead, NobodyIsAdmittedJustBeforeHisBeginningIsKnown) {
  start({.fake = {.page_size = 4}});
  Gate reached, go_on;
  hold_step(0, reached, go_on);
  const Ids p = prompt(21);
  const Listener first = submit(request(p, 30));
  reached.pass();  // its prompt is being read
  const Listener second = submit(request(p, 30));
  const auto stats = wait_for_stats([](const GeneratorStats& s) { return s.queued_requests == 1; });
  EXPECT_EQ(stats.running_requests, 1);
  go_on.open();
  expect_end(first, FinishReason::kLength);
  expect_end(second, FinishReason::kLength);
  EXPECT_EQ(second.usage().cached_tokens, 20);
  EXPECT_EQ(second.tokens(), first.tokens());
}

TEST_F(SchedulerLookahead, WhoWasAdmittedDuringAFailedStepIsNotLost) {
  start({.fake = {.page_size = 4}});
  Gate reached, go_on;
  stepper().on_step = [&](const engine::StepPlan&, int step) {
    if (step != 2) return;
    reached.open();
    go_on.pass();
    throw std::runtime_error("the device is gone");
  };
  const Listener a = submit(request(prompt(6), 20));
  reached.pass();
  const Listener b = submit(request(prompt(5, 30), 20));
  wait_for_stats([](const GeneratorStats& s) { return s.running_requests == 2; });
  go_on.open();
  expect_end(a, FinishReason::kAbort);
  expect_end(b, FinishReason::kLength);
  EXPECT_EQ(b.tokens(), answer(prompt(5, 30), 20));
}

TEST_F(SchedulerLookahead, AnAbortOfOneAdmittedDuringAStepGivesItsPagesBack) {
  start({.fake = {.page_size = 4}});
  Gate reached, go_on;
  hold_step(2, reached, go_on);
  const Listener a = submit(request(prompt(6), 20));
  reached.pass();
  const Listener b = submit(request(prompt(5, 30), 20, "b"));
  wait_for_stats([](const GeneratorStats& s) { return s.running_requests == 2; });
  scheduler().abort("b");
  go_on.open();
  expect_end(b, FinishReason::kAbort);
  expect_end(a, FinishReason::kLength);
  EXPECT_TRUE(b.tokens().empty());
}

}  // namespace
}  // namespace strobe::schedule
