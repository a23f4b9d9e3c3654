// Many clients at once, some of whom lose patience: every one hears the right tokens, and one end.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "scheduler_fixture.h"

namespace strobe::schedule {
namespace {

constexpr int kClients = 8;
constexpr int kRequestsEach = 25;

class SchedulerStress : public SchedulerFixture {
 protected:
  // One request: submitted, perhaps aborted after a while, judged.
  void one_request(std::mt19937& random, std::atomic<int>& aborted) {
    Ids ids(1 + random() % 30);
    // Half of them begin with one of two long texts.
    if (random() % 2 == 0) {
      for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i + 40 * (random() % 100 == 0));
    } else {
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % 100);
    }
    GenerateRequest r = request(ids, 1 + static_cast<int32_t>(random() % 40));
    const int32_t most = r.stop.max_new_tokens;
    r.drafting = static_cast<Drafting>(random() % 3);
    Listener heard;
    const auto id = scheduler().submit(std::move(r), heard.sink());
    ASSERT_TRUE(id.ok()) << id.message();
    if (random() % 3 == 0) {
      heard.wait_for_chunks(random() % 5);
      scheduler().abort(*id);
    }
    const Finish finish = heard.wait();
    const Ids said = heard.tokens();
    EXPECT_EQ(said, answer(ids, static_cast<int32_t>(said.size())));
    EXPECT_EQ(heard.usage().completion_tokens, std::ssize(said));
    EXPECT_EQ(heard.text(), number_text(said));
    if (finish.reason == FinishReason::kAbort) {
      ++aborted;
      EXPECT_LT(std::ssize(said), most);
    } else {
      EXPECT_EQ(finish.reason, FinishReason::kLength);
      EXPECT_EQ(std::ssize(said), most);
    }
  }
};

TEST_F(SchedulerStress, TwoHundredRequestsOfEightClients) {
  // Room for about three requests at a time, and steps of 24 rows: all kinds of waiting, sharing and giving way happen.
  start({.fake = {.block_tokens = 4, .max_rows = 24, .pages = 25, .page_size = 4, .max_context_tokens = 80},
         .running = 6,
         .draft_cost = 2.7});
  std::atomic<int> aborted = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([this, c, &aborted] {
      std::mt19937 random(static_cast<unsigned>(c));
      for (int i = 0; i < kRequestsEach; ++i) one_request(random, aborted);
    });
  }
  std::atomic<bool> done = false;
  std::thread watcher([&] {
    while (!done) {
      const GeneratorStats stats = scheduler().stats();
      EXPECT_LE(stats.running_requests, 6);
      EXPECT_LE(stats.used_slots, stats.total_slots);
      std::this_thread::yield();
    }
  });
  for (std::thread& client : clients) client.join();
  done = true;
  watcher.join();
  const auto stats =
      wait_for_stats([](const GeneratorStats& s) { return s.requests_total == kClients * kRequestsEach; });
  EXPECT_EQ(stats.aborted_total, aborted.load());
  EXPECT_GT(aborted.load(), 0);
  EXPECT_LT(aborted.load(), kClients * kRequestsEach / 2);
  EXPECT_GT(stats.cached_tokens_total, 0);
  wait_for_stats([](const GeneratorStats& s) { return s.used_slots == 0 && s.running_requests == 0; });
}

}  // namespace
}  // namespace strobe::schedule
