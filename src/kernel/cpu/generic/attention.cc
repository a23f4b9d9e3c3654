// Attention with vector units: up to 8 queries at once against blocks of 64 positions expanded to f32.
//
// Per block: scores (vectors over the head dimension, one horizontal sum a score), a running maximum and sum, and
// weighted values (vectors over the value dimension, kept in registers over the block's positions). Multiply-adds are
// queries * positions * (key_dim + value_dim) / 16; expanding a key costs about as much as one query and is shared
// by 8.
#include "kernel/cpu/generic/attention_driver.h"
#include "kernel/cpu/generic/kernels.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

constexpr int64_t kBlock = 64;  // positions whose softmax is computed together; divides kSplit

struct VectorCore {
  static constexpr int64_t kQueries = 8;

  // The scratch of one worker.
  struct Scratch {
    float q[kQueries][kMaxAttentionKeyDim];
    float keys[kBlock][kMaxAttentionKeyDim];
    float values[kBlock][kMaxAttentionValueDim];  // GQA; MLA's values are its keys
    float scores[kQueries][kBlock];               // then weights
    bool bad[kBlock];                             // the key holds a NaN or infinity
  };
  static constexpr int64_t kScratchBytes = (sizeof(Scratch) + 63) / 64 * 64;

  static int64_t width(int64_t value_dim) { return padded(value_dim); }
  [[gnu::always_inline]] static inline F32x16 power(F32x16 x) { return exp(x); }
  [[gnu::always_inline]] static inline F32x16 columns_at(const float* values, int64_t i) { return load(values + i); }
  static void load_queries(const QueryGroup& group, std::byte* scratch);
  static void attend(const QueryGroup& group, int64_t split_begin, std::byte* scratch, const Partial& out);
};

constexpr int kRegisters = kGemmRows * kGemmTilesManyRows;  // sums that fit

void VectorCore::load_queries(const QueryGroup& group, std::byte* scratch) {
  auto& s = *reinterpret_cast<Scratch*>(scratch);
  const Attention& a = *group.attention;
  for (int64_t query = 0; query < kQueries; ++query) {
    for (int64_t i = 0; i < a.key_dim; i += kLanes) {
      const int64_t column = group.head(query) * a.key_dim + i;
      const F32x16 q =
          query < group.count ? get(a.q, group.row(query), column, smaller(kLanes, a.key_dim - i)) : splat(0);
      store(s.q[query] + i, q);
    }
  }
}

// Numbers [column, column + dim) of a slot as f32, without the store's scale; zeros up to the next multiple of 16.
// Returns false, and writes zeros only, where one is not finite.
bool expand(const PagedStore& store, int64_t slot, int64_t column, int64_t dim, float* to) {
  const int64_t at = slot * store.dim + column;
  U32x16 bad = splat_u32(0);
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
      const U32x16 c = load_u8(codes);
      x = e4m3_magnitudes_signed(c);
      bad = bad | is_e4m3_nan(c);
    } else {
      x = store.dtype == DType::kBf16 ? load_first(static_cast<const Bf16*>(store.data) + at + i, count)
                                      : load_first(static_cast<const float*>(store.data) + at + i, count);
      bad = bad | ((bits_of(x) & splat_u32(0x7f800000)) == splat_u32(0x7f800000));
    }
    strobe::kernel::STROBE_ISA_NAMESPACE::store(to + i, x);
  }
  if (!any(bad)) return true;
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

// scores[first ... first + kRows) of `count` positions.
template <int kRows>
void score_rows(VectorCore::Scratch& s, int64_t first, int64_t count, int64_t dim, float scale) {
  constexpr int kKeys = kRegisters / kRows < 8 ? kRegisters / kRows : 8;
  for (int64_t key = 0; key < count; key += kKeys) {
    F32x16 sums[kKeys][kRows];
    for (auto& of_key : sums) {
      for (F32x16& sum : of_key) sum = splat(0);
    }
    for (int64_t i = 0; i < dim; i += kLanes) {
      for (int k = 0; k < kKeys; ++k) {
        const F32x16 numbers = load(s.keys[key + k] + i);
        for (int r = 0; r < kRows; ++r) sums[k][r] = fma(numbers, load(s.q[first + r] + i), sums[k][r]);
      }
    }
    for (int k = 0; k < kKeys; ++k) {
      for (int r = 0; r < kRows; ++r) s.scores[first + r][key + k] = sum_lanes(sums[k][r]) * scale;
    }
  }
}

