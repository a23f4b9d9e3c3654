// Rotary position embedding, in place.
#include "kernel/ref/families.h"

namespace strobe::kernel::ref {

void rope(WorkerPool& pool, const Rope& call) {
  const int64_t half = call.dim / 2;
  const bool interleaved = call.style == RopeStyle::kInterleaved;
  pool.for_each(call.rows, [&](int64_t r) {
    const float* cos = call.cos + call.positions[r] * half;
    const float* sin = call.sin + call.positions[r] * half;
    for (int64_t h = 0; h < call.heads; ++h) {
      float* x = call.x + r * call.row_stride + h * call.head_stride;
      for (int64_t i = 0; i < half; ++i) {
        float& first = x[interleaved ? 2 * i : i];
        float& second = x[interleaved ? 2 * i + 1 : i + half];
        const double a = first;
        const double b = second;
        first = static_cast<float>(a * cos[i] - b * sin[i]);
        second = static_cast<float>(b * cos[i] + a * sin[i]);
      }
    }
  });
}

}  // namespace strobe::kernel::ref
