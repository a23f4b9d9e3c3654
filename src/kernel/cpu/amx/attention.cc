// Attention with the tile unit: the three steps of generic/group_attention.h.
//
// 1. Scores^T[key, query] = keys . queries^T, 32 keys at a time, so that a query is a lane of what follows. Stored rows
//    become bf16 rows of 16-key tiles (first operand) just before they are multiplied.
// 2. Softmax down the lanes: maximum over the split, then weights 2^(score - maximum) rounded to bf16, their sum, and a
//    transpose into tiles [query, key].
// 3. values[query, column] = weights . stored values, 64 columns at a time over all keys of the split: the sums of up
//    to four tiles stay in registers. The stored rows, now in L2, are expanded again, in pairs of keys (second
//    operand): keeping the expanded rows of step 1 instead would cost more, as their 256 KiB miss L1 on the way out and
//    on the way in. Splits are folded 64 columns at a time too, while these are in L1.
//
// Per position of MLA (576 numbers, 512 of them values): 576 bytes of e4m3 read; 9 + 8 chunks of 13 to 15 vector
// operations, about 120 cycles; 18 + 32/2 multiplications per 16 queries and 16 keys: 34 cycles for 16 queries, 136
// for 64.
#include "kernel/cpu/amx/kernels.h"
#include "kernel/cpu/amx/operands.h"
#include "kernel/cpu/amx/tiles.h"
#include "kernel/cpu/generic/group_attention.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

constexpr int64_t kSplitSteps = kSplit / kTileKeys;
constexpr int kLinesAhead = 12;  // that are asked for with each chunk of 32 stored rows (generic/ahead.h)

// 2^x within 2e-7, for x <= 0: NaN stays NaN, far below gives 0, 0 gives 1 exactly.
[[gnu::always_inline]] inline __m512 power_of_two(__m512 x) {
  const __m512 t = _mm512_max_ps(_mm512_set1_ps(-200.0F), x);  // in this order a NaN in x passes
  const __m512 n = _mm512_roundscale_ps(t, 0);
  const __m512 f = _mm512_sub_ps(t, n);
  __m512 p = _mm512_set1_ps(1.33335581e-3F);  // ln(2)^k / k!
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.61812911e-3F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.55041087e-2F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.40226507e-1F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.93147181e-1F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0F));
  return _mm512_scalef_ps(p, n);
}

struct TileCore {
  static constexpr int64_t kStepKeys = kTileKeys;
  static constexpr float kScoreFactor = 1.44269504088896341F;  // log2(e)
  static constexpr float kE4m3Factor = 1;

  struct alignas(64) Own {
    std::byte queries[kQueryTiles][2 * kMaxKeyChunks][kTileBytes];  // [32 numbers in pairs][16 queries]
    std::byte keys[4][2][2][kTileBytes];                            // chunk, half of it, 16 keys
    std::byte values[kSplitSteps][4][kTileBytes];                   // of one chunk: [32 keys in pairs][16 columns]
    void begin(const QueryGroup& group, const QueryLanes& lanes);
  };
  struct alignas(64) Weights {
    std::byte steps[kSplitSteps][kTileBytes];  // [16 queries][32 keys]
  };

  static F32x16 power(F32x16 x) { return {{(NativeF32)power_of_two((__m512)x.part[0])}}; }
  static bool score(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows, int64_t queries,
                    Keys keys, TileScores* scores);
  static void weigh(const TileScores& scores, const QueryLanes& lanes, int64_t tile, float factor, int64_t split_begin,
                    Keys keys, Weights& weights, float* max, float* sum);
  static bool add_values(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows, int64_t chunk,
                         int64_t queries, Keys keys, const TileScores* scores, const Weights* weights, ChunkSums& sums);
  static void store(const Rows& out, int64_t row, int64_t column, int64_t left, const float* sums, float factor);
};
using Own = TileCore::Own;
using Weights = TileCore::Weights;

