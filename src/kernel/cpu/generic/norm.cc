// RMS norm.
#include "kernel/cpu/generic/kernels.h"
#include "kernel/cpu/generic/rows.h"
#include "kernel/cpu/generic/tasks.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

// About 0.2 ns a number: share from 4 us on.
constexpr int64_t kNumbersWorthSharing = 20 * 1024;

template <class X, class Y>
void norm_group(const X* x, const float* weight, Y* y, int64_t dim, float epsilon) {
  constexpr int kChains = 4;  // independent sums
  F32x16 squares[kChains] = {};
  int64_t i = 0;
  for (; i + kChains * kLanes <= dim; i += kChains * kLanes) {
    for (int chain = 0; chain < kChains; ++chain) {
      const F32x16 numbers = load(x + i + chain * kLanes);
      squares[chain] = fma(numbers, numbers, squares[chain]);
    }
  }
  for (; i < dim; i += kLanes) {
    const F32x16 numbers = load_first(x + i, dim - i);
    squares[0] = fma(numbers, numbers, squares[0]);
  }
  const float mean = sum_lanes((squares[0] + squares[1]) + (squares[2] + squares[3])) / static_cast<float>(dim);
  const F32x16 factor = splat(1.0F / __builtin_sqrtf(mean + epsilon));
  for_vectors(
      dim, [&](int64_t at, int64_t count) __attribute__((always_inline)) {
        store_first(y + at, count, load_first(x + at, count) * factor * load_first(weight + at, count));
      });
}

}  // namespace

void rms_norm(WorkerPool& pool, const RmsNorm& c) {
  const int64_t width = greater(1, c.groups * c.dim);
  with_type(c.x.dtype, [&]<class X>(X) {
    with_type(c.y.dtype, [&]<class Y>(Y) {
      in_chunks(pool, c.rows, 1 + kNumbersWorthSharing / 4 / width, kNumbersWorthSharing / width,
                [&](int64_t begin, int64_t end) {
                  for (int64_t row = begin; row < end; ++row) {
                    for (int64_t first = 0; first < c.groups * c.dim; first += c.dim) {
                      norm_group(row_of<const X>(c.x, row) + first, c.weight, row_of<Y>(c.y, row) + first, c.dim,
                                 c.epsilon);
                    }
                  }
                });
    });
  });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
