// Attention with the tile unit: up to 64 queries against splits of 256 positions.
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
// Each step runs over up to kWave splits before the next begins. Workers of a team share a step: runs of keys, query
// tiles, chunks of columns. So nothing is expanded twice, and a context of a single split has work for all.
//
// Per position of MLA (576 numbers, 512 of them values): 576 bytes of e4m3 read; 9 + 8 chunks of 13 to 15 vector
// operations, about 120 cycles; 18 + 32/2 multiplications per 16 queries and 16 keys: 34 cycles for 16 queries, 136
// for 64.
#include "kernel/cpu/amx/kernels.h"
#include "kernel/cpu/amx/stored_rows.h"
#include "kernel/cpu/amx/tiles.h"
#include "kernel/cpu/generic/attention_driver.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

constexpr int64_t kSplit = 256;
constexpr int64_t kSplitSteps = kSplit / kStepKeys;
constexpr int64_t kWave = 4;  // splits whose scores are kept at a time
constexpr int64_t kMaxKeyChunks = kMaxAttentionKeyDim / kChunk;
constexpr int64_t kMaxValueChunks = kMaxAttentionValueDim / kChunk;
constexpr int64_t kQueryTiles = 4;
constexpr int64_t kMaxQueries = 16 * kQueryTiles;

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

// The memory of one worker.
struct alignas(64) Own {
  std::byte queries[kQueryTiles][2 * kMaxKeyChunks][kTileBytes];  // [32 numbers in pairs][16 queries]
  std::byte keys[4][2][2][kTileBytes];                            // chunk, half of it, 16 keys
  std::byte values[kSplitSteps][4][kTileBytes];                   // of one chunk: [32 keys in pairs][16 columns]
  float sums[kMaxQueries][kChunk];                                // of one split and chunk
  float total[kMaxQueries][kChunk];                               // of all splits, where they are one wave
};

// What the workers of a group share, in the memory of the one that called the others.
struct alignas(64) Shared {
  float scores[kWave][kQueryTiles][kSplit][16];                    // key, query
  std::byte weights[kWave][kQueryTiles][kSplitSteps][kTileBytes];  // [16 queries][32 keys]
  float values[kMaxValueChunks][kMaxQueries][kChunk];              // of all splits so far, where they are more
  float max[kWave][kMaxQueries];                                   // of a split
  float sum[kWave][kMaxQueries];
  float keep[kWave][kMaxQueries];  // the factor of what was folded before a split
  float add[kWave][kMaxQueries];   // and of the split
  float max_so_far[kMaxQueries];
  float sum_so_far[kMaxQueries];
  float factor[kMaxQueries];   // of the results
  int32_t first[kMaxQueries];  // what each query sees: positions [first, last)
  int32_t last[kMaxQueries];
  int64_t row[kMaxQueries];
  int64_t head[kMaxQueries];
  const std::byte* key_rows[kWave][kSplit];
  const std::byte* value_rows[kWave][kSplit];
  bool spoiled[kMaxQueries];  // sees a number that is not finite
};

struct Scratch {
  Own own;
  Shared shared;
};
static_assert(sizeof(Scratch) <= kScratchBytes);

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

