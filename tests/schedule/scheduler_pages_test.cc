// What requests do about pages: waiting for them, giving them up, and finding them in the prefix cache.
#include <array>

#include "schedule/scheduler.h"
#include "scheduler_fixture.h"

namespace strobe::schedule {
namespace {

using SchedulerPagesTest = SchedulerFixture;

// ---- waiting ----

TEST_F(SchedulerPagesTest, RequestsWaitForPagesInTheirOrder) {
  start({.fake = {.pages = 11, .page_size = 4}});  // 40 slots
  Gate reached, go_on;
  hold_step(0, reached, go_on);
  std::vector<int> order;
  std::mutex mutex;
  const auto submit_noted = [&](int who, GenerateRequest r) {
    Listener listener;
    const auto id = scheduler().submit(std::move(r), listener.sink([&, who](const Chunk& chunk) {
      std::lock_guard lock(mutex);
      if (chunk.usage.completion_tokens == 1) order.push_back(who);
    }));
    EXPECT_TRUE(id.ok());
    return listener;
  };
  const Listener a = submit_noted(0, request(prompt(26), 8));  // 7 pages at once
  reached.pass();
  const Listener b = submit_noted(1, request(prompt(14, 50), 8));  // 4 pages, which are not there
  const Listener c = submit_noted(2, request(prompt(2), 2));       // 1 page, but it came later
  go_on.open();
  for (const Listener& one : {a, b, c}) expect_end(one, FinishReason::kLength);
  stop();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(b.tokens(), answer(prompt(14, 50), 8));
  EXPECT_GT(b.usage().queue_ms, 0);
}

// ---- preemption ----

// Steps hold back now and then, by the request's own history: that goes on, too.
TEST_F(SchedulerPagesTest, PreemptedRequestsGoOnAsIfNothingHadHappened) {
  const FakeOptions small{.block_tokens = 4, .pages = 21, .page_size = 4, .max_context_tokens = 80};
  FakeOptions large = small;
  large.pages = 200;
  std::array<std::vector<Usage>, 2> usages;
  for (const bool scarce : {false, true}) {
    for (const bool prefix_cache : {false, true}) {
      start({.fake = scarce ? small : large, .prefix_cache = prefix_cache, .draft_cost = 1.6});
      stepper().accept = [](int32_t position, int32_t drafts) { return position < 25 ? 0 : drafts; };
      std::vector<Listener> heard;
      for (int32_t i = 0; i < 4; ++i) heard.push_back(submit(request(prompt(6 + i, 20 * i), 50)));
      int32_t preemptions = 0;
      for (int32_t i = 0; i < 4; ++i) {
        const Listener& one = heard[static_cast<size_t>(i)];
        expect_end(one, FinishReason::kLength);
        EXPECT_EQ(one.tokens(), answer(prompt(6 + i, 20 * i), 50));
        preemptions += one.usage().preemptions;
        usages[scarce].push_back(one.usage());
      }
      EXPECT_EQ(preemptions > 0, scarce);
      EXPECT_EQ(heard[0].usage().preemptions, 0) << "the oldest never gives way";
      EXPECT_EQ(scheduler().stats().preemptions_total, preemptions);
      stop();
    }
  }
  ASSERT_EQ(usages[0].size(), usages[1].size());
  for (size_t i = 0; i < usages[0].size(); ++i) {
    EXPECT_EQ(usages[0][i].accept_histogram, usages[1][i].accept_histogram) << "blocks began elsewhere";
    EXPECT_EQ(usages[0][i].decode_steps, usages[1][i].decode_steps);
    EXPECT_EQ(usages[0][i].held_back_steps, usages[1][i].held_back_steps);
    EXPECT_GT(usages[0][i].held_back_steps, 0);
    EXPECT_GT(usages[0][i].accepted_tokens, 5);
    EXPECT_EQ(usages[1][i].completion_tokens, 50);
  }
}

// ---- the prefix cache ----

TEST_F(SchedulerPagesTest, AKnownBeginningIsNotReadAgain) {
  start({.fake = {.block_tokens = 4, .page_size = 4}});
  std::vector<int32_t> first_positions;
  stepper().on_step = [&](const engine::StepPlan& plan, int) {
    if (plan.sequences[0].block_tokens == 1) first_positions.push_back(plan.sequences[0].first_position);
  };
  // Exactly a page, and one token less and more.
  for (const int32_t length : {3, 4, 5, 8, 9, 21}) {
    const Ids p = prompt(length, length);
    for (const bool again : {false, true}) {
      const Listener heard = submit(request(p, 10));
      expect_end(heard, FinishReason::kLength);
      EXPECT_EQ(heard.tokens(), answer(p, 10)) << length;
      EXPECT_EQ(heard.usage().prompt_tokens, length);
      EXPECT_EQ(heard.usage().cached_tokens, again ? (length - 1) / 4 * 4 : 0) << "the last token is always fed";
      EXPECT_EQ(first_positions.back(), heard.usage().cached_tokens);
    }
  }
  EXPECT_EQ(scheduler().stats().cached_tokens_total, 0 + 0 + 4 + 4 + 8 + 20);
}

TEST_F(SchedulerPagesTest, AConversationFindsItsAnswerCached) {
  start({.fake = {.block_tokens = 4, .page_size = 4}});
  stepper().accept = [](int32_t, int32_t drafts) { return drafts; };
  const Ids p = prompt(6);
  GenerateRequest r = request(p, 40);
  const Ids said = answer(p, 11);
  r.stop.stop_token_ids = {said[10]};  // inside a block, of which more was accepted
  const Listener first = submit(std::move(r));
  expect_end(first, FinishReason::kStop);
  ASSERT_EQ(first.tokens(), said);
  Ids next = p;
  next.insert(next.end(), said.begin(), said.end());
  const Ids beyond = answer(next, 3);  // accepted, but never told
  next.insert(next.end(), beyond.begin(), beyond.end());
  next.push_back(77);
  const Listener second = submit(request(next, 5));
  expect_end(second, FinishReason::kLength);
  EXPECT_EQ(second.tokens(), answer(next, 5));
  EXPECT_EQ(second.usage().cached_tokens, 16) << "17 tokens were told: four pages";
}

TEST_F(SchedulerPagesTest, RequestsThatRunTogetherShareTheirBeginning) {
  start({.fake = {.page_size = 4}});
  Gate reached, go_on;
  hold_step(2, reached, go_on);
  const Ids p = prompt(21);
  const Listener first = submit(request(p, 30));
  reached.pass();
  const Listener second = submit(request(p, 30));
  go_on.open();
  expect_end(first, FinishReason::kLength);
  expect_end(second, FinishReason::kLength);
  EXPECT_EQ(second.usage().cached_tokens, 20);
  EXPECT_EQ(second.tokens(), first.tokens());
}

TEST_F(SchedulerPagesTest, ThePrefixCacheGivesItsPagesToRequests) {
  start({.fake = {.pages = 21, .page_size = 4, .max_context_tokens = 80}});
  for (int32_t i = 0; i < 10; ++i) {
    const Ids p = prompt(30, 7 * i);
    const Listener heard = submit(request(p, 30));
    expect_end(heard, FinishReason::kLength);
    EXPECT_EQ(heard.tokens(), answer(p, 30));
  }
  const auto stats = scheduler().stats();
  EXPECT_EQ(stats.used_slots, 0);
  EXPECT_GT(stats.cached_slots, 0);
}

TEST_F(SchedulerPagesTest, ThePrefixCacheCanBeOff) {
  start({.prefix_cache = false});
  for (int i = 0; i < 2; ++i) {
    const Listener heard = submit(request(prompt(30), 5));
    expect_end(heard, FinishReason::kLength);
    EXPECT_EQ(heard.usage().cached_tokens, 0);
  }
  EXPECT_EQ(scheduler().stats().cached_slots, 0);
}

TEST_F(SchedulerPagesTest, FlushForgetsWhenNothingRuns) {
  start({});
  Gate reached, go_on;
  hold_step(1, reached, go_on);
  const Listener running = submit(request(prompt(30), 5));
  reached.pass();
  const auto refused = scheduler().flush_cache();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.message(), "the cache is in use by 1 requests; flush it when there are none");
  go_on.open();
  running.wait();
  EXPECT_TRUE(scheduler().flush_cache().ok()) << "at once behind the last chunk";
  EXPECT_EQ(scheduler().stats().cached_slots, 0);
  const Listener again = submit(request(prompt(30), 5));
  again.wait();
  EXPECT_EQ(again.usage().cached_tokens, 0);
}

}  // namespace
}  // namespace strobe::schedule
