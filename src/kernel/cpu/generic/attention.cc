// Attention with vector units: up to 32 queries against a split of 64 positions, expanded to f32 once for all of them.
//
// Scores are vectors over the head dimension and one sum over lanes; then every query is a lane: maximum, exponentials
// and their sum; then weighted values are vectors over the value dimension, in registers over the positions.
// Multiply-adds are queries * positions * (key_dim + value_dim) / 16; expanding a key of e4m3 costs as much as two
// queries.
#include "kernel/cpu/generic/kernels.h"
#include "kernel/cpu/generic/split_attention.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

constexpr int64_t kBlock = 64;                              // positions of a split
constexpr int kRegisters = kGemmRows * kGemmTilesManyRows;  // sums that fit

constexpr int64_t kColumnsInL1 = 8 * kLanes;  // of all positions of a split: 32 KiB

struct VectorCore {
  static constexpr int64_t kQueries = 2 * kLanes;
  static constexpr int64_t kSplitPositions = kBlock;
  static constexpr int64_t kTeamPositions = kBlock;

  // The scratch of one worker.
  struct alignas(64) Scratch {
    float q[kQueries][kMaxAttentionKeyDim];
    float keys[kBlock][kMaxAttentionKeyDim];
    float values[kBlock][kMaxAttentionValueDim];  // GQA; MLA's values are its keys
    float scores[kBlock][kQueries];               // then weights
    uint32_t first[kQueries];                     // what each query sees: positions [first, last)
    uint32_t last[kQueries];
    bool bad[kBlock];  // the key holds a NaN or infinity
  };
  static constexpr int64_t kScratchBytes = (sizeof(Scratch) + 63) / 64 * 64;

  static void load_queries(const QueryGroup& group, std::byte* scratch);
  static void attend_split(const QueryGroup& group, int64_t split_begin, std::byte* scratch, const Partial& out);
  static void attend(const QueryGroup& group, const Team& team) { attend_in_splits<VectorCore>(group, team); }
};

void VectorCore::load_queries(const QueryGroup& group, std::byte* scratch) {
  auto& s = *reinterpret_cast<Scratch*>(scratch);
  const Attention& a = *group.attention;
  for (int64_t query = 0; query < kQueries; ++query) {
    const Visible visible = query < group.count ? group.visible(query) : Visible{};
    s.first[query] = static_cast<uint32_t>(visible.first);
    s.last[query] = static_cast<uint32_t>(greater(visible.first, visible.last));
    if (query >= group.count) continue;
    const int64_t column = group.head(query) * a.key_dim;
    for (int64_t i = 0; i < a.key_dim; i += kLanes) {
      store(s.q[query] + i, get(a.q, group.row(query), column + i, smaller(kLanes, a.key_dim - i)));
    }
  }
}

// Numbers [column, column + dim) of a slot as f32, without the store's scale; zeros up to the next multiple of 16.
// Returns false, and writes zeros only, where one is not finite.
bool expand(const PagedStore& store, int64_t slot, int64_t column, int64_t dim, float* to) {
  const int64_t at = slot * store.dim + column;
  const F32x16 limit = splat(store.dtype == DType::kE4m3 ? 448.0F : 0x1.fffffep127F);
  U32x16 good = splat_u32(0xffffffffU);
  for (int64_t i = 0; i < dim; i += kLanes) {
    const int64_t count = smaller(kLanes, dim - i);
    F32x16 x;
    if (store.dtype == DType::kE4m3) {
      const auto* codes = static_cast<const uint8_t*>(store.data) + at + i;
      alignas(64) uint8_t some[kLanes] = {};
      if (count < kLanes) {
        __builtin_memcpy(some, codes, static_cast<size_t>(count));
        codes = some;
      }
      x = load_e4m3(codes);  // NaN gives 480
    } else {
      x = store.dtype == DType::kBf16 ? load_first(static_cast<const Bf16*>(store.data) + at + i, count)
                                      : load_first(static_cast<const float*>(store.data) + at + i, count);
    }
    good = good & (from_bits(bits_of(x) & splat_u32(0x7fffffff)) <= limit);
    strobe::kernel::STROBE_ISA_NAMESPACE::store(to + i, x);
  }
  if (!any(good == splat_u32(0))) return true;
  for (int64_t i = 0; i < dim; i += kLanes) strobe::kernel::STROBE_ISA_NAMESPACE::store(to + i, splat(0));
  return false;
}

