// One group of queries against all positions that it sees, in three steps, which are a core's:
//
//   1. scores of runs of keys;
//   2. softmax of each split of kSplit positions: a maximum, weights, their sum;
//   3. weighted values, kChunk columns at a time over all keys of a split; splits are folded in ascending order while
//      these columns are in L1.
//
// Each step runs over a wave of up to kWave splits before the next begins. Workers of a team share a step: runs of
// keys, tiles of 16 queries, chunks of columns. So no stored row is expanded twice for a step, and a context of a
// single split has work for all.
#pragma once

#include "kernel/cpu/generic/ahead.h"
#include "kernel/cpu/generic/stored_rows.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

inline constexpr int64_t kSplit = 256;
inline constexpr int64_t kWave = 4;
inline constexpr int64_t kQueryTiles = 4;
inline constexpr int64_t kMaxQueries = 16 * kQueryTiles;
inline constexpr int64_t kMaxKeyChunks = kMaxAttentionKeyDim / kChunk;
inline constexpr int64_t kMaxValueChunks = kMaxAttentionValueDim / kChunk;

using TileScores = float[kSplit][16];  // of one query tile: key, query
using ChunkSums = float[kMaxQueries][kChunk];

// The queries of a group: a lane of what follows. Those behind the last one see what it sees; their numbers are
// computed and not used.
struct QueryLanes {
  alignas(64) int32_t first[kMaxQueries];  // what each sees: positions [first, last)
  alignas(64) int32_t last[kMaxQueries];
  int64_t row[kMaxQueries];
  int64_t head[kMaxQueries];
};

// A core has
//   kStepKeys                          runs of keys are multiples of it, unless a split's visible part ends before
//   kFewestQueries                     groups are not made smaller than this to give every worker one
//   Own                                the memory of one worker; own.begin(group, lanes) fills it with the queries
//   Session                            (own): lives while a worker scores or adds up
//   Weights                            what step 2 leaves of a tile's scores, where these do not become the weights
//   score(own, ahead, stored rows, where they lie, queries, keys, scores by tile) -> whether all numbers were finite
//   kScoreFactor, power(x)             weights are power(kScoreFactor * scale * score - maximum)
//   kE4m3Factor                        of what it makes of e4m3 numbers, to get these
//   weigh(scores, lanes, tile, factor, split_begin, keys, weights, max, sum)
//   add_values(own, ahead, stored rows, where they lie, chunk, queries, keys, scores, weights, sums) -> as score
//   store(out, row, column, left, sums of a query, factor)
// The sums of a query may lie in an order of the core's own.
template <class Core>
class GroupAttention {
 public:
  // `ahead`: of each worker; nullptr: nothing is asked for.
  GroupAttention(const QueryGroup& group, const Team& team, Ahead* ahead);
  void run();

 private:
  using Own = typename Core::Own;

  struct alignas(64) OfWorker {
    Own own;
    ChunkSums sums;   // of one split
    ChunkSums total;  // of all splits, where they are one wave
  };
  // What the workers of a group share, in the memory of the one that called the others.
  struct alignas(64) Shared {
    TileScores scores[kWave][kQueryTiles];
    typename Core::Weights weights[kWave][kQueryTiles];
    alignas(64) ChunkSums values[kMaxValueChunks];  // of all splits so far, where they are more than a wave
    float max[kWave][kMaxQueries];                  // of a split
    float sum[kWave][kMaxQueries];
    float keep[kWave][kMaxQueries];  // the factor of what was folded before a split
    float add[kWave][kMaxQueries];   // and of the split
    float max_so_far[kMaxQueries];
    float sum_so_far[kMaxQueries];
    float factor[kMaxQueries];  // of the results
    QueryLanes lanes;
    const std::byte* key_rows[kWave][kSplit];
    const std::byte* value_rows[kWave][kSplit];
    bool spoiled[kMaxQueries];  // sees a number that is not finite
  };
  struct Scratch {
    OfWorker worker;
    Shared shared;
  };
  static_assert(sizeof(Scratch) <= kScratchBytes);
  struct Run {  // of step 1
    int64_t split = 0;
    Keys keys;
  };

