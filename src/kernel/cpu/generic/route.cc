// Choice of experts, and their results back to the tokens.
#include "kernel/cpu/generic/kernels.h"
#include "kernel/cpu/generic/math.h"
#include "kernel/cpu/generic/rows.h"
#include "kernel/cpu/generic/tasks.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();
constexpr float kClosed = __builtin_nanf("");

// One row's scores and choices; kClosed stands for experts that are not to be chosen: they are already, or of a
// rejected group, or behind the last one. No other choice is NaN.
struct Choices {
  alignas(64) float score[kMaxExperts];
  alignas(64) float choice[kMaxExperts];
};

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
    for (int64_t e = g * size; !kept[g] && e < (g + 1) * size; ++e) c->choice[e] = kClosed;
  }
}

// Scores and choices of all experts.
void read_logits(const Route& r, int64_t row, Choices* c) {
  const float* logits = r.logits + row * r.experts;
  const float* bias = r.bias;
  for_vectors(
      r.experts, [&](int64_t e, int64_t count) __attribute__((always_inline)) {
        const F32x16 score = sigmoid(load_first(logits + e, count));
        F32x16 choice = bias == nullptr ? score : score + load_first(bias + e, count);
        choice = select(choice == choice, choice, splat(kMinusInfinity));
        store(c->score + e, score);
        store(c->choice + e,
              count == kLanes ? choice : select(lane_numbers() < splat_u32(count), choice, splat(kClosed)));
      });
}

// The expert with the largest choice, ties to the lower id; closes it. Some must be open.
int64_t take_best(int64_t experts, Choices* c) {
  F32x16 best = splat(kMinusInfinity);
  for (int64_t e = 0; e < experts; e += kLanes) best = larger(load(c->choice + e), best);
  const F32x16 wanted = splat(max_lanes(best));
  int64_t e = 0;
  while (!any(load(c->choice + e) == wanted)) e += kLanes;
  const F32x16 choices = load(c->choice + e);
  const auto lane = static_cast<uint32_t>(first_lane(choices == wanted));
  store(c->choice + e, select(lane_numbers() == splat_u32(lane), splat(kClosed), choices));
  return e + lane;
}

void route_row(const Route& r, int64_t row, Choices* c) {
  read_logits(r, row, c);
  if (r.groups > 1) keep_top_groups(r, c);
  int32_t* ids = r.ids + row * r.top_k;
  float* weights = r.weights + row * r.top_k;
  float total = 0;
  for (int64_t k = 0; k < r.top_k; ++k) {
    const int64_t best = take_best(r.experts, c);
    ids[k] = static_cast<int32_t>(best);
    weights[k] = c->score[best];
    total += weights[k];
  }
  const float divisor = r.normalise ? total + 1e-20F : 1.0F;
  for (int64_t k = 0; k < r.top_k; ++k) weights[k] = weights[k] / divisor * r.scale;
}

// Sums of kVectors vectors from column `first` on, of which there are `count` numbers.
template <int kVectors>
void combine_columns(const Combine& c, int64_t row, int64_t first, int64_t count) {
  F32x16 sums[kVectors] = {};
  for (int64_t k = row * c.top_k; k < (row + 1) * c.top_k; ++k) {
    const float* x = c.x + c.slots[k] * c.dim + first;
    const F32x16 weight = splat(c.weights[k]);
    for (int v = 0; v < kVectors; ++v) {
      sums[v] = fma(weight, load_first(x + v * kLanes, count - v * kLanes), sums[v]);
    }
  }
  float* y = row_of<float>(c.y, row) + first;
  for (int v = 0; v < kVectors; ++v) {
    const int64_t left = count - v * kLanes;
    store_first(y + v * kLanes, left, load_first(y + v * kLanes, left) + sums[v]);
  }
}

}  // namespace

void route(WorkerPool& pool, const Route& r) {
  check_limit("experts", r.experts, kMaxExperts);
  const int64_t width = greater(1, r.top_k * (6 + divide_up(r.experts, kLanes)));  // steps a row, of about 2 ns
  in_chunks(pool, r.rows, 1 + 448 / width, 1792 / width, [&](int64_t begin, int64_t end) {
    Choices choices;
    for (int64_t row = begin; row < end; ++row) route_row(r, row, &choices);
  });
}

void combine(WorkerPool& pool, const Combine& c) {
  const int64_t width = greater(1, c.dim * c.top_k);
  in_chunks(pool, c.rows, 1 + 16384 / width, 64 * 1024 / width, [&](int64_t begin, int64_t end) {
    constexpr int kVectors = 4;
    constexpr int64_t kBlock = kVectors * kLanes;
    for (int64_t row = begin; row < end; ++row) {
      int64_t i = 0;
      for (; i + kBlock <= c.dim; i += kBlock) combine_columns<kVectors>(c, row, i, kBlock);
      for (; i < c.dim; i += kLanes) combine_columns<1>(c, row, i, c.dim - i);
    }
  });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