// Positions [begin, begin + count) into the scratch; zeros for those that no query sees yet (their pages may be gone),
// and up to the next multiple of 8 positions.
void expand_block(const QueryGroup& group, int64_t begin, int64_t count, VectorCore::Scratch& s) {
  const Attention& a = *group.attention;
  const bool separate_values = a.k.data != a.v.data;
  const int64_t first = greater(0, group.visible_to_any().first - begin);
  const auto clear_row = [](float* row, int64_t dim) {
    for (int64_t c = 0; c < dim; c += kLanes) store(row + c, splat(0));
  };
  for (int64_t i = 0; i < count; ++i) {
    s.bad[i] = false;
    if (i < first) {
      clear_row(s.keys[i], a.key_dim);
      if (separate_values) clear_row(s.values[i], a.value_dim);
      continue;
    }
    const int64_t position = begin + i;
    const int64_t page = position / a.k.page_size;
    const int64_t slot = group.request->pages[page] * int64_t{a.k.page_size} + (position - page * a.k.page_size);
    s.bad[i] = !expand(a.k, slot, group.kv_head * a.key_dim, a.key_dim, s.keys[i]);
    if (separate_values) {
      const bool good = expand(a.v, slot, group.kv_head * a.value_dim, a.value_dim, s.values[i]);
      s.bad[i] = s.bad[i] || !good;
    }
  }
  for (int64_t i = count; i % 8 != 0; ++i) clear_row(s.keys[i], a.key_dim);
}

// Scores of queries [first, first + kRows) and `count` positions.
template <int kRows>
void score_rows(VectorCore::Scratch& s, int64_t first, int64_t count, int64_t dim, float scale) {
  constexpr int kKeys = kRegisters / kRows < 8 ? kRegisters / kRows : 8;
  for (int64_t key = 0; key < count; key += kKeys) {
    F32x16 sums[kKeys * kRows];
    for (F32x16& sum : sums) sum = splat(0);
    for (int64_t i = 0; i < dim; i += kLanes) {
      F32x16 numbers[kKeys];
      for (int k = 0; k < kKeys; ++k) numbers[k] = load(s.keys[key + k] + i);
      for (int r = 0; r < kRows; ++r) {
        const F32x16 q = in_register(load(s.q[first + r] + i));
        for (int k = 0; k < kKeys; ++k) sums[k * kRows + r] = fma(numbers[k], q, sums[k * kRows + r]);
      }
    }
    alignas(64) float scores[kKeys * kRows];
    sums_of_lanes(sums, scores);
    for (int k = 0; k < kKeys; ++k) {
      for (int r = 0; r < kRows; ++r) s.scores[key + k][first + r] = scores[k * kRows + r] * scale;
    }
  }
}

// Scores become weights: all queries, each in a lane.
void weigh(VectorCore::Scratch& s, int64_t queries, int64_t begin, int64_t count, const Partial& out) {
  for (int64_t key = 0; key < count; ++key) {
    if (!s.bad[key]) continue;
    for (float& score : s.scores[key]) score = __builtin_nanf("");
  }
  for (int64_t query = 0; query < queries; query += kLanes) {
    const U32x16 first = load_u32(s.first + query), last = load_u32(s.last + query);
    const auto seen = [&](int64_t key) __attribute__((always_inline)) {
      const U32x16 position = splat_u32(static_cast<uint32_t>(begin + key));
      return select(position < first, splat_u32(0), position < last);
    };
    F32x16 max = splat(-__builtin_inff());
    for (int64_t key = 0; key < count; ++key) {
      max = larger(select(seen(key), load(s.scores[key] + query), max), max);
    }
    F32x16 sum = splat(0);
    for (int64_t key = 0; key < count; ++key) {
      float* scores = s.scores[key] + query;
      const F32x16 weight = select(seen(key), exp(load(scores) - max), splat(0));
      store(scores, weight);
      sum = sum + weight;
    }
    store(out.max + query, max);
    store(out.sum + query, sum);
  }
}

