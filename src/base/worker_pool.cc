#include "base/worker_pool.h"

#include <signal.h>

#include <algorithm>

#include "base/check.h"

namespace strobe {
namespace {

// About 50 us of spinning at 2 to 3 GHz: longer than the gaps inside a step, shorter than a human would notice in idle
// CPU.
constexpr int kSpins = 2000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

WorkerPool::WorkerPool(int workers) {
  STROBE_CHECK(workers >= 1, "workers = {}", workers);
  threads_.reserve(static_cast<size_t>(workers - 1));
  for (int worker = 1; worker < workers; ++worker) threads_.emplace_back([this, worker] { worker_loop(worker); });
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_.store(true, std::memory_order_release);
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void WorkerPool::run_erased(Erased function, void* context) {
  if (threads_.empty()) {
    function(context, 0, 1);
    return;
  }
  function_ = function;
  context_ = context;
  unfinished_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  function(context, 0, workers());
  for (int spins = 0; unfinished_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kSpins) {
      pause_briefly();
    } else {
      std::this_thread::yield();
    }
  }
}

void WorkerPool::worker_loop(int worker) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  uint64_t seen = 0;
  for (;;) {
    for (int spins = 0; generation_.load(std::memory_order_acquire) == seen && spins < kSpins; ++spins) {
      if (stopping_.load(std::memory_order_relaxed)) return;
      pause_briefly();
    }
    if (generation_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(lock, [&] { return stopping_.load() || generation_.load(std::memory_order_seq_cst) != seen; });
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
      if (stopping_.load()) return;
    }
    ++seen;
    function_(context_, worker, workers());
    unfinished_.fetch_sub(1, std::memory_order_release);
  }
}

Range split_range(int64_t count, int part, int parts, int64_t grain) {
  const int64_t blocks = (count + grain - 1) / grain;
  const int64_t begin = blocks * part / parts * grain;
  const int64_t end = blocks * (part + 1) / parts * grain;
  return {std::min(begin, count), std::min(end, count)};
}

}  // namespace strobe