// Numbers [i, i + 64) of a query; zeros from `left` on.
Halves query_chunk(const Rows& q, int64_t row, int64_t column, int64_t left) {
  if (left >= kChunk && q.dtype == DType::kBf16) {
    const Bf16* from = row_bf16(q, row) + column;
    return split_bf16(_mm512_loadu_si512(from), _mm512_loadu_si512(from + 32));
  }
  alignas(64) Bf16 numbers[kChunk];
  for (int64_t c = 0; c < kChunk; c += kLanes) {
    const int64_t count = greater(0, smaller(kLanes, left - c));
    store(numbers + c, count == 0 ? splat(0) : get(q, row, column + c, count));
  }
  return split_bf16(_mm512_load_si512(numbers), _mm512_load_si512(numbers + 32));
}

void TileCore::Own::begin(const QueryGroup& group, const QueryLanes& lanes) {
  const Attention& a = *group.attention;
  for (int64_t tile = 0; tile * 16 < group.count; ++tile) {
    const int64_t count = smaller(16, group.count - tile * 16);
    const int64_t* rows = lanes.row + tile * 16;
    const int64_t* heads = lanes.head + tile * 16;
    for (int64_t chunk = 0; chunk * kChunk < a.key_dim; ++chunk) {
      const int64_t column = chunk * kChunk;
      __m512i low[16], high[16];
      for (int64_t i = 0; i < 16; ++i) {
        Halves h = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        if (i < count) h = query_chunk(a.q, rows[i], heads[i] * a.key_dim + column, a.key_dim - column);
        low[i] = h.low;
        high[i] = h.high;
      }
      transpose_words(low);
      transpose_words(high);
      for (int64_t i = 0; i < 16; ++i) {
        _mm512_store_si512(queries[tile][2 * chunk] + i * kTileStride, low[i]);
        _mm512_store_si512(queries[tile][2 * chunk + 1] + i * kTileStride, high[i]);
      }
    }
  }
}

[[gnu::always_inline]] inline void zero_sums() {
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
}

// ---------------------------------------------------------------------------------------------------- step 1: scores

// One chunk's share of the scores of 32 keys and the queries of tiles `tile` and, if kTwo, tile + 1.
template <bool kTwo>
[[gnu::always_inline]] inline void multiply_keys(const Own& own, const std::byte (*keys)[2][kTileBytes], int64_t chunk,
                                                 int64_t tile) {
  for (int64_t half = 0; half < 2; ++half) {
    tile_load<4>(keys[half][0], kTileStride);
    tile_load<6>(own.queries[tile][2 * chunk + half], kTileStride);
    tile_multiply<0, 4, 6>();
    tile_load<5>(keys[half][1], kTileStride);
    tile_multiply<2, 5, 6>();
    if constexpr (kTwo) {
      tile_load<7>(own.queries[tile + 1][2 * chunk + half], kTileStride);
      tile_multiply<1, 4, 7>();
      tile_multiply<3, 5, 7>();
    }
  }
}

template <bool kTwo>
[[gnu::always_inline]] inline void store_scores(TileScores* scores, int64_t key, int64_t tile) {
  tile_store<0>(scores[tile][key], kTileStride);
  tile_store<2>(scores[tile][key + 16], kTileStride);
  if constexpr (kTwo) {
    tile_store<1>(scores[tile + 1][key], kTileStride);
    tile_store<3>(scores[tile + 1][key + 16], kTileStride);
  }
}

// Sums so far, or zeros before the first chunk.
template <bool kTwo>
[[gnu::always_inline]] inline void load_scores(const TileScores* scores, bool first, int64_t key, int64_t tile) {
  if (first) return zero_sums();
  tile_load<0>(scores[tile][key], kTileStride);
  tile_load<2>(scores[tile][key + 16], kTileStride);
  if constexpr (kTwo) {
    tile_load<1>(scores[tile + 1][key], kTileStride);
    tile_load<3>(scores[tile + 1][key + 16], kTileStride);
  }
}

