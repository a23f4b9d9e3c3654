// Attention, the part that MLA and GQA, vector and tile kernels have in common: who computes what, in which order.
//
// Queries are the (row, head) pairs of a request that look at the same stored head; a group is up to Core::kQueries of
// them, which share the reading of keys. Positions are cut into splits of Core::kSplitPositions at absolute
// multiples of that. A core computes one group against one split (a partial: maximum, sum of exponentials, weighted
// values); partials are folded in ascending order of splits. Always, however long the context and however many workers:
// so a row's result depends on nothing but its own keys. Where there are fewer groups than workers, workers take splits
// of the same group.
//
// What a query may not see weighs exactly 0, and skipping it gives the same bytes as adding it. A visible key with a
// NaN or infinity makes the query's result NaN; one that is not visible has no influence (cores write zeros in its
// place).
#pragma once

#include "kernel/cpu/generic/math.h"
#include "kernel/cpu/generic/rows.h"
#include "kernel/cpu/generic/tasks.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

inline constexpr int64_t kMostSplitsAWave = 128;

struct Attention {
  Rows q;
  Rows out;
  PagedStore k;
  PagedStore v;  // the same as k for MLA
  const AttentionRequest* requests = nullptr;
  const int32_t* first_visible = nullptr;
  int64_t request_count = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  float scale = 1;
  bool causal = true;
  int32_t window = 0;
};

static inline Attention as_attention(const MlaAttention& c) {
  return {.q = c.q,
          .out = c.out,
          .k = c.store,
          .v = c.store,
          .requests = c.requests,
          .request_count = c.request_count,
          .heads = c.heads,
          .kv_heads = 1,
          .key_dim = c.latent + c.rope,
          .value_dim = c.latent,
          .scale = c.scale};
}

static inline Attention as_attention(const GqaAttention& c) {
  return {.q = c.q,
          .out = c.out,
          .k = c.k,
          .v = c.v,
          .requests = c.requests,
          .first_visible = c.first_visible,
          .request_count = c.request_count,
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .key_dim = c.head_dim,
          .value_dim = c.head_dim,
          .scale = c.scale,
          .causal = c.causal,
          .window = c.window};
}

struct Visible {
  int64_t first = 0, last = 0;  // positions [first, last)
};

// Queries [begin, begin + count) of one request and stored head; query i is row i / heads_per_kv, head i %
// heads_per_kv.
struct QueryGroup {
  const Attention* attention = nullptr;
  const AttentionRequest* request = nullptr;
  int64_t kv_head = 0;
  int64_t begin = 0, count = 0;
  int64_t first_visible = 0;

  [[gnu::always_inline]] inline int64_t heads_per_kv() const { return attention->heads / attention->kv_heads; }
  [[gnu::always_inline]] inline int64_t row(int64_t query) const {
    return request->row_begin + (begin + query) / heads_per_kv();
  }
  [[gnu::always_inline]] inline int64_t head(int64_t query) const {
    return kv_head * heads_per_kv() + (begin + query) % heads_per_kv();
  }
  [[gnu::always_inline]] inline Visible visible(int64_t query) const {
    const int64_t position = request->first_position + (begin + query) / heads_per_kv();
    Visible v{.first = first_visible, .last = request->key_count};
    if (attention->causal) {
      v.last = smaller(v.last, position + 1);
      if (attention->window > 0) v.first = greater(v.first, position - attention->window + 1);
    }
    v.first = greater(v.first, 0);
    return v;
  }
  // What any of its queries sees.
  [[gnu::always_inline]] inline Visible visible_to_any() const {
    return {.first = visible(0).first, .last = visible(count - 1).last};
  }
};

static inline int64_t groups_of_head(const Attention& a, int64_t request, int64_t queries) {
  return divide_up(a.requests[request].row_count * (a.heads / a.kv_heads), queries);
}

// Group `index` of a request: stored heads outermost.
static inline QueryGroup group_at(const Attention& a, int64_t request, int64_t index, int64_t queries) {
  const int64_t per_head = groups_of_head(a, request, queries);
  const int64_t begin = index % per_head * queries;
  const int64_t all = a.requests[request].row_count * (a.heads / a.kv_heads);
  return {.attention = &a,
          .request = &a.requests[request],
          .kv_head = index / per_head,
          .begin = begin,
          .count = smaller(queries, all - begin),
          .first_visible = a.first_visible == nullptr ? 0 : a.first_visible[request]};
}

// What a core leaves of one group and one split, and what they are folded into. sum = 0 means that nothing was visible.
struct Partial {
  float* max;     // [queries]; what Core::power turns into weights
  float* sum;     // [queries]
  float* values;  // [queries, Core::width(value_dim)]
};

static inline int64_t padded(int64_t dim) {
  return divide_up(dim, kLanes) * kLanes;
}

static inline int64_t partial_bytes(int64_t queries, int64_t width) {
  return (2 * padded(queries) + queries * width) * 4;
}
static inline Partial partial_at(std::byte* memory, int64_t queries) {
  auto* f = reinterpret_cast<float*>(memory);
  return {.max = f, .sum = f + padded(queries), .values = f + 2 * padded(queries)};
}

// to = to and then `from`, for one query. Bytes moved: three times its values.
template <class Core>
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
  store(factors, Core::power(load(factors)));
  to.max[query] = max;
  to.sum[query] = to.sum[query] * factors[0] + from.sum[query] * factors[1];
  for (int64_t i = 0; i < width; i += kLanes) {
    store(t + i, fma(load(t + i), splat(factors[0]), load(f + i) * splat(factors[1])));
  }
}

