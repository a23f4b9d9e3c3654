// How kernels hand work to the pool.
#pragma once

#include "kernel/cpu/parallel.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

// f(worker, workers) on the calling thread and on those workers that come while it runs there: f deals out its work.
template <class F>
static inline void on_workers(WorkerPool& pool, F& f) {
  share_with_workers(
      pool, [](void* context, int worker, int workers) { (*static_cast<F*>(context))(worker, workers); }, &f);
}

// f(begin, end) over [0, count), in runs of `grain` dealt out one by one; on the calling thread alone where the whole
// is less than `worth_sharing` items (waking the other workers costs about a microsecond).
template <class F>
static inline void in_chunks(WorkerPool& pool, int64_t count, int64_t grain, int64_t worth_sharing, F f) {
  if (count < worth_sharing || count <= grain || workers_of(pool) == 1) {
    if (count > 0) f(int64_t{0}, count);
    return;
  }
  alignas(64) int64_t next = 0;
  auto task = [&](int, int) {
    for (;;) {
      const int64_t begin = __atomic_fetch_add(&next, grain, __ATOMIC_RELAXED);
      if (begin >= count) return;
      f(begin, begin + grain < count ? begin + grain : count);
    }
  };
  on_workers(pool, task);
}

[[gnu::always_inline]] static inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
[[gnu::always_inline]] static inline int64_t greater(int64_t a, int64_t b) {
  return a > b ? a : b;
}
[[gnu::always_inline]] static inline int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
