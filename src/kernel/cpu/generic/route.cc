// Choice of experts, and their results back to the tokens.
#include "kernel/cpu/generic/kernels.h"
#include "kernel/cpu/generic/math.h"
#include "kernel/cpu/generic/rows.h"
#include "kernel/cpu/generic/tasks.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

// One row's scores and choices, and which experts are closed (chosen already, or of a rejected group).
struct Choices {
  bool closed[kMaxExperts];
  alignas(64) float score[kMaxExperts + kLanes];
  alignas(64) float choice[kMaxExperts + kLanes];
};

constexpr float kMinusInfinity = -__builtin_inff();

// The sum of the two largest choices in [begin, end); a group of one expert counts that one.
float best_two(const Choices& c, int64_t begin, int64_t end) {
  float first = kMinusInfinity, second = kMinusInfinity;
  for (int64_t e = begin; e < end; ++e) {
    if (c.choice[e] > first) {
      second = first;
      first = c.choice[e];
    } else if (c.choice[e] > second) {
      second = c.choice[e];
    }
  }
  return end - begin == 1 ? first : first + second;
}

// Closes the experts of all but the best groups, ties to the lower group.
void keep_top_groups(const Route& r, Choices* c) {
  float group[kMaxExperts];
  const int64_t size = r.experts / r.groups;
  for (int64_t g = 0; g < r.groups; ++g) group[g] = best_two(*c, g * size, (g + 1) * size);
  bool kept[kMaxExperts] = {};
  for (int64_t i = 0; i < r.top_groups; ++i) {
    int64_t best = -1;
    for (int64_t g = 0; g < r.groups; ++g) {
      if (!kept[g] && (best < 0 || group[g] > group[best])) best = g;
    }
    kept[best] = true;
  }
  for (int64_t g = 0; g < r.groups; ++g) {
    for (int64_t e = g * size; !kept[g] && e < (g + 1) * size; ++e) c->closed[e] = true;
  }
}

void route_row(const Route& r, int64_t row, Choices* c) {
  for (int64_t e = 0; e < r.experts; e += kLanes) {
    const int64_t count = smaller(kLanes, r.experts - e);
    const F32x16 score = sigmoid(load_first(r.logits + row * r.experts + e, count));
    store(c->score + e, score);
    const F32x16 choice = r.bias == nullptr ? score : score + load_first(r.bias + e, count);
    store(c->choice + e, select(choice == choice, choice, splat(kMinusInfinity)));
  }
  __builtin_memset(c->closed, 0, static_cast<size_t>(r.experts));
  if (r.groups > 1) keep_top_groups(r, c);
  // top_k passes over the choices. A chosen one is closed by its flag, not by its value, so that even a row of NaN
  // names top_k different experts.
  int32_t* ids = r.ids + row * r.top_k;
  float* weights = r.weights + row * r.top_k;
  float total = 0;
  for (int64_t k = 0; k < r.top_k; ++k) {
    int64_t best = -1;
    for (int64_t e = 0; e < r.experts; ++e) {
      if (!c->closed[e] && (best < 0 || c->choice[e] > c->choice[best])) best = e;
    }
    c->closed[best] = true;
    ids[k] = static_cast<int32_t>(best);
    weights[k] = c->score[best];
    total += weights[k];
  }
  const float divisor = r.normalise ? total + 1e-20F : 1.0F;
  for (int64_t k = 0; k < r.top_k; ++k) weights[k] = weights[k] / divisor * r.scale;
}

}  // namespace

void route(WorkerPool& pool, const Route& r) {
  check_limit("experts", r.experts, kMaxExperts);
  const int64_t width = greater(1, r.experts * r.top_k);  // comparisons a row, about 1 ns each
  in_chunks(pool, r.rows, 1 + 1024 / width, 4096 / width, [&](int64_t begin, int64_t end) {
    Choices choices;
    for (int64_t row = begin; row < end; ++row) route_row(r, row, &choices);
  });
}

void combine(WorkerPool& pool, const Combine& c) {
  const int64_t width = greater(1, c.dim * c.top_k);
  in_chunks(pool, c.rows, 1 + 16384 / width, 64 * 1024 / width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t i = 0; i < c.dim; i += kLanes) {
        const int64_t count = smaller(kLanes, c.dim - i);
        F32x16 sum = splat(0);
        for (int64_t k = 0; k < c.top_k; ++k) {
          const float* x = c.x + c.slots[row * c.top_k + k] * c.dim + i;
          sum = fma(splat(c.weights[row * c.top_k + k]), load_first(x, count), sum);
        }
        set(c.y, row, i, count, get(c.y, row, i, count) + sum);
      }
    }
  });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