// Writes a query's result; Core::columns_at finds its columns among the values (a core may keep them in another order).
// Adding 0 turns -0 to 0: whether a zero sum carries a sign may depend on neighbours' keys (0 * -1).
template <class Core>
static inline void finish(const QueryGroup& group, const Partial& all, int64_t query) {
  const Attention& a = *group.attention;
  const float* values = all.values + query * Core::width(a.value_dim);
  const float sum = all.sum[query];
  const float v_scale = a.v.dtype == DType::kE4m3 ? a.v.scale : 1.0F;
  const F32x16 factor = splat(sum == 0 ? 0.0F : v_scale / sum);
  for (int64_t i = 0; i < a.value_dim; i += kLanes) {
    const F32x16 value = sum == 0 ? splat(0.0F) : Core::columns_at(values, i) * factor + splat(0.0F);
    set(a.out, group.row(query), group.head(query) * a.value_dim + i, smaller(kLanes, a.value_dim - i), value);
  }
}

static inline void clear(const Partial& p, int64_t queries) {
  for (int64_t i = 0; i < queries; ++i) p.max[i] = -__builtin_inff(), p.sum[i] = 0;
}

// One group, its splits dealt out to whoever comes; the partials lie in the scratch of who computed them. In waves of
// as many splits as one worker has room for, each folded before the next begins. on_all(f) calls f() on one or more
// workers, for_queries(numbers, f) calls f(begin, end) for all queries, each of which takes `numbers` steps.
template <class Core, class OnAll, class ForQueries>
static inline void attend_group(const QueryGroup& group, const OnAll& on_all, const ForQueries& for_queries) {
  const int64_t width = Core::width(group.attention->value_dim);
  const int64_t queries = Core::queries_kept(group.count);
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
    alignas(64) int64_t next = begin;
    on_all([&] {
      std::byte* scratch = thread_scratch();
      std::byte* slot = scratch + Core::kScratchBytes + slot_bytes;
      bool loaded = false;
      for (;; slot += slot_bytes) {
        const int64_t split = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
        if (split >= wave_end) return;
        if (!loaded) Core::load_queries(group, scratch);
        loaded = true;
        memory[split - begin] = slot;
        Core::attend(group, split * Core::kSplitPositions, scratch, partial_at(slot, queries));
      }
    });
    for_queries((wave_end - begin) * width, [&](int64_t query_begin, int64_t query_end) {
      for (int64_t query = query_begin; query < query_end; ++query) {
        for (int64_t split = begin; split < wave_end; ++split) {
          fold<Core>(partial_at(memory[split - begin], queries), all, query, width);
        }
        if (wave_end == end) finish<Core>(group, all, query);
      }
    });
  }
  if (visible.first / Core::kSplitPositions < end) return;
  for (int64_t query = 0; query < group.count; ++query) finish<Core>(group, all, query);  // nothing is visible
}

template <class Core>
static inline void attend_alone(const QueryGroup& group) {
  attend_group<Core>(
      group, [](const auto& f) { f(); }, [&](int64_t, const auto& f) { f(0, group.count); });
}

template <class Core>
static inline void attend_together(WorkerPool& pool, const QueryGroup& group) {
  attend_group<Core>(
      group,
      [&](const auto& f) {
        auto task = [&](int, int) { f(); };
        on_workers(pool, task);
      },
      [&](int64_t numbers, const auto& f) {
        // Folding moves 4 to 12 bytes a number, at about 20 bytes a nanosecond.
        in_chunks(pool, group.count, divide_up(group.count, workers_of(pool)), 32 * 1024 / numbers + 1, f);
      });
}

template <class Core>
static inline void run_attention(WorkerPool& pool, const Attention& a) {
  check_limit("key dimension", a.key_dim, kMaxAttentionKeyDim);
  check_limit("value dimension", a.value_dim, kMaxAttentionValueDim);
  if (a.heads == 0) return;
  int64_t groups = 0;
  int64_t most_splits = 0;
  for (int64_t i = 0; i < a.request_count; ++i) {
    groups += groups_of_head(a, i, Core::kQueries) * a.kv_heads;
    most_splits = greater(most_splits, divide_up(a.requests[i].key_count, Core::kSplitPositions));
  }
  const int workers = workers_of(pool);
  // Together where groups would leave workers without work, or with one more than others have.
  const bool uneven = groups < workers || (groups < 2 * workers && groups % workers != 0);
  if (workers > 1 && uneven && most_splits > 1) {
    for (int64_t i = 0; i < a.request_count; ++i) {
      const int64_t of_request = groups_of_head(a, i, Core::kQueries) * a.kv_heads;
      for (int64_t g = 0; g < of_request; ++g) attend_together<Core>(pool, group_at(a, i, g, Core::kQueries));
    }
    return;
  }
  int64_t work = 0;  // numbers multiplied, in thousands
  for (int64_t i = 0; i < a.request_count; ++i) {
    work += a.requests[i].row_count * a.heads * a.requests[i].key_count * (a.key_dim + a.value_dim) / 1024;
  }
  const int64_t worth_sharing = work < 128 ? groups + 1 : 2;
  in_chunks(pool, groups, 1, worth_sharing, [&](int64_t begin, int64_t end) {
    int64_t request = 0, before = 0;
    for (int64_t g = begin; g < end; ++g) {
      for (int64_t n; g - before >= (n = groups_of_head(a, request, Core::kQueries) * a.kv_heads); ++request)
        before += n;
      attend_alone<Core>(group_at(a, request, g - before, Core::kQueries));
    }
  });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
