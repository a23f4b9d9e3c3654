// WorkerPool: a fixed set of threads that run one function together.
//
// run(f) calls f(worker, workers) once on each worker, the caller being worker 0, and returns when all have finished.
// Between calls the threads spin for a short while (a decode step makes about a hundred calls a millisecond apart or
// less) and then sleep. A call costs about a microsecond; nothing is allocated.
//
// Threads: run() must not be called from two threads at once, nor from inside f. f must not throw: an exception that
// leaves it ends the program. The pool's threads take no signals; these go to the threads that the program made for
// them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace strobe {

class WorkerPool {
 public:
  // workers >= 1, the calling thread included.
  explicit WorkerPool(int workers);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  [[nodiscard]] int workers() const { return static_cast<int>(threads_.size()) + 1; }

  template <class F>
  void run(F&& f) {
    using Function = std::remove_reference_t<F>;
    run_erased(
        [](void* context, int worker, int workers) noexcept { (*static_cast<Function*>(context))(worker, workers); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

  // Calls f(i) for each i in [0, tasks), dealt out one by one: for tasks of unequal length. The result of a task must
  // not depend on which worker runs it.
  template <class F>
  void for_each(int64_t tasks, F&& f) {
    if (tasks == 1 || workers() == 1) {
      for (int64_t i = 0; i < tasks; ++i) f(i);
      return;
    }
    std::atomic<int64_t> next{0};
    run([&](int, int) {
      for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) f(i);
    });
  }

 private:
  using Erased = void (*)(void* context, int worker, int workers) noexcept;
  void run_erased(Erased function, void* context);
  void worker_loop(int worker);

  std::vector<std::thread> threads_;
  Erased function_ = nullptr;
  void* context_ = nullptr;
  alignas(64) std::atomic<uint64_t> generation_{0};  // counts calls; a worker that sees it move runs function_
  alignas(64) std::atomic<int> unfinished_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

// Splits [0, count) into `parts` runs that are multiples of `grain` (the last may be shorter); part i is [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};
[[nodiscard]] Range split_range(int64_t count, int part, int parts, int64_t grain = 1);

}  // namespace strobe
