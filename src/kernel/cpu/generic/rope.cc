// Rotary position embedding, in place.
#include "kernel/cpu/generic/kernels.h"
#include "kernel/cpu/generic/simd.h"
#include "kernel/cpu/generic/tasks.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

// Below 0.1 ns a number: share from 4 us on.
constexpr int64_t kNumbersWorthSharing = 48 * 1024;

alignas(64) constexpr float kSigns[kLanes] = {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1};

// The heads of a row. Each angle's cos and sin are read once for all of them.
struct Heads {
  float* x = nullptr;
  int64_t count = 0;
  int64_t stride = 0;
  const float* cos = nullptr;
  const float* sin = nullptr;

  template <class F>
  [[gnu::always_inline]] inline void for_each(const F& f) const {
    for (int64_t h = 0; h < count; ++h) f(x + h * stride);
  }

  // The pairs (2i, 2i + 1) of one vector: (a, b) cos + (b, a) (-sin, sin).
  [[gnu::always_inline]] inline void rotate_neighbours(int64_t first, F32x16 cosines, F32x16 sines) const {
    const F32x16 signed_sines = sines * load(kSigns);
    for_each([&](float* head) __attribute__((always_inline)) {
      const F32x16 v = load(head + first);
      store(head + first, v * cosines + swap_neighbours(v) * signed_sines);
    });
  }
  void rotate_neighbours(int64_t first_pair) const {
    const F32x16 cosines = load(cos + first_pair), sines = load(sin + first_pair);
    rotate_neighbours(2 * first_pair, in_pairs<0>(cosines), in_pairs<0>(sines));
    rotate_neighbours(2 * first_pair + kLanes, in_pairs<1>(cosines), in_pairs<1>(sines));
  }

  // Sixteen pairs (i, i + distance).
  void rotate_halves(int64_t first_pair, int64_t distance) const {
    const F32x16 cosines = load(cos + first_pair), sines = load(sin + first_pair);
    for_each([&](float* head) __attribute__((always_inline)) {
      float* at = head + first_pair;
      const F32x16 a = load(at), b = load(at + distance);
      store(at, a * cosines - b * sines);
      store(at + distance, b * cosines + a * sines);
    });
  }

  void rotate_pair(int64_t pair, int64_t first, int64_t second) const {
    for_each([&](float* head) {
      const float a = head[first], b = head[second];
      head[first] = a * cos[pair] - b * sin[pair];
      head[second] = b * cos[pair] + a * sin[pair];
    });
  }
};

void rotate_row(const Rope& c, int64_t row) {
  const int64_t pairs = c.dim / 2;
  const bool interleaved = c.style == RopeStyle::kInterleaved;
  const int64_t angle = c.positions[row] * pairs;
  const Heads heads{.x = c.x + row * c.row_stride,
                    .count = c.heads,
                    .stride = c.head_stride,
                    .cos = c.cos + angle,
                    .sin = c.sin + angle};
  int64_t pair = 0;
  for (; pair + kLanes <= pairs; pair += kLanes) {
    interleaved ? heads.rotate_neighbours(pair) : heads.rotate_halves(pair, pairs);
  }
  for (; pair < pairs; ++pair) {
    interleaved ? heads.rotate_pair(pair, 2 * pair, 2 * pair + 1) : heads.rotate_pair(pair, pair, pair + pairs);
  }
}

}  // namespace

void rope(WorkerPool& pool, const Rope& c) {
  const int64_t width = greater(1, c.heads * c.dim);
  in_chunks(pool, c.rows, 1 + kNumbersWorthSharing / 4 / width, kNumbersWorthSharing / width,
            [&](int64_t begin, int64_t end) {
              for (int64_t row = begin; row < end; ++row) rotate_row(c, row);
            });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