// values[first ... first + kRows) = weights . the split's values, kColumns vectors of columns at a time.
template <int kRows, int kColumns>
void weigh_columns(const VectorCore::Scratch& s, const float* values, int64_t stride, int64_t first, int64_t count,
                   int64_t width, int64_t column, const Partial& out) {
  F32x16 sums[kRows][kColumns];
  for (auto& of_row : sums) {
    for (F32x16& sum : of_row) sum = splat(0);
  }
  for (int64_t key = 0; key < count; ++key) {
    F32x16 numbers[kColumns];
    for (int c = 0; c < kColumns; ++c) numbers[c] = load(values + key * stride + column + c * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const F32x16 weight = in_register(splat(s.scores[key][first + r]));
      for (int c = 0; c < kColumns; ++c) sums[r][c] = fma(weight, numbers[c], sums[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) store(out.values + (first + r) * width + column + c * kLanes, sums[r][c]);
  }
}

// Vectors of columns [column, column + some), kRows queries.
template <int kRows>
void weigh_rows(const VectorCore::Scratch& s, const float* values, int64_t stride, int64_t first, int64_t count,
                int64_t width, int64_t column, int64_t column_end, const Partial& out) {
  constexpr int kColumns = kRegisters / kRows < 8 ? kRegisters / kRows : 8;
  for (; column + kColumns * kLanes <= column_end; column += kColumns * kLanes) {
    weigh_columns<kRows, kColumns>(s, values, stride, first, count, width, column, out);
  }
  for (; column < column_end; column += kLanes) {
    weigh_columns<kRows, 1>(s, values, stride, first, count, width, column, out);
  }
}

// f<rows>(first) over all queries, as many at once as registers hold.
template <class F>
[[gnu::always_inline]] inline void in_rows(int64_t queries, const F& f) {
  int64_t first = 0;
  for (; first + kGemmRows <= queries; first += kGemmRows) f.template operator()<kGemmRows>(first);
  if constexpr (kGemmRows > 4) {
    for (; first + 4 <= queries; first += 4) f.template operator()<4>(first);
  }
  if constexpr (kGemmRows > 2) {
    for (; first + 2 <= queries; first += 2) f.template operator()<2>(first);
  }
  for (; first < queries; ++first) f.template operator()<1>(first);
}

void VectorCore::attend_split(const QueryGroup& group, int64_t split_begin, std::byte* scratch, const Partial& out) {
  auto& s = *reinterpret_cast<Scratch*>(scratch);
  const Attention& a = *group.attention;
  const Visible any_sees = group.visible_to_any();
  const int64_t count = smaller(split_begin + kBlock, any_sees.last) - split_begin;
  if (count <= 0) return clear(out, group.count);
  const float scale = a.scale * (a.k.dtype == DType::kE4m3 ? a.k.scale : 1.0F);
  expand_block(group, split_begin, count, s);
  in_rows(group.count, [&]<int kRows>(int64_t first) { score_rows<kRows>(s, first, count, a.key_dim, scale); });
  weigh(s, group.count, split_begin, count, out);
  const bool separate_values = a.k.data != a.v.data;
  const float* values = separate_values ? s.values[0] : s.keys[0];
  const int64_t stride = separate_values ? kMaxAttentionValueDim : kMaxAttentionKeyDim;
  const int64_t width = padded(a.value_dim);
  // All queries with a few columns, which stay in L1 meanwhile.
  for (int64_t column = 0; column < width; column += kColumnsInL1) {
    const int64_t column_end = smaller(width, column + kColumnsInL1);
    in_rows(group.count, [&]<int kRows>(int64_t first) {
      weigh_rows<kRows>(s, values, stride, first, count, width, column, column_end, out);
    });
  }
}

}  // namespace

void mla_attention(WorkerPool& pool, const MlaAttention& call) {
  run_attention<VectorCore>(pool, as_attention(call));
}

void gqa_attention(WorkerPool& pool, const GqaAttention& call) {
  run_attention<VectorCore>(pool, as_attention(call));
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
