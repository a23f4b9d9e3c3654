// Which experts a token goes to, and how their outputs come back.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernel/ref/families.h"
#include "kernel/ref/values.h"

namespace strobe::kernel::ref {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// The index of the largest value among those with open[i]; ties to the lowest index. At least one must be open.
int64_t best_open(const std::vector<float>& values, const std::vector<bool>& open) {
  int64_t best = -1;
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    if (!open[static_cast<size_t>(i)]) continue;
    if (best < 0 || values[static_cast<size_t>(i)] > values[static_cast<size_t>(best)]) best = i;
  }
  return best;
}

// Closes the experts of all groups but the `top_groups` with the largest sum of their two best choices.
void keep_best_groups(const Route& call, const std::vector<float>& choice, std::vector<bool>& open) {
  const int64_t size = call.experts / call.groups;
  std::vector<float> merit(static_cast<size_t>(call.groups));
  for (int64_t g = 0; g < call.groups; ++g) {
    float first = kLowest;
    float second = kLowest;
    for (int64_t e = g * size; e < (g + 1) * size; ++e) {
      const float c = choice[static_cast<size_t>(e)];
      if (c > first) {
        second = first;
        first = c;
      } else if (c > second) {
        second = c;
      }
    }
    merit[static_cast<size_t>(g)] = size > 1 ? first + second : first;
  }
  std::vector<bool> rejected(static_cast<size_t>(call.groups), true);
  for (int64_t k = 0; k < call.top_groups; ++k) rejected[static_cast<size_t>(best_open(merit, rejected))] = false;
  for (int64_t e = 0; e < call.experts; ++e) {
    if (rejected[static_cast<size_t>(e / size)]) open[static_cast<size_t>(e)] = false;
  }
}

void route_row(const Route& call, int64_t r) {
  const auto experts = static_cast<size_t>(call.experts);
  std::vector<float> score(experts);
  std::vector<float> choice(experts);
  std::vector<bool> open(experts, true);
  for (size_t e = 0; e < experts; ++e) {
    score[e] = 1.0F / (1.0F + std::exp(-call.logits[r * call.experts + static_cast<int64_t>(e)]));
    choice[e] = score[e] + (call.bias == nullptr ? 0.0F : call.bias[e]);
    if (std::isnan(choice[e])) choice[e] = kLowest;
  }
  if (call.groups > 1) keep_best_groups(call, choice, open);

  int32_t* ids = call.ids + r * call.top_k;
  float* weights = call.weights + r * call.top_k;
  float sum = 0;
  for (int64_t k = 0; k < call.top_k; ++k) {
    const int64_t e = best_open(choice, open);
    open[static_cast<size_t>(e)] = false;
    ids[k] = static_cast<int32_t>(e);
    weights[k] = score[static_cast<size_t>(e)];
    sum += weights[k];
  }
  const float divisor = call.normalise ? sum + 1e-20F : 1.0F;
  for (int64_t k = 0; k < call.top_k; ++k) weights[k] = weights[k] / divisor * call.scale;
}

}  // namespace

void route(WorkerPool& pool, const Route& call) {
  pool.for_each(call.rows, [&](int64_t r) { route_row(call, r); });
}

void group_by_expert(const GroupByExpert& call) {
  const int64_t pairs = call.rows * call.top_k;
  std::fill_n(call.begin, call.experts + 1, 0);
  for (int64_t i = 0; i < pairs; ++i) ++call.begin[call.ids[i] + 1];
  for (int64_t e = 0; e < call.experts; ++e) call.begin[e + 1] += call.begin[e];
  std::vector<int32_t> next(call.begin, call.begin + call.experts);
  for (int64_t i = 0; i < pairs; ++i) {
    call.slots[i] = next[static_cast<size_t>(call.ids[i])]++;
    call.tokens[call.slots[i]] = static_cast<int32_t>(i / call.top_k);
  }
}

void combine(WorkerPool& pool, const Combine& call) {
  pool.for_each(call.rows, [&](int64_t r) {
    for (int64_t i = 0; i < call.dim; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < call.top_k; ++k) {
        const int64_t choice = r * call.top_k + k;
        sum += static_cast<double>(call.weights[choice]) * call.x[call.slots[choice] * call.dim + i];
      }
      set(call.y, r, i, static_cast<float>(get(call.y, r, i) + sum));
    }
  });
}

}  // namespace strobe::kernel::ref