// A run of steps of one split. One tile of queries (18 KiB for MLA) stays in L1, and sums stay in registers over all
// chunks. More do not fit: they take three chunks at a time through all steps (24 KiB of queries, 12 of keys), the sums
// waiting in memory in between. Multiplications follow the expansion one chunk behind, so that tile loads find its
// stores in L1.
template <DType kType, bool kTwo>
bool score_run(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* key_rows, int64_t tiles,
               Keys keys, TileScores* scores) {
  constexpr int64_t kChunksAtOnce = kTwo ? 3 : kMaxKeyChunks;
  const E4m3Expander e4m3 = E4m3Expander::make();
  __m512i running = _mm512_setzero_si512();
  for (int64_t begin = 0; begin < stored.chunks(); begin += kChunksAtOnce) {
    const int64_t end = smaller(begin + kChunksAtOnce, stored.chunks());
    for (int64_t key = keys.begin; key < keys.end; key += kTileKeys) {
      const std::byte* const* rows = key_rows + key;
      // The rows of the next step, in as many parts as there are chunks; later chunks find them in L2.
      const int64_t rows_ahead = begin == 0 && key + kTileKeys < keys.end ? kTileKeys : 0;
      load_scores<kTwo>(scores, begin == 0, key, 0);
      // Four chunks' room goes round: nothing older is asked for again.
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t first = rows_ahead * chunk / end;
        stored.prefetch(rows + kTileKeys + first, rows_ahead * (chunk + 1) / end - first);
        if (whole(stored, chunk)) {
          expand_keys<kType, true>(e4m3, stored, rows, chunk, &running, own.keys[chunk % 4]);
        } else {
          expand_keys<kType, false>(e4m3, stored, rows, chunk, &running, own.keys[chunk % 4]);
        }
        ahead.ask(kLinesAhead);
        if (chunk > begin) multiply_keys<kTwo>(own, own.keys[(chunk - 1) % 4], chunk - 1, 0);
      }
      multiply_keys<kTwo>(own, own.keys[(end - 1) % 4], end - 1, 0);
      store_scores<kTwo>(scores, key, 0);
      if constexpr (kTwo) {
        if (tiles <= 2) continue;
        load_scores<true>(scores, begin == 0, key, 2);
        for (int64_t chunk = begin; chunk < end; ++chunk) multiply_keys<true>(own, own.keys[chunk % 4], chunk, 2);
        store_scores<true>(scores, key, 2);
      }
    }
  }
  return !has_infinite<kType>(running);
}

// --------------------------------------------------------------------------------------------------- step 2: weights

// Which positions the 16 queries of a tile see, as vectors. A lane without a query sees what the others do: its numbers
// are computed and not used.
struct VisibleLanes {
  __m512i first;
  __m512i last;

  VisibleLanes(const QueryLanes& lanes, int64_t tile)
      : first(_mm512_load_si512(lanes.first + tile * 16)), last(_mm512_load_si512(lanes.last + tile * 16)) {}
  // Whether every query sees positions [begin, end).
  bool all(int64_t begin, int64_t end) const {
    return _mm512_reduce_max_epi32(first) <= begin && _mm512_reduce_min_epi32(last) >= end;
  }
  [[gnu::always_inline]] inline __mmask16 see(int64_t position) const {
    const __m512i p = _mm512_set1_epi32(static_cast<int32_t>(position));
    return _mm512_mask_cmplt_epi32_mask(_mm512_cmple_epi32_mask(first, p), p, last);
  }
};