void load_queries(const QueryGroup& group, const Shared& shared, Own& own) {
  const Attention& a = *group.attention;
  for (int64_t tile = 0; tile * 16 < group.count; ++tile) {
    const int64_t count = smaller(16, group.count - tile * 16);
    const int64_t* rows = shared.row + tile * 16;
    const int64_t* heads = shared.head + tile * 16;
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
        _mm512_store_si512(own.queries[tile][2 * chunk] + i * kTileStride, low[i]);
        _mm512_store_si512(own.queries[tile][2 * chunk + 1] + i * kTileStride, high[i]);
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

using TileScores = float[kSplit][16];  // of one query tile

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
void score(Own& own, const Source& keys, const std::byte* const* key_rows, int64_t tiles, Steps steps,
           TileScores* scores, __m512i* largest) {
  constexpr int64_t kChunksAtOnce = kTwo ? 3 : kMaxKeyChunks;
  __m512i running = *largest;
  for (int64_t begin = 0; begin < keys.chunks(); begin += kChunksAtOnce) {
    const int64_t end = smaller(begin + kChunksAtOnce, keys.chunks());
    for (int64_t step = steps.begin; step < steps.end; ++step) {
      const std::byte* const* rows = key_rows + step * kStepKeys;
      // The rows of the next step, in as many parts as there are chunks; later chunks find them in L2.
      const int64_t rows_ahead = begin == 0 && step + 1 < steps.end ? kStepKeys : 0;
      load_scores<kTwo>(scores, begin == 0, step * kStepKeys, 0);
      // Four chunks' room goes round: nothing older is asked for again.
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        prefetch_rows(keys, rows + kStepKeys, rows_ahead * chunk / end, rows_ahead * (chunk + 1) / end);
        if (keys.whole(chunk)) {
          expand_keys<kType, true>(keys, rows, chunk, &running, own.keys[chunk % 4]);
        } else {
          expand_keys<kType, false>(keys, rows, chunk, &running, own.keys[chunk % 4]);
        }
        if (chunk > begin) multiply_keys<kTwo>(own, own.keys[(chunk - 1) % 4], chunk - 1, 0);
      }
      multiply_keys<kTwo>(own, own.keys[(end - 1) % 4], end - 1, 0);
      store_scores<kTwo>(scores, step * kStepKeys, 0);
      if constexpr (kTwo) {
        if (tiles <= 2) continue;
        load_scores<true>(scores, begin == 0, step * kStepKeys, 2);
        for (int64_t chunk = begin; chunk < end; ++chunk) multiply_keys<true>(own, own.keys[chunk % 4], chunk, 2);
        store_scores<true>(scores, step * kStepKeys, 2);
      }
    }
  }
  *largest = running;
}

// --------------------------------------------------------------------------------------------------- step 2: weights

// Which positions the 16 queries of a tile see, as vectors. A lane without a query sees what the others do: its numbers
// are computed and not used.
struct VisibleLanes {
  __m512i first;
  __m512i last;

  VisibleLanes(const Shared& s, int64_t tile)
      : first(_mm512_load_si512(s.first + tile * 16)), last(_mm512_load_si512(s.last + tile * 16)) {}
  // Whether every query sees positions [begin, end).
  bool all(int64_t begin, int64_t end) const {
    return _mm512_reduce_max_epi32(first) <= begin && _mm512_reduce_min_epi32(last) >= end;
  }
  [[gnu::always_inline]] inline __mmask16 see(int64_t position) const {
    const __m512i p = _mm512_set1_epi32(static_cast<int32_t>(position));
    return _mm512_mask_cmplt_epi32_mask(_mm512_cmple_epi32_mask(first, p), p, last);
  }
};

// One query tile of one split. kMasked: not every query sees every position of the steps.
template <bool kMasked>
void weigh(const TileScores& scores, const VisibleLanes& visible, float factor, int64_t split_begin, Steps steps,
           std::byte (*weights)[kTileBytes], float* max_of_split, float* sum_of_split) {
  const __m512 scale = _mm512_set1_ps(factor);
  __m512 max = _mm512_set1_ps(-__builtin_inff());
  for (int64_t key = steps.begin * kStepKeys; key < steps.end * kStepKeys; ++key) {
    const __m512 x = _mm512_mul_ps(_mm512_load_ps(scores[key]), scale);
    // A NaN in x leaves max.
    max = kMasked ? _mm512_mask_max_ps(max, visible.see(split_begin + key), x, max) : _mm512_max_ps(x, max);
  }
  __m512 sum = _mm512_setzero_ps();
  const __m512i half_unit = _mm512_set1_epi32(0x8000);
  const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000));
  for (int64_t step = steps.begin; step < steps.end; ++step) {
    __m512i pairs[16];
    for (int64_t i = 0; i < 16; ++i) {
      __m512i both[2];
      for (int64_t parity = 0; parity < 2; ++parity) {
        const int64_t key = step * kStepKeys + 2 * i + parity;
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
    for (int64_t i = 0; i < 16; ++i) _mm512_store_si512(weights[step] + i * kTileStride, pairs[i]);
  }
  _mm512_store_ps(max_of_split, max);
  _mm512_store_ps(sum_of_split, sum);
}

// Folds a split's maxima and sums of 16 queries into those of the splits before it, and keeps the factors for their
// values. A split of which a query sees nothing (sum 0) adds nothing.
void fold_sums(Shared& s, int64_t split, int64_t query) {
  const __m512 max_before = _mm512_load_ps(s.max_so_far + query), sum_before = _mm512_load_ps(s.sum_so_far + query);
  const __m512 max_here = _mm512_load_ps(s.max[split] + query), sum_here = _mm512_load_ps(s.sum[split] + query);
  const __m512 zero = _mm512_setzero_ps();
  const __m512 max = _mm512_max_ps(max_here, max_before);
  const auto factor = [&](__m512 max_of, __m512 sum_of) __attribute__((always_inline)) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(sum_of, zero, _CMP_NEQ_UQ), power_of_two(_mm512_sub_ps(max_of, max)));
  };
  const __m512 keep = factor(max_before, sum_before), add = factor(max_here, sum_here);
  const __m512 sum = _mm512_add_ps(_mm512_mul_ps(sum_before, keep), _mm512_mul_ps(sum_here, add));
  _mm512_store_ps(s.keep[split] + query, keep);
  _mm512_store_ps(s.add[split] + query, add);
  _mm512_store_ps(s.max_so_far + query, max);
  _mm512_store_ps(s.sum_so_far + query, sum);
}

