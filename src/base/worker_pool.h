// WorkerPool: a fixed set of threads that run one function together.
//
// run(f) calls f(worker, workers) once on each worker, the caller being worker 0, and returns when all have finished.
// share(f) is for work that f deals out itself, piece by piece, with a counter that the pool lends: the caller runs f
// at once, the others join while there is work, and one that comes late (asleep, or without a processor on a busy
// machine) is not waited for. Between calls the threads spin for a short while (a decode step makes about a hundred
// calls a millisecond apart or less) and then sleep. A call costs about a microsecond; nothing is allocated.
//
// Threads: run() and share() must not be called from two threads at once, nor from inside f. f must not throw: an
// exception that leaves it ends the program. The pool's threads take no signals; these go to the threads that the
// program made for them.
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
    run_task([](void* context, int worker, int workers,
                int64_t*) noexcept { (*static_cast<Function*>(context))(worker, workers); },
             const_cast<void*>(static_cast<const void*>(&f)), Comers::kAll);
  }

  // f(worker, workers, next) on the caller and on any of the others; *next is 0 at first, and f's to count with by
  // atomic operations. When f has returned on the caller, all work must have been begun by someone.
  template <class F>
  void share(F&& f) {
    using Function = std::remove_reference_t<F>;
    share([](void* context, int worker, int workers,
             int64_t* next) noexcept { (*static_cast<Function*>(context))(worker, workers, next); },
          const_cast<void*>(static_cast<const void*>(&f)));
  }
  // The same with a plain function.
  using Task = void (*)(void* context, int worker, int workers, int64_t* next) noexcept;
  void share(Task task, void* context) { run_task(task, context, Comers::kAny); }

  // Calls f(i) for each i in [0, tasks), dealt out one by one: for tasks of unequal length. The result of a task must
  // not depend on which worker runs it.
  template <class F>
  void for_each(int64_t tasks, F&& f) {
    if (tasks == 1 || workers() == 1) {
      for (int64_t i = 0; i < tasks; ++i) f(i);
      return;
    }
    share([&](int, int, int64_t* next) {
      for (int64_t i; (i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < tasks;) f(i);
    });
  }

 private:
  enum class Comers { kAll, kAny };
  void run_task(Task task, void* context, Comers comers);
  void worker_loop(int worker);
  bool enter(uint64_t call);

  std::vector<std::thread> threads_;
  // What a worker must know to join, in one cache line: fetching a line that another core has written takes 0.1 us.
  struct alignas(64) Call {
    std::atomic<uint64_t> state{0};  // the call's number, whether it is closed to late comers, how many have entered
    Task task = nullptr;
    void* context = nullptr;
    int64_t next = 0;
  };
  Call call_;
  alignas(64) std::atomic<uint64_t> finished_{0};  // workers, of this call
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
