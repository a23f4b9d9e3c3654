// Largest logit of a row: one pass for the value, one for its first column.
#include "kernel/cpu/generic/kernels.h"
#include "kernel/cpu/generic/simd.h"
#include "kernel/cpu/generic/tasks.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

int32_t argmax_row(const float* logits, int64_t columns) {
  constexpr int kVectors = 4;  // independent chains
  F32x16 best[kVectors];
  for (F32x16& b : best) b = splat(-__builtin_inff());
  int64_t i = 0;
  for (; i + kVectors * kLanes <= columns; i += kVectors * kLanes) {
    for (int v = 0; v < kVectors; ++v) best[v] = larger(load(logits + i + v * kLanes), best[v]);
  }
  float largest = max_lanes(larger(larger(best[0], best[1]), larger(best[2], best[3])));
  for (; i < columns; ++i) largest = logits[i] > largest ? logits[i] : largest;

  const F32x16 wanted = splat(largest);
  i = 0;
  while (i + kLanes <= columns && !any(load(logits + i) == wanted)) i += kLanes;
  for (; i < columns; ++i) {
    if (logits[i] == largest) return static_cast<int32_t>(i);
  }
  return 0;  // nothing but NaN
}

}  // namespace

void argmax(WorkerPool& pool, const Argmax& c) {
  const int64_t width = greater(1, c.columns);
  in_chunks(pool, c.rows, 1, 64 * 1024 / width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) c.ids[row] = argmax_row(c.logits + row * c.stride, c.columns);
  });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