  static OfWorker& worker_memory() { return reinterpret_cast<Scratch*>(thread_scratch())->worker; }
  static float scale_of(const PagedStore& store) {
    return store.dtype == DType::kE4m3 ? store.scale * Core::kE4m3Factor : 1.0F;
  }
  int64_t begin_of(int64_t split) const { return (first_split_ + split) * kSplit; }
  const std::byte* const* value_rows(int64_t split) const {
    return one_store_ ? s_.key_rows[split] : s_.value_rows[split];
  }
  void begin_wave(int64_t first_split, int64_t splits);
  int64_t cut_into_runs(Run* runs) const;
  void compute_scores();
  void compute_weights();
  void fold_sums(int64_t split, int64_t query);
  void fold_all_sums();
  void compute_values(int64_t chunk, Ahead& ahead);
  Ahead& ahead_of(int worker) const { return last_wave_ && ahead_ != nullptr ? ahead_[worker] : nothing_ahead; }
  void fold_values(int64_t split, const ChunkSums& sums, ChunkSums& total) const;
  void write_results(int64_t chunk, const ChunkSums& total) const;
  void ask_for_results(int64_t chunk) const;
  void note_infinite(const StoredRows& stored, const std::byte* const (*rows)[kSplit]);
  void write_spoiled() const;

  const QueryGroup& group_;
  const Attention& a_;
  const Team& team_;
  Ahead* const ahead_;
  const int64_t tiles_;
  const StoredRows keys_;
  const StoredRows values_;
  const bool one_store_;
  Shared& s_;
  // The wave: splits numbered from its first on.
  int64_t first_split_ = 0;
  int64_t splits_ = 0;
  Keys visible_[kWave];  // of each split, to whole steps
  bool first_wave_ = true;
  bool last_wave_ = false;
  bool infinite_keys_ = false;
  bool infinite_values_ = false;
  bool any_spoiled_ = false;
};

template <class Core>
GroupAttention<Core>::GroupAttention(const QueryGroup& group, const Team& team, Ahead* ahead)
    : group_(group),
      a_(*group.attention),
      team_(team),
      ahead_(ahead),
      tiles_(divide_up(group.count, 16)),
      keys_{.store = a_.k, .column = group.kv_head * a_.key_dim, .dim = a_.key_dim},
      values_{.store = a_.v, .column = group.kv_head * a_.value_dim, .dim = a_.value_dim},
      one_store_(a_.k.data == a_.v.data),
      s_(reinterpret_cast<Scratch*>(thread_scratch())->shared) {
  // Counted up: a division each takes as long as a lane's scores of a few keys.
  const int64_t heads = group.heads_per_kv();
  int64_t row = group.begin / heads, head = group.begin % heads;
  Visible visible = group.visible(0);
  for (int64_t query = 0; query < tiles_ * 16; ++query) {
    s_.lanes.first[query] = static_cast<int32_t>(visible.first);
    s_.lanes.last[query] = static_cast<int32_t>(visible.last);
    s_.lanes.row[query] = group.request->row_begin + row;
    s_.lanes.head[query] = group.kv_head * heads + head;
    s_.max_so_far[query] = -__builtin_inff();
    s_.sum_so_far[query] = 0;
    s_.spoiled[query] = false;
    if (query + 1 >= group.count || ++head < heads) continue;
    head = 0;
    ++row;
    visible = group.visible(query + 1);
  }
}

template <class Core>
void GroupAttention<Core>::begin_wave(int64_t first_split, int64_t splits) {
  first_split_ = first_split;
  splits_ = splits;
  infinite_keys_ = infinite_values_ = false;
  const Visible visible = group_.visible_to_any();
  constexpr int64_t kStep = Core::kStepKeys;
  for (int64_t split = 0; split < splits; ++split) {
    const int64_t begin = greater(begin_of(split), visible.first) - begin_of(split);
    const int64_t end = smaller(begin_of(split) + kSplit, visible.last) - begin_of(split);
    visible_[split] = {.begin = begin / kStep * kStep, .end = divide_up(end, kStep) * kStep};
    keys_.find(group_, begin_of(split), visible_[split], s_.key_rows[split]);
    if (!one_store_) values_.find(group_, begin_of(split), visible_[split], s_.value_rows[split]);
  }
}

