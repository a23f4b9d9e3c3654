// RMS norm and rotary position embedding.
#include "kernel/cpu/generic/kernels.h"
#include "kernel/cpu/generic/math.h"
#include "kernel/cpu/generic/rows.h"
#include "kernel/cpu/generic/tasks.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

// About 0.1 ns a number: share from 4 us on.
constexpr int64_t kNumbersWorthSharing = 40 * 1024;

void norm_group(const RmsNorm& c, int64_t row, int64_t column) {
  F32x16 squares = splat(0);
  for (int64_t i = 0; i < c.dim; i += kLanes) {
    const F32x16 x = get(c.x, row, column + i, smaller(kLanes, c.dim - i));
    squares = fma(x, x, squares);
  }
  const float mean = sum_lanes(squares) / static_cast<float>(c.dim);
  const F32x16 factor = splat(1.0F / __builtin_sqrtf(mean + c.epsilon));
  for (int64_t i = 0; i < c.dim; i += kLanes) {
    const int64_t count = smaller(kLanes, c.dim - i);
    set(c.y, row, column + i, count, get(c.x, row, column + i, count) * factor * load_first(c.weight + i, count));
  }
}

void rotate_head(const Rope& c, float* x, const float* cos, const float* sin) {
  const int64_t half = c.dim / 2;
  const int64_t step = c.style == RopeStyle::kInterleaved ? 2 : 1;         // from one pair to the next
  const int64_t distance = c.style == RopeStyle::kInterleaved ? 1 : half;  // inside a pair
  for (int64_t i = 0; i < half; ++i) {
    float& a = x[i * step];
    float& b = x[i * step + distance];
    const float rotated = a * cos[i] - b * sin[i];
    b = b * cos[i] + a * sin[i];
    a = rotated;
  }
}

}  // namespace

void rms_norm(WorkerPool& pool, const RmsNorm& c) {
  const int64_t width = greater(1, c.groups * c.dim);
  in_chunks(pool, c.rows, 1 + 8192 / width, kNumbersWorthSharing / width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t g = 0; g < c.groups; ++g) norm_group(c, row, g * c.dim);
    }
  });
}

void rope(WorkerPool& pool, const Rope& c) {
  const int64_t width = greater(1, c.heads * c.dim);
  in_chunks(pool, c.rows, 1 + 4096 / width, kNumbersWorthSharing / 4 / width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t angle = c.positions[row] * (c.dim / 2);
      for (int64_t h = 0; h < c.heads; ++h) {
        rotate_head(c, c.x + row * c.row_stride + h * c.head_stride, c.cos + angle, c.sin + angle);
      }
    }
  });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
