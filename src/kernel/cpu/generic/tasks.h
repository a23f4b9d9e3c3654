// How kernels hand work to the pool.
#pragma once

#include "kernel/cpu/parallel.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

// f(take) on the calling thread and on those workers that come while it runs there: f deals out its work by
// take(n), which returns the first of the next n pieces, counted from 0 on.
template <class F>
static inline void on_workers(WorkerPool& pool, const F& f) {
  share_with_workers(
      pool,
      [](void* context, int, int, int64_t* next) noexcept {
        (*static_cast<const F*>(context))([next](int64_t n) { return __atomic_fetch_add(next, n, __ATOMIC_RELAXED); });
      },
      const_cast<F*>(&f));
}

// f(begin, end) over [0, count), in runs of `grain` dealt out one by one; on the calling thread alone where the whole
// is less than `worth_sharing` items (waking the other workers costs about a microsecond).
template <class F>
static inline void in_chunks(WorkerPool& pool, int64_t count, int64_t grain, int64_t worth_sharing, F f) {
  if (count < worth_sharing || count <= grain || workers_of(pool) == 1) {
    if (count > 0) f(int64_t{0}, count);
    return;
  }
  auto task = [&](const auto& take) {
    for (;;) {
      const int64_t begin = take(grain);
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