// Splits, cut where that lets every worker have as much.
template <class Core>
int64_t GroupAttention<Core>::cut_into_runs(Run* runs) const {
  int64_t steps = 0;
  for (int64_t split = 0; split < splits_; ++split) steps += (visible_[split].end - visible_[split].begin);
  steps /= Core::kStepKeys;
  const int64_t most = smaller(kSplit, divide_up(steps, team_.workers()) * Core::kStepKeys);
  int64_t count = 0;
  for (int64_t split = 0; split < splits_; ++split) {
    for (int64_t key = visible_[split].begin; key < visible_[split].end; key += most) {
      runs[count++] = {.split = split, .keys = {.begin = key, .end = smaller(key + most, visible_[split].end)}};
    }
  }
  return count;
}

template <class Core>
void GroupAttention<Core>::compute_scores() {
  Run runs[kWave * kSplit / Core::kStepKeys];
  const int64_t count = cut_into_runs(runs);
  const Team alone;
  (count > 1 ? team_ : alone).on_all([&](const auto& take) {
    Own& own = worker_memory().own;
    const typename Core::Session session(own);
    bool begun = false, finite = true;
    for (int64_t i; (i = take(1)) < count;) {
      const Run& run = runs[i];
      const std::byte* const* rows = s_.key_rows[run.split];
      keys_.prefetch(rows + run.keys.begin, smaller(kRowsAhead, run.keys.end - run.keys.begin));
      if (!begun) own.begin(group_, s_.lanes);
      begun = true;
      finite &= Core::score(own, ahead_of(take.worker), keys_, rows, group_.count, run.keys, s_.scores[run.split]);
    }
    if (!finite) __atomic_store_n(&infinite_keys_, true, __ATOMIC_RELAXED);
  });
}

template <class Core>
void GroupAttention<Core>::compute_weights() {
  const float factor = a_.scale * scale_of(a_.k) * Core::kScoreFactor;
  constexpr int64_t kWorthSharing = 3;  // each takes a microsecond
  team_.in_chunks(splits_ * tiles_, 1, kWorthSharing, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t split = i / tiles_, tile = i % tiles_;
      Core::weigh(s_.scores[split][tile], s_.lanes, tile, factor, begin_of(split), visible_[split],
                  s_.weights[split][tile], s_.max[split] + tile * 16, s_.sum[split] + tile * 16);
    }
  });
}

// Folds a split's maxima and sums of 16 queries into those of the splits before it, and keeps the factors for their
// values. A split of which a query sees nothing (sum 0) adds nothing.
template <class Core>
void GroupAttention<Core>::fold_sums(int64_t split, int64_t query) {
  const F32x16 max_before = load(s_.max_so_far + query), sum_before = load(s_.sum_so_far + query);
  const F32x16 max_here = load(s_.max[split] + query), sum_here = load(s_.sum[split] + query);
  const F32x16 max = larger(max_here, max_before);
  const auto factor = [&](F32x16 max_of, F32x16 sum_of) __attribute__((always_inline)) {
    return select(sum_of == splat(0), splat(0), Core::power(max_of - max));
  };
  const F32x16 keep = factor(max_before, sum_before), add = factor(max_here, sum_here);
  store(s_.keep[split] + query, keep);
  store(s_.add[split] + query, add);
  store(s_.max_so_far + query, max);
  store(s_.sum_so_far + query, sum_before * keep + sum_here * add);
}