// ---------------------------------------------------------------------------------------------------- step 3: values

// A split's weights, and the expanded values of a chunk of it.
struct ChunkOfSplit {
  const std::byte (*weights)[kSplitSteps][kTileBytes];  // by query tile
  const std::byte (*values)[4][kTileBytes];
  float (*sums)[kChunk];
};

// One step's share of one chunk's columns: of one query tile and four column tiles, or of two and two.
template <bool kTwo>
[[gnu::always_inline]] inline void multiply_values(const ChunkOfSplit& c, int64_t step, int64_t tile, int64_t column) {
  tile_load<4>(c.weights[tile][step], kTileStride);
  tile_load<6>(c.values[step][column], kTileStride);
  tile_multiply<0, 4, 6>();
  tile_load<7>(c.values[step][column + 1], kTileStride);
  tile_multiply<1, 4, 7>();
  if constexpr (kTwo) {
    tile_load<5>(c.weights[tile + 1][step], kTileStride);
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
void add_values(Own& own, const Source& values, const std::byte* const* value_rows, int64_t chunk, int64_t tiles,
                Steps steps, const ChunkOfSplit& c, __m512i* largest) {
  __m512i running = *largest;
  zero_sums();
  for (int64_t step = steps.begin; step < steps.end; ++step) {
    const std::byte* const* rows = value_rows + step * kStepKeys;
    if (values.whole(chunk)) {
      expand_values<kType, true>(values, rows, chunk, &running, own.values[step]);
    } else {
      expand_values<kType, false>(values, rows, chunk, &running, own.values[step]);
    }
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
  *largest = running;
}

// The part of the work that depends on how a store keeps its numbers.
struct StoreKernels {
  decltype(&score<DType::kE4m3, false>) score_one, score_two;
  decltype(&add_values<DType::kE4m3, false>) add_one, add_two;
  bool (*has_infinite)(__m512i);
};

template <DType kType>
constexpr StoreKernels kKernelsOf = {score<kType, false>, score<kType, true>, add_values<kType, false>,
                                     add_values<kType, true>, has_infinite<kType>};

const StoreKernels& kernels_of(DType dtype) {
  return dtype == DType::kE4m3   ? kKernelsOf<DType::kE4m3>
         : dtype == DType::kBf16 ? kKernelsOf<DType::kBf16>
                                 : kKernelsOf<DType::kF32>;
}

// ---------------------------------------------------------------------------------------------------- a group

// One group, wave by wave.
class TileAttention {
 public:
  TileAttention(const QueryGroup& group, const Team& team);
  void run();

 private:
  struct Run {  // of step 1
    int64_t split = 0;
    Steps steps;
  };

  int64_t begin_of(int64_t split) const { return (first_split_ + split) * kSplit; }
  void begin_wave(int64_t first_split, int64_t splits);
  int64_t cut_into_runs(Run* runs) const;
  void compute_scores();
  void compute_weights();
  void fold_all_sums();
  void compute_values(int64_t chunk, Own& own);
  void fold_values(int64_t split, const float (*sums)[kChunk], float (*total)[kChunk]) const;
  void write_results(int64_t chunk, const float (*total)[kChunk]) const;
  void note_infinite(const Source& source, const std::byte* const (*rows)[kSplit]);
  void write_spoiled();

  const QueryGroup& group_;
  const Attention& a_;
  const Team& team_;
  const int64_t tiles_;
  const Source keys_;
  const Source values_;
  const bool one_store_;
  Shared& s_;
  // The wave: splits numbered from its first on.
  int64_t first_split_ = 0;
  int64_t splits_ = 0;
  Steps steps_[kWave];
  bool first_wave_ = true;
  bool last_wave_ = false;
  bool infinite_keys_ = false;
  bool infinite_values_ = false;
  bool any_spoiled_ = false;
};

Own& own_memory() {
  return reinterpret_cast<Scratch*>(thread_scratch())->own;
}

TileAttention::TileAttention(const QueryGroup& group, const Team& team)
    : group_(group),
      a_(*group.attention),
      team_(team),
      tiles_(divide_up(group.count, 16)),
      keys_{.store = a_.k, .column = group.kv_head * a_.key_dim, .dim = a_.key_dim, .e4m3 = E4m3Expander::make()},
      values_{.store = a_.v, .column = group.kv_head * a_.value_dim, .dim = a_.value_dim, .e4m3 = keys_.e4m3},
      one_store_(a_.k.data == a_.v.data),
      s_(reinterpret_cast<Scratch*>(thread_scratch())->shared) {
  for (int64_t query = 0; query < tiles_ * 16; ++query) {
    const int64_t source = smaller(query, group.count - 1);
    const Visible visible = group.visible(source);
    s_.first[query] = static_cast<int32_t>(visible.first);
    s_.last[query] = static_cast<int32_t>(visible.last);
    s_.row[query] = group.row(source);
    s_.head[query] = group.head(source);
    s_.max_so_far[query] = -__builtin_inff();
    s_.sum_so_far[query] = 0;
    s_.spoiled[query] = false;
  }
}

void TileAttention::begin_wave(int64_t first_split, int64_t splits) {
  first_split_ = first_split;
  splits_ = splits;
  infinite_values_ = false;
  const Visible visible = group_.visible_to_any();
  for (int64_t split = 0; split < splits; ++split) {
    const int64_t begin = greater(begin_of(split), visible.first) - begin_of(split);
    const int64_t end = smaller(begin_of(split) + kSplit, visible.last) - begin_of(split);
    steps_[split] = {.begin = begin / kStepKeys, .end = divide_up(end, kStepKeys)};
    keys_.find_rows(group_, begin_of(split), steps_[split], s_.key_rows[split]);
    if (!one_store_) values_.find_rows(group_, begin_of(split), steps_[split], s_.value_rows[split]);
  }
}

// Splits, cut where that lets every worker have as much.
int64_t TileAttention::cut_into_runs(Run* runs) const {
  int64_t steps = 0;
  for (int64_t split = 0; split < splits_; ++split) steps += steps_[split].end - steps_[split].begin;
  const int64_t most = smaller(kSplitSteps, divide_up(steps, team_.workers()));
  int64_t count = 0;
  for (int64_t split = 0; split < splits_; ++split) {
    for (int64_t step = steps_[split].begin; step < steps_[split].end; step += most) {
      runs[count++] = {.split = split, .steps = {.begin = step, .end = smaller(step + most, steps_[split].end)}};
    }
  }
  return count;
}

void TileAttention::compute_scores() {
  Run runs[kWave * kSplitSteps];
  const int64_t count = cut_into_runs(runs);
  const StoreKernels& kernels = kernels_of(a_.k.dtype);
  const auto compute = tiles_ > 1 ? kernels.score_two : kernels.score_one;
  bool infinite = false;
  const Team alone;
  (count > 1 ? team_ : alone).on_all([&](const auto& take) {
    Own& own = own_memory();
    __m512i largest = _mm512_setzero_si512();
    bool begun = false;
    for (int64_t i; (i = take(1)) < count;) {
      const Run& run = runs[i];
      const std::byte* const* rows = s_.key_rows[run.split] + run.steps.begin * kStepKeys;
      prefetch_rows(keys_, rows, 0, kStepKeys);
      if (!begun) load_queries(group_, s_, own), configure_tiles({.first = 16, .second = 16});
      begun = true;
      compute(own, keys_, s_.key_rows[run.split], tiles_, run.steps, s_.scores[run.split], &largest);
    }
    if (!begun) return;
    release_tiles();
    if (kernels.has_infinite(largest)) __atomic_store_n(&infinite, true, __ATOMIC_RELAXED);
  });
  infinite_keys_ = infinite;
}

void TileAttention::compute_weights() {
  constexpr float kLog2E = 1.44269504088896341F;
  const float factor = a_.scale * (a_.k.dtype == DType::kE4m3 ? a_.k.scale : 1.0F) * kLog2E;
  constexpr int64_t kWorthSharing = 3;  // each takes a microsecond
  team_.in_chunks(splits_ * tiles_, 1, kWorthSharing, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t split = i / tiles_, tile = i % tiles_;
      const Steps steps = steps_[split];
      const VisibleLanes visible(s_, tile);
      const bool all = visible.all(begin_of(split) + steps.begin * kStepKeys, begin_of(split) + steps.end * kStepKeys);
      (all ? weigh<false> : weigh<true>)(s_.scores[split][tile], visible, factor, begin_of(split), steps,
                                         s_.weights[split][tile], s_.max[split] + tile * 16, s_.sum[split] + tile * 16);
    }
  });
  if (tiles_ != 3) return;  // the values of two tiles are multiplied together
  for (int64_t split = 0; split < splits_; ++split) __builtin_memset(s_.weights[split][3], 0, sizeof s_.weights[0][3]);
}

void TileAttention::fold_all_sums() {
  const __m512 v_scale = _mm512_set1_ps(a_.v.dtype == DType::kE4m3 ? a_.v.scale : 1.0F);
  for (int64_t query = 0; query < tiles_ * 16; query += 16) {
    for (int64_t split = 0; split < splits_; ++split) fold_sums(s_, split, query);
    const __m512 sum = _mm512_load_ps(s_.sum_so_far + query);
    const __mmask16 sees = _mm512_cmp_ps_mask(sum, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    _mm512_store_ps(s_.factor + query, _mm512_maskz_div_ps(sees, v_scale, sum));
  }
}

void TileAttention::fold_values(int64_t split, const float (*sums)[kChunk], float (*total)[kChunk]) const {
  for (int64_t query = 0; query < group_.count; ++query) {
    const F32x16 keep = splat(s_.keep[split][query]), add = splat(s_.add[split][query]);
    float* to = total[query];
    for (int64_t i = 0; i < kChunk; i += kLanes) store(to + i, fma(load(to + i), keep, load(sums[query] + i) * add));
  }
}

// Adding 0 turns -0 to 0: whether a zero sum carries a sign may depend on neighbours' keys (0 * -1).
void TileAttention::write_results(int64_t chunk, const float (*total)[kChunk]) const {
  const int64_t left = smaller(kChunk, a_.value_dim - chunk * kChunk);
  for (int64_t query = 0; query < group_.count; ++query) {
    const ValueColumns columns(total[query]);
    const F32x16 factor = splat(s_.factor[query]);
    const int64_t column = s_.head[query] * a_.value_dim + chunk * kChunk;
    const auto value = [&](int64_t j) __attribute__((always_inline)) {
      return columns.at(j) * factor + splat(0.0F);
    };
    if (left == kChunk && a_.out.dtype == DType::kBf16) {
      store_pair(const_cast<Bf16*>(row_bf16(a_.out, s_.row[query])) + column, value(0), value(1));
      store_pair(const_cast<Bf16*>(row_bf16(a_.out, s_.row[query])) + column + 32, value(2), value(3));
      continue;
    }
    for (int64_t i = 0; i < left; i += kLanes) {
      set(a_.out, s_.row[query], column + i, smaller(kLanes, left - i), value(i / kLanes));
    }
  }
}

void TileAttention::compute_values(int64_t chunk, Own& own) {
  const StoreKernels& kernels = kernels_of(a_.v.dtype);
  const auto compute = tiles_ > 1 ? kernels.add_two : kernels.add_one;
  __m512i largest = _mm512_setzero_si512();
  auto* total = first_wave_ && last_wave_ ? own.total : s_.values[chunk];
  for (int64_t split = 0; split < splits_; ++split) {
    const bool first = first_wave_ && split == 0;
    const ChunkOfSplit c = {.weights = s_.weights[split], .values = own.values, .sums = first ? total : own.sums};
    const std::byte* const* rows = one_store_ ? s_.key_rows[split] : s_.value_rows[split];
    compute(own, values_, rows, chunk, tiles_, steps_[split], c, &largest);
    if (!first) fold_values(split, own.sums, total);
  }
  if (last_wave_) write_results(chunk, total);
  if (kernels.has_infinite(largest)) __atomic_store_n(&infinite_values_, true, __ATOMIC_RELAXED);
}

// Rare.
void TileAttention::note_infinite(const Source& source, const std::byte* const (*rows)[kSplit]) {
  for (int64_t split = 0; split < splits_; ++split) {
    for (int64_t i = steps_[split].begin * kStepKeys; i < steps_[split].end * kStepKeys; ++i) {
      if (!row_is_infinite(source, rows[split][i])) continue;
      const int64_t position = begin_of(split) + i;
      for (int64_t query = 0; query < group_.count; ++query) {
        if (position >= s_.first[query] && position < s_.last[query]) s_.spoiled[query] = any_spoiled_ = true;
      }
    }
  }
}

void TileAttention::write_spoiled() {
  for (int64_t query = 0; query < group_.count; ++query) {
    if (!s_.spoiled[query]) continue;
    for (int64_t i = 0; i < a_.value_dim; i += kLanes) {
      set(a_.out, s_.row[query], s_.head[query] * a_.value_dim + i, smaller(kLanes, a_.value_dim - i),
          splat(__builtin_nanf("")));
    }
  }
}

void TileAttention::run() {
  const Visible visible = group_.visible_to_any();
  const int64_t end = divide_up(visible.last, kSplit);
  const int64_t chunks = values_.chunks();
  const int64_t rows_of_tiles = tiles_ == 1 ? group_.count : 16;
  int64_t split = visible.first / kSplit;
  if (visible.first >= visible.last) {
    __builtin_memset(s_.factor, 0, sizeof s_.factor);
    __builtin_memset(s_.values[0], 0, sizeof s_.values[0]);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) write_results(chunk, s_.values[0]);
    return;
  }
  for (; split < end; split += kWave, first_wave_ = false) {
    begin_wave(split, smaller(kWave, end - split));
    last_wave_ = split + splits_ == end;
    compute_scores();
    compute_weights();
    fold_all_sums();
    team_.in_chunks(chunks, 1, 2, [&](int64_t first, int64_t last) {
      configure_tiles({.first = rows_of_tiles, .second = rows_of_tiles});
      for (int64_t chunk = first; chunk < last; ++chunk) compute_values(chunk, own_memory());
      release_tiles();
    });
    if (infinite_keys_) note_infinite(keys_, s_.key_rows);
    if (infinite_values_) note_infinite(values_, one_store_ ? s_.key_rows : s_.value_rows);
  }
  if (any_spoiled_) write_spoiled();
}

struct TileCore {
  static constexpr int64_t kQueries = kMaxQueries;
  static constexpr int64_t kTeamPositions = kStepKeys;
  static void attend(const QueryGroup& group, const Team& team) { TileAttention(group, team).run(); }
};

}  // namespace

void mla_attention(WorkerPool& pool, const MlaAttention& call) {
  run_attention<TileCore>(pool, as_attention(call));
}

void gqa_attention(WorkerPool& pool, const GqaAttention& call) {
  run_attention<TileCore>(pool, as_attention(call));
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
