// Attention with vector units: the three steps of group_attention.h.
//
// 1. Scores are vectors over the head dimension and one sum over lanes. Sixteen keys at a time are expanded to f32
//    (MLA: 36 KiB), and stay in L1 while all queries meet them, four at a time.
// 2. Every query is a lane: maximum, exponentials in place of the scores, their sum.
// 3. Weighted values are vectors over 64 columns, in registers over 64 positions, which are expanded before.
//
// Multiply-adds are queries * positions * (key_dim + value_dim) / 16. Expanding 16 numbers of e4m3 takes 6 operations,
// twice: as much as 6 queries.
#include "kernel/cpu/generic/group_attention.h"
#include "kernel/cpu/generic/kernels.h"
#include "kernel/cpu/generic/math.h"
#include "kernel/cpu/generic/vector_steps.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

constexpr int64_t kValuesAtOnce = 64;                       // positions of which a chunk is expanded
constexpr int kRegisters = kGemmRows * kGemmTilesManyRows;  // sums that fit

struct VectorCore : VectorSteps {
  static constexpr float kE4m3Factor = kE4m3Unit;

  struct alignas(64) Own {
    float queries[kMaxQueries][kMaxAttentionKeyDim];
    float keys[kStepKeys][kMaxAttentionKeyDim];
    float values[kValuesAtOnce][kChunk];
    void begin(const QueryGroup& group, const QueryLanes& lanes);
  };
  static bool score(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows, int64_t queries,
                    Keys keys, TileScores* scores);
  static void weigh(TileScores& scores, const QueryLanes& lanes, int64_t tile, float factor, int64_t split_begin,
                    Keys keys, Weights&, float* max, float* sum);
  static bool add_values(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows, int64_t chunk,
                         int64_t queries, Keys keys, const TileScores* weights, const Weights*, ChunkSums& sums);
};
using Own = VectorCore::Own;

void VectorCore::Own::begin(const QueryGroup& group, const QueryLanes& lanes) {
  const Attention& a = *group.attention;
  for (int64_t query = 0; query < group.count; ++query) {
    const int64_t column = lanes.head[query] * a.key_dim;
    for (int64_t i = 0; i < a.key_dim; i += kLanes) {
      const F32x16 q = get(a.q, lanes.row[query], column + i, smaller(kLanes, a.key_dim - i));
      strobe::kernel::STROBE_ISA_NAMESPACE::store(queries[query] + i, q);
    }
  }
}

// Numbers [begin, begin + kChunk) of a row, of which it has `count`, without the store's scale and kE4m3Unit; zeros
// behind. Those that are not finite come as finite ones, and set a bit of kInfinite in *flags.
constexpr uint32_t kInfinite = 0x80808080U;

template <DType kType>
[[gnu::always_inline]] inline void expand(const std::byte* row, int64_t begin, int64_t count, float* to,
                                          U32x16* flags) {
  if constexpr (kType == DType::kE4m3) {
    const auto* codes = reinterpret_cast<const uint8_t*>(row) + begin;
    alignas(64) uint8_t some[kChunk];
    if (count < kChunk) {
      __builtin_memset(some, 0, sizeof some);
      __builtin_memcpy(some, codes, static_cast<size_t>(count));
      codes = some;
    }
    // In each byte: 127, and nothing smaller, carries into the upper bit.
    *flags = *flags | ((load_u32(codes) & splat_u32(0x7f7f7f7f)) + splat_u32(0x01010101));
    for (int64_t i = 0; i < kChunk; i += kLanes) store(to + i, load_e4m3(codes + i));
  } else {
    for (int64_t i = 0; i < kChunk; i += kLanes) {
      const int64_t left = greater(0, smaller(kLanes, count - i));
      const F32x16 x = kType == DType::kBf16 ? load_first(reinterpret_cast<const Bf16*>(row) + begin + i, left)
                                             : load_first(reinterpret_cast<const float*>(row) + begin + i, left);
      const U32x16 finite = from_bits(bits_of(x) & splat_u32(0x7fffffff)) <= splat(0x1.fffffep127F);
      store(to + i, select(finite, x, splat(0)));
      *flags = select(finite, *flags, splat_u32(kInfinite));
    }
  }
}

// Scores of queries [first, first + kRows) and the expanded keys, of which the first is `begin` in its split.
template <int kRows, bool kAsks>
void score_rows(const Own& own, Ahead& ahead, int64_t first, int64_t begin, int64_t dim, TileScores* scores) {
  constexpr int kKeys = kRegisters / kRows < 8 ? kRegisters / kRows : 8;  // in registers at once
  static_assert(VectorCore::kStepKeys % kKeys == 0 && 16 % kRows == 0);
  for (int64_t key = 0; key < VectorCore::kStepKeys; key += kKeys) {
    F32x16 sums[kKeys * kRows];
    for (F32x16& sum : sums) sum = splat(0);
    for (int64_t i = 0; i < dim; i += kLanes) {
      F32x16 numbers[kKeys];
      for (int k = 0; k < kKeys; ++k) numbers[k] = load(own.keys[key + k] + i);
      for (int r = 0; r < kRows; ++r) {
        const F32x16 q = in_register(load(own.queries[first + r] + i));
        for (int k = 0; k < kKeys; ++k) sums[k * kRows + r] = fma(numbers[k], q, sums[k * kRows + r]);
      }
      if constexpr (kAsks) ahead.ask();
    }
    alignas(64) float by_key[kKeys * kRows];
    sums_of_lanes(sums, by_key);
    for (int k = 0; k < kKeys; ++k) {
      __builtin_memcpy(scores[first / 16][begin + key + k] + first % 16, by_key + k * kRows, kRows * sizeof(float));
    }
  }
}