template <class Core>
void GroupAttention<Core>::fold_all_sums() {
  const F32x16 v_scale = splat(scale_of(a_.v));
  for (int64_t query = 0; query < tiles_ * 16; query += 16) {
    for (int64_t split = 0; split < splits_; ++split) fold_sums(split, query);
    const F32x16 sum = load(s_.sum_so_far + query);
    store(s_.factor + query, select(sum == splat(0), splat(0), v_scale / sum));
  }
}

template <class Core>
void GroupAttention<Core>::fold_values(int64_t split, const ChunkSums& sums, ChunkSums& total) const {
  for (int64_t query = 0; query < group_.count; ++query) {
    const F32x16 keep = splat(s_.keep[split][query]), add = splat(s_.add[split][query]);
    float* to = total[query];
    for (int64_t i = 0; i < kChunk; i += kLanes) store(to + i, fma(load(to + i), keep, load(sums[query] + i) * add));
  }
}

template <class Core>
void GroupAttention<Core>::write_results(int64_t chunk, const ChunkSums& total) const {
  const int64_t left = smaller(kChunk, a_.value_dim - chunk * kChunk);
  for (int64_t query = 0; query < group_.count; ++query) {
    const int64_t column = s_.lanes.head[query] * a_.value_dim + chunk * kChunk;
    Core::store(a_.out, s_.lanes.row[query], column, left, total[query], s_.factor[query]);
  }
}

template <class Core>
void GroupAttention<Core>::compute_values(int64_t chunk, Ahead& ahead) {
  OfWorker& memory = worker_memory();
  ChunkSums& total = first_wave_ && last_wave_ ? memory.total : s_.values[chunk];
  bool finite = true;
  if (last_wave_) ask_for_results(chunk);
  for (int64_t split = 0; split < splits_; ++split) {
    const bool first = first_wave_ && split == 0;
    finite &= Core::add_values(memory.own, ahead, values_, value_rows(split), chunk, group_.count, visible_[split],
                               s_.scores[split], s_.weights[split], first ? total : memory.sums);
    if (!first) fold_values(split, memory.sums, total);
  }
  if (last_wave_) write_results(chunk, total);
  if (!finite) __atomic_store_n(&infinite_values_, true, __ATOMIC_RELAXED);
}

// The lines that write_results will write, which others read before.
template <class Core>
void GroupAttention<Core>::ask_for_results(int64_t chunk) const {
  const int64_t bytes = a_.out.dtype == DType::kBf16 ? 2 : 4;
  for (int64_t query = 0; query < group_.count; ++query) {
    const int64_t column = s_.lanes.head[query] * a_.value_dim + chunk * kChunk;
    const std::byte* line =
        static_cast<const std::byte*>(a_.out.data) + (s_.lanes.row[query] * a_.out.stride + column) * bytes;
    for (int64_t at = 0; at < kChunk * bytes; at += 64) __builtin_prefetch(line + at, 1);
  }
}

// Rare.
template <class Core>
void GroupAttention<Core>::note_infinite(const StoredRows& stored, const std::byte* const (*rows)[kSplit]) {
  for (int64_t split = 0; split < splits_; ++split) {
    for (int64_t i = visible_[split].begin; i < visible_[split].end; ++i) {
      if (!stored.is_infinite(rows[split][i])) continue;
      const int64_t position = begin_of(split) + i;
      for (int64_t query = 0; query < group_.count; ++query) {
        if (position < s_.lanes.first[query] || position >= s_.lanes.last[query]) continue;
        s_.spoiled[query] = any_spoiled_ = true;
      }
    }
  }
}

template <class Core>
void GroupAttention<Core>::write_spoiled() const {
  for (int64_t query = 0; query < group_.count; ++query) {
    if (!s_.spoiled[query]) continue;
    for (int64_t i = 0; i < a_.value_dim; i += kLanes) {
      set(a_.out, s_.lanes.row[query], s_.lanes.head[query] * a_.value_dim + i, smaller(kLanes, a_.value_dim - i),
          splat(__builtin_nanf("")));
    }
  }
}