// values[first ... first + kRows) += weights . the block's values, kColumns vectors of columns at a time.
template <int kRows, int kColumns>
void add_columns(const VectorCore::Scratch& s, const float* values, int64_t stride, int64_t first, int64_t count,
                 int64_t width, int64_t column, const Partial& out) {
  F32x16 sums[kRows][kColumns];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) sums[r][c] = load(out.values + (first + r) * width + column + c * kLanes);
  }
  for (int64_t key = 0; key < count; ++key) {
    for (int c = 0; c < kColumns; ++c) {
      const F32x16 numbers = load(values + key * stride + column + c * kLanes);
      for (int r = 0; r < kRows; ++r) sums[r][c] = fma(splat(s.scores[first + r][key]), numbers, sums[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) store(out.values + (first + r) * width + column + c * kLanes, sums[r][c]);
  }
}

// One query's scores of a block become weights; its maximum, sum and values so far are rescaled where the maximum
// grows.
void weigh(VectorCore::Scratch& s, const QueryGroup& group, int64_t query, int64_t begin, int64_t count, int64_t width,
           const Partial& out) {
  const Visible visible = group.visible(query);
  float* scores = s.scores[query];
  F32x16 largest = splat(out.max[query]);
  const F32x16 hidden = splat(-__builtin_inff());
  U32x16 seen[kBlock / kLanes];
  for (int64_t i = 0; i < kBlock; i += kLanes) {
    const U32x16 position = lane_numbers() + splat_u32(static_cast<uint32_t>(begin + i));
    const auto last = static_cast<uint32_t>(smaller(visible.last, begin + count));
    seen[i / kLanes] =
        select(position < splat_u32(static_cast<uint32_t>(visible.first)), splat_u32(0), position < splat_u32(last));
    largest = larger(select(seen[i / kLanes], load(scores + i), hidden), largest);
  }
  const float max = max_lanes(largest);
  if (max != out.max[query]) {
    alignas(64) float factor[kLanes] = {out.max[query] - max};
    store(factor, exp(load(factor)));
    out.max[query] = max;
    out.sum[query] *= factor[0];
    float* values = out.values + query * width;
    for (int64_t i = 0; i < width; i += kLanes) store(values + i, load(values + i) * splat(factor[0]));
  }
  F32x16 sum = splat(0);
  for (int64_t i = 0; i < kBlock; i += kLanes) {
    const F32x16 weight = select(seen[i / kLanes], exp(load(scores + i) - splat(max)), splat(0));
    store(scores + i, weight);
    sum = sum + weight;
  }
  out.sum[query] += sum_lanes(sum);
}

template <int kRows>
void attend_block(VectorCore::Scratch& s, const QueryGroup& group, int64_t first, int64_t begin, int64_t count,
                  const Partial& out) {
  const Attention& a = *group.attention;
  const float k_scale = a.k.dtype == DType::kE4m3 ? a.k.scale : 1.0F;
  score_rows<kRows>(s, first, count, a.key_dim, a.scale * k_scale);
  const int64_t width = padded(a.value_dim);
  for (int64_t query = first; query < first + kRows; ++query) {
    for (int64_t i = 0; i < count; ++i) {
      if (s.bad[i]) s.scores[query][i] = __builtin_nanf("");
    }
    weigh(s, group, query, begin, count, width, out);
  }
  const bool separate_values = a.k.data != a.v.data;
  const float* values = separate_values ? s.values[0] : s.keys[0];
  const int64_t stride = separate_values ? kMaxAttentionValueDim : kMaxAttentionKeyDim;
  constexpr int kColumns = kRegisters / kRows;
  int64_t column = 0;
  for (; column + kColumns * kLanes <= width; column += kColumns * kLanes) {
    add_columns<kRows, kColumns>(s, values, stride, first, count, width, column, out);
  }
  for (; column < width; column += kLanes) {
    add_columns<kRows, 1>(s, values, stride, first, count, width, column, out);
  }
}

void VectorCore::attend(const QueryGroup& group, int64_t split_begin, std::byte* scratch, const Partial& out) {
  auto& s = *reinterpret_cast<Scratch*>(scratch);
  const int64_t width = padded(group.attention->value_dim);
  for (int64_t query = 0; query < kQueries; ++query) {
    for (int64_t i = 0; i < width; i += kLanes) store(out.values + query * width + i, splat(0));
  }
  clear(out, kQueries);
  const Visible any_sees = group.visible_to_any();
  const int64_t begin = greater(split_begin, any_sees.first / kBlock * kBlock);
  const int64_t end = smaller(split_begin + kSplit, any_sees.last);
  for (int64_t block = begin; block < end; block += kBlock) {
    const int64_t count = smaller(kBlock, end - block);
    expand_block(group, block, count, s);
    int64_t first = 0;
    for (; first + kGemmRows <= group.count; first += kGemmRows) {
      attend_block<kGemmRows>(s, group, first, block, count, out);
    }
    for (; first < group.count; ++first) attend_block<1>(s, group, first, block, count, out);
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
