// What cores of vector units share of group_attention.h: softmax of a tile of scores, the results, queries taken
// several at once.
#pragma once

#include "kernel/cpu/generic/group_attention.h"
#include "kernel/cpu/generic/math.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

// kMasked: not every query sees every position of the keys.
template <bool kMasked, class Finish>
[[gnu::always_inline]] static inline void weigh_lanes(TileScores& scores, U32x16 first, U32x16 last, F32x16 factor,
                                                      int64_t split_begin, Keys keys, float* max_of_split,
                                                      float* sum_of_split, const Finish& finish) {
  const auto seen = [&](int64_t key) __attribute__((always_inline)) {
    const U32x16 position = splat_u32(static_cast<uint32_t>(split_begin + key));
    return select(position < first, splat_u32(0), position < last);
  };
  F32x16 max = splat(-__builtin_inff());
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    const F32x16 score = load(scores[key]) * factor;
    store(scores[key], score);
    max = larger(kMasked ? select(seen(key), score, max) : score, max);
  }
  F32x16 sum = splat(0);
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    F32x16 weight = exp(load(scores[key]) - max);
    if constexpr (kMasked) weight = select(seen(key), weight, splat(0));
    F32x16 counted;
    store(scores[key], finish(weight, &counted));
    sum = sum + counted;
  }
  store(max_of_split, max);
  store(sum_of_split, sum);
}

// The scores of a tile, times `factor`, become what finish(weight, &counted) makes of their weights; `counted` is what
// their sum takes.
template <class Finish>
static inline void weigh_tile(TileScores& scores, const QueryLanes& lanes, int64_t tile, float factor,
                              int64_t split_begin, Keys keys, float* max, float* sum, const Finish& finish) {
  bool all = true;
  for (int64_t query = tile * 16; query < tile * 16 + 16; ++query) {
    all = all && lanes.first[query] <= split_begin + keys.begin && lanes.last[query] >= split_begin + keys.end;
  }
  const U32x16 first = load_u32(lanes.first + tile * 16), last = load_u32(lanes.last + tile * 16);
  if (all) {
    weigh_lanes<false>(scores, first, last, splat(factor), split_begin, keys, max, sum, finish);
  } else {
    weigh_lanes<true>(scores, first, last, splat(factor), split_begin, keys, max, sum, finish);
  }
}

// f<rows>(first) over all queries, kMost at once, then halves of it.
template <int kMost, class F>
[[gnu::always_inline]] static inline void in_rows(int64_t queries, const F& f, int64_t first = 0) {
  for (; first + kMost <= queries; first += kMost) f.template operator()<kMost>(first);
  if constexpr (kMost > 1) in_rows<kMost / 2>(queries, f, first);
}

// What is the same for all cores of vector units.
struct VectorSteps {
  static constexpr int64_t kStepKeys = 16;
  static constexpr int64_t kFewestQueries = kMaxQueries;
  static constexpr float kScoreFactor = 1;
  struct Weights {};  // take the place of the scores
  struct Session {
    template <class Own>
    explicit Session(Own&) {}
  };

  [[gnu::always_inline]] static inline F32x16 power(F32x16 x) { return exp(x); }
  // Adding 0 turns -0 to 0: whether a zero sum carries a sign may depend on neighbours' keys (0 * -1).
  [[gnu::always_inline]] static inline void store(const Rows& out, int64_t row, int64_t column, int64_t left,
                                                  const float* sums, float factor) {
    for (int64_t i = 0; i < left; i += kLanes) {
      set(out, row, column + i, smaller(kLanes, left - i), load(sums + i) * splat(factor) + splat(0.0F));
    }
  }
};

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
