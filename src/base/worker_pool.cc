#include "base/worker_pool.h"

#include <signal.h>

#include <algorithm>

#include "base/check.h"

namespace strobe {
namespace {

// About 50 us of spinning at 2 to 3 GHz: longer than the gaps inside a step, shorter than a human would notice in idle
// CPU.
constexpr int kSpins = 2000;

// WorkerPool::Call::state: workers that entered in the low 16 bits, then one bit for closed, then the call's number.
constexpr uint64_t kEnteredMask = 0xffff;
constexpr uint64_t kClosed = 0x10000;
constexpr int kNumberShift = 17;
uint64_t number_of(uint64_t call) {
  return call >> kNumberShift;
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

WorkerPool::WorkerPool(int workers) {
  STROBE_CHECK(workers >= 1 && workers <= 32768, "workers = {}", workers);
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

// Waits for something that takes microseconds where the other side has a processor, and lets it have ours where not.
template <class Done>
static void spin_until(const Done& done) {
  for (int spins = 0; !done(); ++spins) {
    if (spins < kSpins) {
      pause_briefly();
    } else {
      std::this_thread::yield();
    }
  }
}

void WorkerPool::run_task(Task task, void* context, Comers comers) {
  call_.next = 0;
  if (threads_.empty()) {
    task(context, 0, 1, &call_.next);
    return;
  }
  call_.task = task;
  call_.context = context;
  finished_.store(0, std::memory_order_relaxed);
  const uint64_t number = number_of(call_.state.load(std::memory_order_relaxed)) + 1;
  call_.state.store(number << kNumberShift, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  task(context, 0, workers(), &call_.next);
  if (comers == Comers::kAll) {
    spin_until([&] { return (call_.state.load(std::memory_order_relaxed) & kEnteredMask) == threads_.size(); });
  }
  const uint64_t entered = call_.state.fetch_or(kClosed, std::memory_order_acq_rel) & kEnteredMask;
  spin_until([&] { return finished_.load(std::memory_order_acquire) == entered; });
}

// Joins the call unless it is closed, or over.
bool WorkerPool::enter(uint64_t call) {
  const uint64_t number = number_of(call);
  while (number_of(call) == number && (call & kClosed) == 0) {
    if (call_.state.compare_exchange_weak(call, call + 1, std::memory_order_acq_rel, std::memory_order_acquire))
      return true;
  }
  return false;
}

void WorkerPool::worker_loop(int worker) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  uint64_t seen = 0;
  const auto is_new = [&] { return number_of(call_.state.load(std::memory_order_seq_cst)) != seen; };
  for (;;) {
    for (int spins = 0; !is_new() && spins < kSpins; ++spins) {
      if (stopping_.load(std::memory_order_relaxed)) return;
      pause_briefly();
    }
    if (!is_new()) {
      std::unique_lock lock(mutex_);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(lock, [&] { return stopping_.load() || is_new(); });
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
      if (stopping_.load()) return;
    }
    const uint64_t call = call_.state.load(std::memory_order_acquire);
    seen = number_of(call);
    if (!enter(call)) continue;
    call_.task(call_.context, worker, workers(), &call_.next);
    finished_.fetch_add(1, std::memory_order_release);
  }
}

Range split_range(int64_t count, int part, int parts, int64_t grain) {
  const int64_t blocks = (count + grain - 1) / grain;
  const int64_t begin = blocks * part / parts * grain;
  const int64_t end = blocks * (part + 1) / parts * grain;
  return {std::min(begin, count), std::min(end, count)};
}

}  // namespace strobe
