// A group of queries split by split: a core computes one group against one split (a partial), workers of a team take
// splits, partials are folded in ascending order.
#pragma once

#include "kernel/cpu/generic/attention_driver.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

inline constexpr int64_t kMostSplitsAWave = 128;

// What a core leaves of one group and one split, and what they are folded into. sum = 0 means that nothing was visible.
struct Partial {
  float* max;     // [queries]
  float* sum;     // [queries]
  float* values;  // [queries, padded(value_dim)]
};

static inline int64_t partial_bytes(int64_t queries, int64_t width) {
  return (2 * padded(queries) + queries * width) * 4;
}
static inline Partial partial_at(std::byte* memory, int64_t queries) {
  auto* f = reinterpret_cast<float*>(memory);
  return {.max = f, .sum = f + padded(queries), .values = f + 2 * padded(queries)};
}

// to = to and then `from`, for one query. Bytes moved: three times its values.
static inline void fold(const Partial& from, const Partial& to, int64_t query, int64_t width) {
  if (from.sum[query] == 0) return;
  float* t = to.values + query * width;
  const float* f = from.values + query * width;
  if (to.sum[query] == 0) {
    to.max[query] = from.max[query];
    to.sum[query] = from.sum[query];
    for (int64_t i = 0; i < width; i += kLanes) store(t + i, load(f + i));
    return;
  }
  const float max = from.max[query] > to.max[query] ? from.max[query] : to.max[query];
  alignas(64) float factors[kLanes] = {to.max[query] - max, from.max[query] - max};
  store(factors, exp(load(factors)));
  to.max[query] = max;
  to.sum[query] = to.sum[query] * factors[0] + from.sum[query] * factors[1];
  for (int64_t i = 0; i < width; i += kLanes) {
    store(t + i, fma(load(t + i), splat(factors[0]), load(f + i) * splat(factors[1])));
  }
}

// Writes a query's result.
// Adding 0 turns -0 to 0: whether a zero sum carries a sign may depend on neighbours' keys (0 * -1).
static inline void finish(const QueryGroup& group, const Partial& all, int64_t query) {
  const Attention& a = *group.attention;
  const float* values = all.values + query * padded(a.value_dim);
  const float sum = all.sum[query];
  const float v_scale = a.v.dtype == DType::kE4m3 ? a.v.scale : 1.0F;
  const F32x16 factor = splat(sum == 0 ? 0.0F : v_scale / sum);
  for (int64_t i = 0; i < a.value_dim; i += kLanes) {
    const F32x16 value = sum == 0 ? splat(0.0F) : load(values + i) * factor + splat(0.0F);
    set(a.out, group.row(query), group.head(query) * a.value_dim + i, smaller(kLanes, a.value_dim - i), value);
  }
}

static inline void clear(const Partial& p, int64_t queries) {
  for (int64_t i = 0; i < queries; ++i) p.max[i] = -__builtin_inff(), p.sum[i] = 0;
}

// One group, its splits dealt out to whoever comes; the partials lie in the scratch of who computed them. In waves of
// as many splits as one worker has room for, each folded before the next begins.
template <class Core>
static inline void attend_in_splits(const QueryGroup& group, const Team& team) {
  const int64_t width = padded(group.attention->value_dim);
  const int64_t queries = padded(group.count);
  const int64_t slot_bytes = partial_bytes(queries, width);
  const int64_t room = (kScratchBytes - Core::kScratchBytes) / slot_bytes - 1;  // the caller's first one is the result
  const int64_t slots = smaller(room, kMostSplitsAWave);
  const Visible visible = group.visible_to_any();
  std::byte* memory[kMostSplitsAWave];
  const Partial all = partial_at(thread_scratch() + Core::kScratchBytes, queries);
  clear(all, group.count);
  const int64_t end = divide_up(visible.last, Core::kSplitPositions);
  for (int64_t begin = visible.first / Core::kSplitPositions; begin < end; begin += slots) {
    const int64_t wave_end = smaller(end, begin + slots);
    team.on_all([&](const auto& take) {
      std::byte* scratch = thread_scratch();
      std::byte* slot = scratch + Core::kScratchBytes + slot_bytes;
      bool loaded = false;
      for (;; slot += slot_bytes) {
        const int64_t split = begin + take(1);
        if (split >= wave_end) return;
        if (!loaded) Core::load_queries(group, scratch);
        loaded = true;
        memory[split - begin] = slot;
        Core::attend_split(group, split * Core::kSplitPositions, scratch, partial_at(slot, queries));
      }
    });
    // Folding moves 4 to 12 bytes a number, at about 20 bytes a nanosecond.
    const int64_t worth_sharing = 32 * 1024 / ((wave_end - begin) * width) + 1;
    const int64_t grain = divide_up(group.count, team.workers());
    team.in_chunks(group.count, grain, worth_sharing, [&](int64_t query_begin, int64_t query_end) {
      for (int64_t query = query_begin; query < query_end; ++query) {
        for (int64_t split = begin; split < wave_end; ++split) {
          fold(partial_at(memory[split - begin], queries), all, query, width);
        }
        if (wave_end == end) finish(group, all, query);
      }
    });
  }
  if (visible.first / Core::kSplitPositions < end) return;
  for (int64_t query = 0; query < group.count; ++query) finish(group, all, query);  // nothing is visible
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