template <DType kType>
bool score_run(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows, int64_t queries,
               Keys keys, TileScores* scores) {
  U32x16 flags = splat_u32(0);
  for (int64_t begin = keys.begin; begin < keys.end; begin += VectorCore::kStepKeys) {
    if (begin + kRowsAhead < keys.end) stored.prefetch(rows + begin + kRowsAhead, VectorCore::kStepKeys);
    for (int64_t key = 0; key < VectorCore::kStepKeys; ++key) {
      for (int64_t i = 0; i < stored.dim; i += kChunk) {
        expand<kType>(rows[begin + key], i, smaller(kChunk, stored.dim - i), own.keys[key] + i, &flags);
        ahead.ask();
      }
      ahead.more();
    }
    in_rows<kRegisters >= 16 ? 4 : 2>(queries, [&]<int kRows>(int64_t first) {
      (ahead.more() ? score_rows<kRows, true> : score_rows<kRows, false>)(own, ahead, first, begin, stored.dim, scores);
    });
  }
  return !any(flags & splat_u32(kInfinite));
}

void VectorCore::weigh(TileScores& scores, const QueryLanes& lanes, int64_t tile, float factor, int64_t split_begin,
                       Keys keys, Weights&, float* max, float* sum) {
  weigh_tile(
      scores, lanes, tile, factor, split_begin, keys, max, sum,
      [](F32x16 weight, F32x16 * counted) __attribute__((always_inline)) {
        *counted = weight;
        return weight;
      });
}

// sums of queries [first, first + kRows), vectors of columns [column, column + kColumns) += weights . expanded values.
template <int kRows, int kColumns, bool kAsks>
[[gnu::always_inline]] inline void add_columns(const Own& own, Ahead& ahead, const TileScores* weights, int64_t first,
                                               int64_t begin, int64_t count, int64_t column, bool from_zero,
                                               ChunkSums& to) {
  F32x16 sums[kRows][kColumns];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      sums[r][c] = from_zero ? splat(0) : load(to[first + r] + (column + c) * kLanes);
    }
  }
  const float(*w)[16] = weights[first / 16] + begin;
  for (int64_t key = 0; key < count; ++key) {
    F32x16 numbers[kColumns];
    for (int c = 0; c < kColumns; ++c) numbers[c] = load(own.values[key] + (column + c) * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const F32x16 weight = in_register(splat(w[key][first % 16 + r]));
      for (int c = 0; c < kColumns; ++c) sums[r][c] = fma(weight, numbers[c], sums[r][c]);
    }
    if constexpr (kAsks) ahead.ask();
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) store(to[first + r] + (column + c) * kLanes, sums[r][c]);
  }
}

template <DType kType>
bool add_chunk(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows, int64_t chunk,
               int64_t queries, Keys keys, const TileScores* weights, ChunkSums& sums) {
  constexpr int kColumns = kRegisters >= 16 ? 4 : kRegisters >= 4 ? 2 : 1;
  const int64_t width = smaller(kChunk, stored.dim - chunk * kChunk);
  U32x16 flags = splat_u32(0);
  for (int64_t begin = keys.begin; begin < keys.end; begin += kValuesAtOnce) {
    const int64_t count = smaller(kValuesAtOnce, keys.end - begin);
    for (int64_t key = 0; key < count; ++key) {
      expand<kType>(rows[begin + key], chunk * kChunk, width, own.values[key], &flags);
      ahead.ask();
    }
    in_rows<kRegisters / kColumns>(queries, [&]<int kRows>(int64_t first) {
      for (int64_t column = 0; column < kChunk / kLanes; column += kColumns) {
        if (ahead.more()) {
          add_columns<kRows, kColumns, true>(own, ahead, weights, first, begin, count, column, begin == keys.begin,
                                             sums);
        } else {
          add_columns<kRows, kColumns, false>(own, ahead, weights, first, begin, count, column, begin == keys.begin,
                                              sums);
        }
      }
    });
  }
  return !any(flags & splat_u32(kInfinite));
}

bool VectorCore::score(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows, int64_t queries,
                       Keys keys, TileScores* scores) {
  return for_type(stored.store.dtype,
                  [&]<DType kType>() { return score_run<kType>(own, ahead, stored, rows, queries, keys, scores); });
}

bool VectorCore::add_values(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows,
                            int64_t chunk, int64_t queries, Keys keys, const TileScores* weights, const Weights*,
                            ChunkSums& sums) {
  return for_type(stored.store.dtype, [&]<DType kType>() {
    return add_chunk<kType>(own, ahead, stored, rows, chunk, queries, keys, weights, sums);
  });
}

}  // namespace

void mla_attention(WorkerPool& pool, const MlaAttention& call) {
  run_attention<VectorCore>(pool, as_attention(call));
}

void gqa_attention(WorkerPool& pool, const GqaAttention& call) {
  run_attention<VectorCore>(pool, as_attention(call));
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