template <class Core>
void GroupAttention<Core>::run() {
  const Visible visible = group_.visible_to_any();
  const int64_t end = divide_up(visible.last, kSplit);
  const int64_t chunks = values_.chunks();
  if (visible.first >= visible.last) {
    __builtin_memset(s_.factor, 0, sizeof s_.factor);
    __builtin_memset(s_.values[0], 0, sizeof s_.values[0]);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) write_results(chunk, s_.values[0]);
    return;
  }
  for (int64_t split = visible.first / kSplit; split < end; split += kWave, first_wave_ = false) {
    begin_wave(split, smaller(kWave, end - split));
    last_wave_ = split + splits_ == end;
    compute_scores();
    compute_weights();
    fold_all_sums();
    team_.on_all([&](const auto& take) {
      const typename Core::Session session(worker_memory().own);
      for (int64_t chunk; (chunk = take(1)) < chunks;) compute_values(chunk, ahead_of(take.worker));
    });
    if (infinite_keys_) note_infinite(keys_, s_.key_rows);
    if (infinite_values_) note_infinite(values_, one_store_ ? s_.key_rows : s_.value_rows);
  }
  if (any_spoiled_) write_spoiled();
}

// How many groups of so many queries a call has.
static inline int64_t groups_of(const Attention& a, int64_t queries) {
  int64_t groups = 0;
  for (int64_t i = 0; i < a.request_count; ++i) groups += groups_of_head(a, i, queries) * a.kv_heads;
  return groups;
}

// How many queries make a group: as many as a core takes at once, or half and so on where all workers then have one.
template <class Core>
static inline int64_t queries_of_group(const Attention& a, int workers) {
  for (int64_t queries = kMaxQueries; queries >= Core::kFewestQueries; queries /= 2) {
    if (groups_of(a, queries) >= workers) return queries;
  }
  return kMaxQueries;
}

// All of a call.
template <class Core>
static inline void run_attention(WorkerPool& pool, const Attention& a) {
  check_limit("key dimension", a.key_dim, kMaxAttentionKeyDim);
  check_limit("value dimension", a.value_dim, kMaxAttentionValueDim);
  if (a.heads == 0) return;
  const int workers = workers_of(pool);
  const int64_t queries = queries_of_group<Core>(a, workers);
  const int64_t groups = groups_of(a, queries);
  int64_t most_runs = 0;
  int64_t work = 0;  // numbers multiplied, in thousands
  for (int64_t i = 0; i < a.request_count; ++i) {
    const AttentionRequest& request = a.requests[i];
    most_runs = greater(most_runs, divide_up(request.key_count, Core::kStepKeys));
    work += request.row_count * a.heads * request.key_count * (a.key_dim + a.value_dim) / 1024;
  }
  // Together where groups would leave workers without work, or with one more than others have.
  const bool uneven = groups < workers || (groups < 2 * workers && groups % workers != 0);
  const Team team = {.pool = workers > 1 && uneven && most_runs > 1 ? &pool : nullptr};
  const bool alone = team.pool != nullptr || work < 128 || groups < 2;  // one worker goes through the groups
  constexpr int kMostAhead = 64;                                        // workers
  Ahead ahead[kMostAhead];
  const bool asks = a.upcoming_count > 0 && workers <= kMostAhead && (team.pool != nullptr || !alone);
  for (int worker = 0; asks && worker < workers; ++worker) {
    ahead[worker].begin(a.upcoming, a.upcoming_count, worker, workers);
  }
  const auto run = [&](const Take& take) {
    int64_t request = 0, before = 0;
    for (int64_t g; (g = take(1)) < groups;) {
      for (int64_t n; g - before >= (n = groups_of_head(a, request, queries) * a.kv_heads); ++request) before += n;
      const QueryGroup group = group_at(a, request, g - before, queries);
      // What is asked for long before it is read is gone by then: the last groups ask.
      Ahead* of_group = !asks || g + workers < groups ? nullptr : team.pool != nullptr ? ahead : &ahead[take.worker];
      GroupAttention<Core>(group, team, of_group).run();
    }
  };
  if (!alone) return on_workers(pool, run);
  int64_t next = 0;
  run(Take{&next, 0});
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
