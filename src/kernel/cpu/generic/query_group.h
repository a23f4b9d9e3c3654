// Attention as MLA and GQA, vector and tile kernels see it: what is computed, and by whom.
//
// Queries are the (row, head) pairs of a request that look at the same stored head; a group is up to kMaxQueries of
// them, which share the reading of keys. Positions are cut into splits at absolute multiples of kSplit.
// Each split leaves a maximum, a sum of exponentials and weighted values, folded in ascending order of splits. Always,
// however long the context and however many workers: so a row's result depends on nothing but its own keys. Where there
// are fewer groups than workers, these share a group (Team).
//
// What a query may not see weighs exactly 0, and skipping it gives the same bytes as adding it. A visible key with a
// NaN or infinity makes the query's result NaN; one that is not visible has no influence (cores write zeros in its
// place).
#pragma once

#include "kernel/cpu/generic/math.h"
#include "kernel/cpu/generic/rows.h"
#include "kernel/cpu/generic/tasks.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

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
  const Upcoming* upcoming = nullptr;
  int64_t upcoming_count = 0;
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
          .scale = c.scale,
          .upcoming = c.upcoming,
          .upcoming_count = c.upcoming_count};
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
          .value_dim = value_dim_of(c),
          .scale = c.scale,
          .causal = c.causal,
          .window = c.window,
          .upcoming = c.upcoming,
          .upcoming_count = c.upcoming_count};
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

// Who computes a group: the calling thread, or all workers of a pool.
struct Team {
  WorkerPool* pool = nullptr;  // null: the calling thread alone

  int workers() const { return pool == nullptr ? 1 : workers_of(*pool); }
  // As on_workers of tasks.h.
  template <class F>
  void on_all(const F& f) const {
    if (pool != nullptr) return on_workers(*pool, f);
    int64_t next = 0;
    f(Take{&next, 0});
  }
  // As in_chunks of tasks.h.
  template <class F>
  void in_chunks(int64_t count, int64_t grain, int64_t worth_sharing, const F& f) const {
    if (pool != nullptr) return strobe::kernel::STROBE_ISA_NAMESPACE::in_chunks(*pool, count, grain, worth_sharing, f);
    if (count > 0) f(int64_t{0}, count);
  }
};

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