// One query tile of one split. kMasked: not every query sees every position of the keys.
template <bool kMasked>
void weigh_tile(const TileScores& scores, const VisibleLanes& visible, float factor, int64_t split_begin, Keys keys,
                Weights& weights, float* max_of_split, float* sum_of_split) {
  const __m512 scale = _mm512_set1_ps(factor);
  __m512 max = _mm512_set1_ps(-__builtin_inff());
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    const __m512 x = _mm512_mul_ps(_mm512_load_ps(scores[key]), scale);
    // A NaN in x leaves max.
    max = kMasked ? _mm512_mask_max_ps(max, visible.see(split_begin + key), x, max) : _mm512_max_ps(x, max);
  }
  __m512 sum = _mm512_setzero_ps();
  const __m512i half_unit = _mm512_set1_epi32(0x8000);
  const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000));
  for (int64_t begin = keys.begin; begin < keys.end; begin += kTileKeys) {
    __m512i pairs[16];
    for (int64_t i = 0; i < 16; ++i) {
      __m512i both[2];
      for (int64_t parity = 0; parity < 2; ++parity) {
        const int64_t key = begin + 2 * i + parity;
        const __m512 x = _mm512_mul_ps(_mm512_load_ps(scores[key]), scale);
        const __m512i weight = _mm512_castps_si512(power_of_two(_mm512_sub_ps(x, max)));
        // Positive: half a unit up and cut is round to nearest.
        const __m512i rounded = _mm512_add_epi32(weight, half_unit);
        both[parity] = kMasked ? _mm512_maskz_and_epi32(visible.see(split_begin + key), rounded, upper)
                               : _mm512_and_si512(rounded, upper);
        sum = _mm512_add_ps(sum, _mm512_castsi512_ps(both[parity]));
      }
      pairs[i] = _mm512_or_si512(_mm512_srli_epi32(both[0], 16), both[1]);
    }
    transpose_words(pairs);
    for (int64_t i = 0; i < 16; ++i) {
      _mm512_store_si512(weights.steps[begin / kTileKeys] + i * kTileStride, pairs[i]);
    }
  }
  _mm512_store_ps(max_of_split, max);
  _mm512_store_ps(sum_of_split, sum);
}

// ---------------------------------------------------------------------------------------------------- step 3: values

// Steps of a split; its weights, and the expanded values of a chunk of it.
struct Steps {
  int64_t begin = 0, end = 0;
};
struct ChunkOfSplit {
  const Weights* weights;  // by query tile
  const std::byte (*values)[4][kTileBytes];
  float (*sums)[kChunk];
};

// One step's share of one chunk's columns: of one query tile and four column tiles, or of two and two.
template <bool kTwo>
[[gnu::always_inline]] inline void multiply_values(const ChunkOfSplit& c, int64_t step, int64_t tile, int64_t column) {
  tile_load<4>(c.weights[tile].steps[step], kTileStride);
  tile_load<6>(c.values[step][column], kTileStride);
  tile_multiply<0, 4, 6>();
  tile_load<7>(c.values[step][column + 1], kTileStride);
  tile_multiply<1, 4, 7>();
  if constexpr (kTwo) {
    tile_load<5>(c.weights[tile + 1].steps[step], kTileStride);
    tile_multiply<2, 5, 6>();
    tile_multiply<3, 5, 7>();
  } else {
    tile_load<6>(c.values[step][column + 2], kTileStride);
    tile_multiply<2, 4, 6>();
    tile_load<7>(c.values[step][column + 3], kTileStride);
    tile_multiply<3, 4, 7>();
  }
}

// The sums of query tile `tile` (and the next) from column tile `column` of the chunk on.
template <bool kTwo>
[[gnu::always_inline]] inline void store_values(const ChunkOfSplit& c, int64_t tile, int64_t column) {
  constexpr int64_t kStride = kChunk * 4;
  float* to = c.sums[tile * 16] + column * 16;
  float* third = kTwo ? to + 16 * kChunk : to + 32;
  tile_store<0>(to, kStride);
  tile_store<1>(to + 16, kStride);
  tile_store<2>(third, kStride);
  tile_store<3>(third + 16, kStride);
}

template <bool kTwo>
[[gnu::always_inline]] inline void multiply_expanded(const ChunkOfSplit& c, Steps steps, int64_t tile, int64_t column) {
  zero_sums();
  for (int64_t step = steps.begin; step < steps.end; ++step) multiply_values<kTwo>(c, step, tile, column);
  store_values<kTwo>(c, tile, column);
}

