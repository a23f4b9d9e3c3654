// How kernels hand work to the pool.
#pragma once

#include "kernel/cpu/parallel.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

// A worker's hold on the pieces of a call: take(n) returns the first of the next n pieces, counted from 0 on.
struct Take {
  int64_t* next = nullptr;
  int worker = 0;
  [[gnu::always_inline]] inline int64_t operator()(int64_t n) const {
    return __atomic_fetch_add(next, n, __ATOMIC_RELAXED);
  }
};

// f(take) on the calling thread and on those workers that come while it runs there: f deals out its work by take.
template <class F>
static inline void on_workers(WorkerPool& pool, const F& f) {
  share_with_workers(
      pool,
      [](void* context, int worker, int, int64_t* next) noexcept {
        (*static_cast<const F*>(context))(Take{next, worker});
      },
      const_cast<F*>(&f));
}

// f(worker, each) on the calling thread and on those workers that come, each(g) calling g(piece) for the pieces that
// fall to this one; all together for each of [0, pieces) once. Up to 64 pieces a worker begins with its own part of
// them, which is the same for all calls with as many: what it has read, or asked for ahead, is in its cache. Then it
// helps the others, in whose parts it goes from the end.
inline constexpr int64_t kMostOwnPieces = 64;

template <class F>
static inline void on_pieces(WorkerPool& pool, int64_t pieces, const F& f) {
  struct Context {
    const F& f;
    int64_t pieces;
  };
  const Context context{f, pieces};
  share_with_workers(
      pool,
      [](void* opaque, int worker, int workers, int64_t* next) noexcept {
        const auto& c = *static_cast<const Context*>(opaque);
        const auto begin_of = [&](int64_t w) { return c.pieces * w / workers; };
        const auto is_mine = [next](int64_t piece) {
          const auto bit = static_cast<int64_t>(uint64_t{1} << piece);
          return (__atomic_load_n(next, __ATOMIC_RELAXED) & bit) == 0 &&
                 (__atomic_fetch_or(next, bit, __ATOMIC_RELAXED) & bit) == 0;
        };
        c.f(worker, [&](const auto& g) {
          if (c.pieces > kMostOwnPieces) {
            for (int64_t i; (i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < c.pieces;) g(i);
            return;
          }
          for (int64_t i = begin_of(worker); i < begin_of(worker + 1); ++i) {
            if (is_mine(i)) g(i);
          }
          for (int64_t k = 1; k < workers; ++k) {
            const int64_t other = (worker + k) % workers;
            for (int64_t i = begin_of(other + 1); i-- > begin_of(other);) {
              if (is_mine(i)) g(i);
            }
          }
        });
      },
      const_cast<Context*>(&context));
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
