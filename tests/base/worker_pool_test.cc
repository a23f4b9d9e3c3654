#include "base/worker_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

namespace strobe {
namespace {

TEST(WorkerPool, EachWorkerRunsOnceACall) {
  for (const int workers : {1, 2, 5}) {
    WorkerPool pool(workers);
    for (int call = 0; call < 300; ++call) {
      std::vector<int> calls(static_cast<size_t>(workers), 0);
      pool.run([&](int worker, int count) {
        EXPECT_EQ(count, workers);
        calls[static_cast<size_t>(worker)]++;
      });
      EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(workers), 1));
    }
  }
}

TEST(WorkerPool, WakesSleepers) {
  WorkerPool pool(3);
  for (int call = 0; call < 3; ++call) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> calls{0};
    pool.run([&](int, int) { calls++; });
    EXPECT_EQ(calls.load(), 3);
  }
}

// Whoever comes, all of the work is done when share() returns, and nobody works on it later.
TEST(WorkerPool, SharedWorkIsDoneOnce) {
  for (const int workers : {1, 2, 5}) {
    WorkerPool pool(workers);
    for (int call = 0; call < 2000; ++call) {
      const int tasks = call % 40;
      std::vector<int> visits(static_cast<size_t>(tasks), 0);
      std::atomic<int> next{0}, inside{0};
      std::vector<int> comers(static_cast<size_t>(workers), 0);
      pool.share([&](int worker, int count, int64_t*) {
        EXPECT_EQ(count, workers);
        comers[static_cast<size_t>(worker)]++;
        inside++;
        for (int i; (i = next++) < tasks;) visits[static_cast<size_t>(i)]++;
        inside--;
      });
      EXPECT_EQ(inside, 0);
      EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(tasks), 1));
      EXPECT_EQ(comers[0], 1);
      for (const int times : comers) EXPECT_LE(times, 1);
      if (call % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // let them fall asleep
    }
  }
}

TEST(WorkerPool, SharedWorkGetsHelp) {
  WorkerPool pool(2);
  std::atomic<bool> helped{false};
  // The caller stays in the call until the other one has come.
  pool.share([&](int worker, int, int64_t*) {
    if (worker == 1) helped = true;
    while (!helped) std::this_thread::yield();
  });
  EXPECT_TRUE(helped);
}

TEST(WorkerPool, CallsOfBothKindsFollowEachOther) {
  WorkerPool pool(3);
  for (int call = 0; call < 1000; ++call) {
    std::atomic<int> calls{0}, shared{0};
    pool.share([&](int, int, int64_t*) { shared++; });
    EXPECT_GE(shared, 1);
    pool.run([&](int, int) { calls++; });
    EXPECT_EQ(calls, 3);
  }
}

TEST(WorkerPool, ForEachVisitsEachTaskOnce) {
  WorkerPool pool(4);
  for (const int64_t tasks : {0, 1, 3, 1000}) {
    std::vector<int> visits(static_cast<size_t>(tasks), 0);
    pool.for_each(tasks, [&](int64_t i) { visits[static_cast<size_t>(i)]++; });
    EXPECT_EQ(std::accumulate(visits.begin(), visits.end(), 0), tasks);
    for (const int count : visits) EXPECT_EQ(count, 1);
  }
}

TEST(SplitRange, CoversEverythingOnceInGrains) {
  for (const int64_t count : {0, 1, 16, 17, 100, 4096}) {
    for (const int parts : {1, 2, 7}) {
      int64_t next = 0;
      for (int part = 0; part < parts; ++part) {
        const auto range = split_range(count, part, parts, 16);
        EXPECT_EQ(range.begin, next);
        EXPECT_TRUE(range.begin % 16 == 0 || range.begin == count);
        next = range.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace strobe