// One chunk of a split. Its first columns are multiplied while it is expanded, one step behind; the others afterwards,
// in an order in which each pass finds half of its operands in L1.
template <DType kType, bool kTwo>
bool add_chunk(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* value_rows, int64_t chunk,
               int64_t tiles, Steps steps, const ChunkOfSplit& c) {
  const E4m3Expander e4m3 = E4m3Expander::make();
  __m512i running = _mm512_setzero_si512();
  zero_sums();
  for (int64_t step = steps.begin; step < steps.end; ++step) {
    const std::byte* const* rows = value_rows + step * kTileKeys;
    if (whole(stored, chunk)) {
      expand_values<kType, true>(e4m3, stored, rows, chunk, &running, own.values[step]);
    } else {
      expand_values<kType, false>(e4m3, stored, rows, chunk, &running, own.values[step]);
    }
    ahead.ask(kLinesAhead);
    if (step > steps.begin) multiply_values<kTwo>(c, step - 1, 0, 0);
  }
  multiply_values<kTwo>(c, steps.end - 1, 0, 0);
  store_values<kTwo>(c, 0, 0);
  if constexpr (kTwo) {
    if (tiles > 2) {
      multiply_expanded<true>(c, steps, 2, 0);
      multiply_expanded<true>(c, steps, 2, 2);
    }
    multiply_expanded<true>(c, steps, 0, 2);
  }
  return !has_infinite<kType>(running);
}

// ---------------------------------------------------------------------------------------------------- all together

bool TileCore::score(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows, int64_t queries,
                     Keys keys, TileScores* scores) {
  const int64_t tiles = divide_up(queries, 16);
  configure_tiles({.first = 16, .second = 16});
  const bool finite = for_type(stored.store.dtype, [&]<DType kType>() {
    const auto run = tiles > 1 ? score_run<kType, true> : score_run<kType, false>;
    return run(own, ahead, stored, rows, tiles, keys, scores);
  });
  release_tiles();
  return finite;
}

void TileCore::weigh(const TileScores& scores, const QueryLanes& lanes, int64_t tile, float factor, int64_t split_begin,
                     Keys keys, Weights& weights, float* max, float* sum) {
  const VisibleLanes visible(lanes, tile);
  const bool all = visible.all(split_begin + keys.begin, split_begin + keys.end);
  (all ? weigh_tile<false> : weigh_tile<true>)(scores, visible, factor, split_begin, keys, weights, max, sum);
}

bool TileCore::add_values(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows, int64_t chunk,
                          int64_t queries, Keys keys, const TileScores*, const Weights* weights, ChunkSums& sums) {
  const int64_t tiles = divide_up(queries, 16);
  const int64_t rows_of_tile = smaller(16, queries);  // of several tiles, all are computed with, read or not
  const Steps steps = {.begin = keys.begin / kTileKeys, .end = keys.end / kTileKeys};
  const ChunkOfSplit c = {.weights = weights, .values = own.values, .sums = sums};
  configure_tiles({.first = rows_of_tile, .second = rows_of_tile});
  const bool finite = for_type(stored.store.dtype, [&]<DType kType>() {
    const auto add = tiles > 1 ? add_chunk<kType, true> : add_chunk<kType, false>;
    return add(own, ahead, stored, rows, chunk, tiles, steps, c);
  });
  release_tiles();
  return finite;
}

// Adding 0 turns -0 to 0: whether a zero sum carries a sign may depend on neighbours' keys (0 * -1).
void TileCore::store(const Rows& out, int64_t row, int64_t column, int64_t left, const float* sums, float factor) {
  const ValueColumns columns(sums);
  const auto value = [&](int64_t j) __attribute__((always_inline)) {
    return columns.at(j) * splat(factor) + splat(0.0F);
  };
  if (left == kChunk && out.dtype == DType::kBf16) {
    auto* to = const_cast<Bf16*>(row_bf16(out, row)) + column;
    store_pair(to, value(0), value(1));
    store_pair(to + 32, value(2), value(3));
    return;
  }
  for (int64_t i = 0; i < left; i += kLanes) set(out, row, column + i, smaller(kLanes, left - i), value(i / kLanes));
}

}  // namespace

void mla_attention(WorkerPool& pool, const MlaAttention& call) {
  run_attention<TileCore>(pool, as_attention(call));
}

void gqa_attention(WorkerPool& pool, const GqaAttention& call) {
  run_attention<TileCore>(pool, as_attention(call));
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
