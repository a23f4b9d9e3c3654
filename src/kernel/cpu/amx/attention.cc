// Attention with the tile unit: up to 64 queries against a split of 256 positions.
//
// 1. Scores^T[key, query] = keys . queries^T, 32 keys at a time, so that a query is a lane of what follows. Stored rows
// become
//    bf16 rows of 16-key tiles (first operand) just before they are multiplied.
// 2. Softmax down the lanes: maximum over the split, then weights 2^(score - maximum) rounded to bf16, their sum, and a
// transpose
//    into tiles [query, key].
// 3. values[query, column] = weights . stored values, 64 columns at a time over all keys of the split: the sums of up
// to four
//    tiles stay in registers. The stored rows, now in L2, are expanded again, in pairs of keys (second operand):
//    keeping the expanded rows of step 1 instead would cost more, as their 256 KiB miss L1 on the way out and on the
//    way in.
//
// Per position of MLA (576 numbers, 512 of them values): 576 bytes of e4m3 read; 9 + 8 chunks of 13 to 15 vector
// operations, about 120 cycles; 18 + 32/2 multiplications per 16 queries and 16 keys: 34 cycles for 16 queries, 136
// for 64.
#include "kernel/cpu/amx/expand.h"
#include "kernel/cpu/amx/kernels.h"
#include "kernel/cpu/amx/tiles.h"
#include "kernel/cpu/generic/attention_driver.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

constexpr int64_t kSplit = 256;
constexpr int64_t kStepKeys = 32;  // of one multiplication with values
constexpr int64_t kSteps = kSplit / kStepKeys;
constexpr int64_t kMaxKeyChunks = kMaxAttentionKeyDim / kChunk;
constexpr int64_t kQueryTiles = 4;

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
  static constexpr int64_t kQueries = 16 * kQueryTiles;
  static constexpr int64_t kSplitPositions = kSplit;

  struct alignas(64) Scratch {
    std::byte queries[kQueryTiles][2 * kMaxKeyChunks][kTileBytes];  // [32 numbers in pairs][16 queries]
    std::byte keys[4][2][2][kTileBytes];                            // chunk, half of it, 16 keys
    std::byte values[kSteps][4][kTileBytes];                        // of one chunk: [32 keys in pairs][16 columns]
    float scores[kQueryTiles][kSplit][16];                          // key, query
    std::byte weights[kQueryTiles][kSteps][kTileBytes];             // [16 queries][32 keys]
    const std::byte* key_rows[kSplit];
    const std::byte* value_rows[kSplit];
  };
  static constexpr int64_t kScratchBytes = sizeof(Scratch);

  static int64_t queries_kept(int64_t) { return kQueries; }  // that a partial has room for
  static int64_t width(int64_t value_dim) { return divide_up(value_dim, kChunk) * kChunk; }
  [[gnu::always_inline]] static inline F32x16 power(F32x16 x) { return {{(NativeF32)power_of_two((__m512)x.part[0])}}; }
  [[gnu::always_inline]] static inline F32x16 columns_at(const float* values, int64_t i) {
    return value_columns(values, i);
  }
  static void load_queries(const QueryGroup& group, std::byte* scratch);
  static void attend(const QueryGroup& group, int64_t split_begin, std::byte* scratch, const Partial& out);
};

// Steps [begin, end) of a split: those with a position that any query of the group sees. Others would add zeros.
struct StepRange {
  int64_t begin = 0, end = 0;
};

int64_t query_tiles(const QueryGroup& group) {
  return divide_up(group.count, 16);
}

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

void TileCore::load_queries(const QueryGroup& group, std::byte* scratch) {
  auto& s = *reinterpret_cast<Scratch*>(scratch);
  const Attention& a = *group.attention;
  for (int64_t tile = 0; tile < query_tiles(group); ++tile) {
    int64_t rows[16], columns[16];
    const int64_t count = smaller(16, group.count - tile * 16);
    for (int64_t i = 0; i < count; ++i) {
      rows[i] = group.row(tile * 16 + i);
      columns[i] = group.head(tile * 16 + i) * a.key_dim;
    }
    for (int64_t chunk = 0; chunk * kChunk < a.key_dim; ++chunk) {
      __m512i low[16], high[16];
      for (int64_t i = 0; i < 16; ++i) {
        Halves h = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        if (i < count) h = query_chunk(a.q, rows[i], columns[i] + chunk * kChunk, a.key_dim - chunk * kChunk);
        low[i] = h.low;
        high[i] = h.high;
      }
      transpose_words(low);
      transpose_words(high);
      for (int64_t i = 0; i < 16; ++i) {
        _mm512_store_si512(s.queries[tile][2 * chunk] + i * kTileStride, low[i]);
        _mm512_store_si512(s.queries[tile][2 * chunk + 1] + i * kTileStride, high[i]);
      }
    }
  }
}

// What stands for rows that no query sees.
alignas(64) constexpr std::byte kNoRow[(kMaxAttentionKeyDim + kChunk) * 4] = {};

// One store's part for the group: `dim` numbers from `column` on.
struct Source {
  PagedStore store;
  int64_t column = 0;
  int64_t dim = 0;
  E4m3Expander e4m3;

  int64_t chunks() const { return divide_up(dim, kChunk); }
  bool whole(int64_t chunk) const { return (chunk + 1) * kChunk <= dim; }
  int64_t number_bytes() const { return store.dtype == DType::kE4m3 ? 1 : store.dtype == DType::kBf16 ? 2 : 4; }

  // Where the numbers of the positions of a split's steps begin. (One division a page: they are slow.)
  void find_rows(const QueryGroup& group, int64_t split_begin, StepRange steps, const std::byte** rows) const {
    const Visible visible = group.visible_to_any();
    for (int64_t i = steps.begin * kStepKeys; i < steps.end * kStepKeys; ++i) rows[i] = kNoRow;
    const int64_t row_bytes = store.dim * number_bytes();
    const int64_t last = smaller(visible.last, split_begin + steps.end * kStepKeys);
    for (int64_t position = greater(visible.first, split_begin + steps.begin * kStepKeys); position < last;) {
      const int64_t page = position / store.page_size;
      const int64_t page_begin = page * store.page_size;
      const int64_t slot = group.request->pages[page] * int64_t{store.page_size} + position - page_begin;
      const std::byte* row = static_cast<const std::byte*>(store.data) + (slot * store.dim + column) * number_bytes();
      for (; position < last && position < page_begin + store.page_size; ++position, row += row_bytes) {
        rows[position - split_begin] = row;
      }
    }
  }
};

// Numbers [64 chunk, 64 chunk + 64) of a row. Those that are not finite come as finite ones (an e4m3 NaN as 480, others
// as 0), and show in *largest, the running maximum of magnitudes.
// `left`: how many of the chunk's numbers the row has, where it is not kWhole.
template <DType kType, bool kWhole>
[[gnu::always_inline]] inline Halves read_chunk(const E4m3Expander& e4m3, const std::byte* row, int64_t chunk,
                                                int64_t left, __m512i* largest) {
  const int64_t i = chunk * kChunk;
  const __mmask64 wanted = kWhole ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
  if constexpr (kType == DType::kE4m3) {
    const __m512i codes = kWhole ? _mm512_loadu_si512(row + i) : _mm512_maskz_loadu_epi8(wanted, row + i);
    return e4m3.expand(codes, largest);
  } else {
    __m512i first, second;
    if constexpr (kType == DType::kBf16) {
      first = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(wanted), row + 2 * i);
      second = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(wanted >> 32), row + 2 * i + 64);
    } else {
      alignas(64) Bf16 numbers[kChunk];
      const auto* from = reinterpret_cast<const float*>(row) + i;
      for (int64_t c = 0; c < kChunk; c += kLanes) {
        store(numbers + c, load_first(from + c, greater(0, smaller(kLanes, left - c))));
      }
      first = _mm512_load_si512(numbers);
      second = _mm512_load_si512(numbers + 32);
    }
    const __m512i infinity = _mm512_set1_epi16(0x7f80);
    for (__m512i* v : {&first, &second}) {
      const __m512i magnitude = _mm512_and_si512(*v, _mm512_set1_epi16(0x7fff));
      *largest = _mm512_max_epu16(*largest, magnitude);
      *v = _mm512_maskz_mov_epi16(_mm512_cmplt_epu16_mask(magnitude, infinity), *v);
    }
    return split_bf16(first, second);
  }
}

template <DType kType>
bool has_infinite(__m512i largest) {
  return kType == DType::kE4m3 ? E4m3Expander::has_nan(largest)
                               : _mm512_cmpge_epu16_mask(largest, _mm512_set1_epi16(0x7f80)) != 0;
}

// One chunk of a step's 32 keys as key tiles; asks for the same chunk of the next step's keys.
template <DType kType, bool kWhole>
[[gnu::always_inline]] inline void expand_keys(const Source& source, const std::byte* const* rows, int64_t ahead,
                                               int64_t chunk, __m512i* largest, std::byte (*tiles)[2][kTileBytes]) {
  const E4m3Expander e4m3 = source.e4m3;  // by value: in registers
  const int64_t left = kWhole ? kChunk : source.dim - chunk * kChunk;
  const int64_t chunk_bytes = kChunk * source.number_bytes();
  __m512i running = *largest;
  for (int64_t half = 0; half < 2; ++half) {
    std::byte* low = tiles[0][half];
    std::byte* high = tiles[1][half];
    for (int64_t key = 16 * half; key < 16 * half + 16; ++key, low += kTileStride, high += kTileStride) {
      __builtin_prefetch(rows[key + ahead] + chunk * chunk_bytes);
      const Halves h = read_chunk<kType, kWhole>(e4m3, rows[key], chunk, left, &running);
      _mm512_store_si512(low, h.low);
      _mm512_store_si512(high, h.high);
    }
  }
  *largest = running;
}

// One chunk of a step's 32 keys as value tiles.
template <DType kType, bool kWhole>
[[gnu::always_inline]] inline void expand_values(const Source& source, const std::byte* const* rows, int64_t chunk,
                                                 __m512i* largest, std::byte (*tiles)[kTileBytes]) {
  const E4m3Expander e4m3 = source.e4m3;
  const int64_t left = kWhole ? kChunk : source.dim - chunk * kChunk;
  __m512i running = *largest;
  for (int64_t pair = 0; pair < kStepKeys / 2; ++pair) {
    const Halves even = read_chunk<kType, kWhole>(e4m3, rows[2 * pair], chunk, left, &running);
    const Halves odd = read_chunk<kType, kWhole>(e4m3, rows[2 * pair + 1], chunk, left, &running);
    const Pairs low = pair_up(even.low, odd.low);
    const Pairs high = pair_up(even.high, odd.high);
    const int64_t row = pair * kTileStride;
    _mm512_store_si512(tiles[0] + row, low.first);
    _mm512_store_si512(tiles[1] + row, low.second);
    _mm512_store_si512(tiles[2] + row, high.first);
    _mm512_store_si512(tiles[3] + row, high.second);
  }
  *largest = running;
}

[[gnu::always_inline]] inline void zero_sums() {
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
}

// One chunk's share of the scores of 32 keys and the queries of tiles `tile` and, if kTwo, tile + 1.
template <bool kTwo>
[[gnu::always_inline]] inline void multiply_keys(const TileCore::Scratch& s, const std::byte (*keys)[2][kTileBytes],
                                                 int64_t chunk, int64_t tile) {
  for (int64_t half = 0; half < 2; ++half) {
    tile_load<4>(keys[half][0], kTileStride);
    tile_load<6>(s.queries[tile][2 * chunk + half], kTileStride);
    tile_multiply<0, 4, 6>();
    tile_load<5>(keys[half][1], kTileStride);
    tile_multiply<2, 5, 6>();
    if constexpr (kTwo) {
      tile_load<7>(s.queries[tile + 1][2 * chunk + half], kTileStride);
      tile_multiply<1, 4, 7>();
      tile_multiply<3, 5, 7>();
    }
  }
}

template <bool kTwo>
[[gnu::always_inline]] inline void store_scores(TileCore::Scratch& s, int64_t key, int64_t tile) {
  tile_store<0>(s.scores[tile][key], kTileStride);
  tile_store<2>(s.scores[tile][key + 16], kTileStride);
  if constexpr (kTwo) {
    tile_store<1>(s.scores[tile + 1][key], kTileStride);
    tile_store<3>(s.scores[tile + 1][key + 16], kTileStride);
  }
}

// Sums so far, or zeros before the first chunk.
template <bool kTwo>
[[gnu::always_inline]] inline void load_scores(const TileCore::Scratch& s, bool first, int64_t key, int64_t tile) {
  if (first) return zero_sums();
  tile_load<0>(s.scores[tile][key], kTileStride);
  tile_load<2>(s.scores[tile][key + 16], kTileStride);
  if constexpr (kTwo) {
    tile_load<1>(s.scores[tile + 1][key], kTileStride);
    tile_load<3>(s.scores[tile + 1][key + 16], kTileStride);
  }
}

// Step 1. One tile of queries (18 KiB for MLA) stays in L1, and sums stay in registers over all chunks. More do not
// fit: they take three chunks at a time through all steps (24 KiB of queries, 12 of keys), the sums waiting in memory
// in between. Multiplications follow the expansion one chunk behind, so that tile loads find its stores in L1.
template <DType kType, bool kTwo>
void score(TileCore::Scratch& s, const Source& keys, int64_t tiles, StepRange steps, __m512i* largest) {
  constexpr int64_t kChunksAtOnce = kTwo ? 3 : kMaxKeyChunks;
  __m512i running = *largest;
  for (int64_t begin = 0; begin < keys.chunks(); begin += kChunksAtOnce) {
    const int64_t end = smaller(begin + kChunksAtOnce, keys.chunks());
    for (int64_t step = steps.begin; step < steps.end; ++step) {
      const std::byte* const* rows = s.key_rows + step * kStepKeys;
      const int64_t ahead = step + 1 < steps.end ? kStepKeys : 0;
      load_scores<kTwo>(s, begin == 0, step * kStepKeys, 0);
      // Four chunks' room goes round: nothing older is asked for again.
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        if (keys.whole(chunk)) {
          expand_keys<kType, true>(keys, rows, ahead, chunk, &running, s.keys[chunk % 4]);
        } else {
          expand_keys<kType, false>(keys, rows, ahead, chunk, &running, s.keys[chunk % 4]);
        }
        if (chunk > begin) multiply_keys<kTwo>(s, s.keys[(chunk - 1) % 4], chunk - 1, 0);
      }
      multiply_keys<kTwo>(s, s.keys[(end - 1) % 4], end - 1, 0);
      store_scores<kTwo>(s, step * kStepKeys, 0);
      if constexpr (kTwo) {
        if (tiles <= 2) continue;
        load_scores<true>(s, begin == 0, step * kStepKeys, 2);
        for (int64_t chunk = begin; chunk < end; ++chunk) multiply_keys<true>(s, s.keys[chunk % 4], chunk, 2);
        store_scores<true>(s, step * kStepKeys, 2);
      }
    }
  }
  *largest = running;
}

// Which positions the 16 queries of a tile see, as vectors. A lane without a query sees what the others do: its numbers
// are computed and not used.
struct VisibleLanes {
  __m512i first;
  __m512i last;
  int64_t all_from = 0, all_to = INT64_MAX;  // every query sees these

  VisibleLanes(const QueryGroup& group, int64_t tile) {
    alignas(64) int32_t firsts[16], lasts[16];
    for (int64_t i = 0; i < 16; ++i) {
      const Visible v = group.visible(smaller(tile * 16 + i, group.count - 1));
      firsts[i] = static_cast<int32_t>(v.first);
      lasts[i] = static_cast<int32_t>(v.last);
      all_from = greater(all_from, v.first);
      all_to = smaller(all_to, v.last);
    }
    first = _mm512_load_si512(firsts);
    last = _mm512_load_si512(lasts);
  }
  [[gnu::always_inline]] inline __mmask16 see(int64_t position) const {
    const __m512i p = _mm512_set1_epi32(static_cast<int32_t>(position));
    return _mm512_mask_cmplt_epi32_mask(_mm512_cmple_epi32_mask(first, p), p, last);
  }
};

// Step 2 for one query tile. kMasked: not every query sees every position of the steps.
template <bool kMasked>
void weigh(TileCore::Scratch& s, const VisibleLanes& visible, float factor, int64_t tile, int64_t split_begin,
           StepRange steps, const Partial& out) {
  const __m512 scale = _mm512_set1_ps(factor);
  __m512 max = _mm512_set1_ps(-__builtin_inff());
  for (int64_t key = steps.begin * kStepKeys; key < steps.end * kStepKeys; ++key) {
    const __m512 x = _mm512_mul_ps(_mm512_load_ps(s.scores[tile][key]), scale);
    // A NaN in x leaves max.
    max = kMasked ? _mm512_mask_max_ps(max, visible.see(split_begin + key), x, max) : _mm512_max_ps(x, max);
  }
  __m512 sum = _mm512_setzero_ps();
  const __m512i half_unit = _mm512_set1_epi32(0x8000);
  const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000));
  for (int64_t step = steps.begin; step < steps.end; ++step) {
    __m512i pairs[16];
    for (int64_t i = 0; i < 16; ++i) {
      __m512i weights[2];
      for (int64_t parity = 0; parity < 2; ++parity) {
        const int64_t key = step * kStepKeys + 2 * i + parity;
        const __m512 x = _mm512_mul_ps(_mm512_load_ps(s.scores[tile][key]), scale);
        const __m512i weight = _mm512_castps_si512(power_of_two(_mm512_sub_ps(x, max)));
        // Positive: half a unit up and cut is round to nearest.
        const __m512i rounded = _mm512_add_epi32(weight, half_unit);
        weights[parity] = kMasked ? _mm512_maskz_and_epi32(visible.see(split_begin + key), rounded, upper)
                                  : _mm512_and_si512(rounded, upper);
        sum = _mm512_add_ps(sum, _mm512_castsi512_ps(weights[parity]));
      }
      pairs[i] = _mm512_or_si512(_mm512_srli_epi32(weights[0], 16), weights[1]);
    }
    transpose_words(pairs);
    for (int64_t i = 0; i < 16; ++i) _mm512_store_si512(s.weights[tile][step] + i * kTileStride, pairs[i]);
  }
  _mm512_storeu_ps(out.max + tile * 16, max);
  _mm512_storeu_ps(out.sum + tile * 16, sum);
}

// Step 3, one step's share of one chunk's columns: of one query tile and four column tiles, or of two and two.
template <bool kTwo>
[[gnu::always_inline]] inline void multiply_values(const TileCore::Scratch& s, int64_t step, int64_t tile,
                                                   int64_t column) {
  tile_load<4>(s.weights[tile][step], kTileStride);
  tile_load<6>(s.values[step][column], kTileStride);
  tile_multiply<0, 4, 6>();
  tile_load<7>(s.values[step][column + 1], kTileStride);
  tile_multiply<1, 4, 7>();
  if constexpr (kTwo) {
    tile_load<5>(s.weights[tile + 1][step], kTileStride);
    tile_multiply<2, 5, 6>();
    tile_multiply<3, 5, 7>();
  } else {
    tile_load<6>(s.values[step][column + 2], kTileStride);
    tile_multiply<2, 4, 6>();
    tile_load<7>(s.values[step][column + 3], kTileStride);
    tile_multiply<3, 4, 7>();
  }
}

// The sums of query tile `tile` (and the next) from column tile `column` of a chunk on.
template <bool kTwo>
[[gnu::always_inline]] inline void store_values(const Partial& out, int64_t width, int64_t chunk, int64_t tile,
                                                int64_t column) {
  float* to = out.values + tile * 16 * width + chunk * kChunk + column * 16;
  float* third = kTwo ? to + 16 * width : to + 32;
  tile_store<0>(to, width * 4);
  tile_store<1>(to + 16, width * 4);
  tile_store<2>(third, width * 4);
  tile_store<3>(third + 16, width * 4);
}

template <bool kTwo>
[[gnu::always_inline]] inline void multiply_expanded(const TileCore::Scratch& s, StepRange steps, int64_t width,
                                                     int64_t chunk, int64_t tile, int64_t column, const Partial& out) {
  zero_sums();
  for (int64_t step = steps.begin; step < steps.end; ++step) multiply_values<kTwo>(s, step, tile, column);
  store_values<kTwo>(out, width, chunk, tile, column);
}

// Step 3. The first columns of a chunk are multiplied while it is expanded, one step behind; the others afterwards, in
// an order in which each pass finds half of its operands in L1.
template <DType kType, bool kTwo>
void add_values(TileCore::Scratch& s, const Source& values, const std::byte* const* value_rows, int64_t tiles,
                StepRange steps, int64_t width, const Partial& out, __m512i* largest) {
  __m512i running = *largest;
  for (int64_t chunk = 0; chunk < values.chunks(); ++chunk) {
    zero_sums();
    for (int64_t step = steps.begin; step < steps.end; ++step) {
      const std::byte* const* rows = value_rows + step * kStepKeys;
      if (values.whole(chunk)) {
        expand_values<kType, true>(values, rows, chunk, &running, s.values[step]);
      } else {
        expand_values<kType, false>(values, rows, chunk, &running, s.values[step]);
      }
      if (step > steps.begin) multiply_values<kTwo>(s, step - 1, 0, 0);
    }
    multiply_values<kTwo>(s, steps.end - 1, 0, 0);
    store_values<kTwo>(out, width, chunk, 0, 0);
    if constexpr (kTwo) {
      if (tiles > 2) {
        multiply_expanded<true>(s, steps, width, chunk, 2, 0, out);
        multiply_expanded<true>(s, steps, width, chunk, 2, 2, out);
      }
      multiply_expanded<true>(s, steps, width, chunk, 0, 2, out);
    }
  }
  *largest = running;
}

bool row_is_infinite(const Source& source, const std::byte* row) {
  for (int64_t i = 0; i < source.dim; ++i) {
    uint32_t bits = 0;
    if (source.store.dtype == DType::kE4m3) {
      if ((static_cast<uint32_t>(row[i]) & 0x7fU) == 0x7f) return true;
      continue;
    }
    if (source.store.dtype == DType::kBf16) {
      __builtin_memcpy(reinterpret_cast<std::byte*>(&bits) + 2, row + 2 * i, 2);
    } else {
      __builtin_memcpy(&bits, row + 4 * i, 4);
      bits += 0x8000;  // what rounds to infinity counts
    }
    if ((bits & 0x7fffffffU) >= 0x7f800000U) return true;
  }
  return false;
}

// Queries that see a key that is not finite get NaN. Rare: looks at every number again.
void spread_infinite(const QueryGroup& group, const Source& source, const std::byte* const* rows, int64_t split_begin,
                     StepRange steps, const Partial& out) {
  for (int64_t i = steps.begin * kStepKeys; i < steps.end * kStepKeys; ++i) {
    if (!row_is_infinite(source, rows[i])) continue;
    for (int64_t query = 0; query < group.count; ++query) {
      const Visible v = group.visible(query);
      if (split_begin + i >= v.first && split_begin + i < v.last) out.sum[query] = __builtin_nanf("");
    }
  }
}

// The part of the work that depends on how a store keeps its numbers.
struct StoreKernels {
  void (*score_one)(TileCore::Scratch&, const Source&, int64_t, StepRange, __m512i*);
  void (*score_two)(TileCore::Scratch&, const Source&, int64_t, StepRange, __m512i*);
  void (*add_one)(TileCore::Scratch&, const Source&, const std::byte* const*, int64_t, StepRange, int64_t,
                  const Partial&, __m512i*);
  void (*add_two)(TileCore::Scratch&, const Source&, const std::byte* const*, int64_t, StepRange, int64_t,
                  const Partial&, __m512i*);
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

void attend_split(TileCore::Scratch& s, const QueryGroup& group, const Source& keys, const Source& values,
                  int64_t split_begin, StepRange steps, const Partial& out) {
  const Attention& a = *group.attention;
  const int64_t tiles = query_tiles(group);
  const int64_t width = TileCore::width(a.value_dim);
  keys.find_rows(group, split_begin, steps, s.key_rows);
  const bool one_store = a.k.data == a.v.data;
  const std::byte** value_rows = one_store ? s.key_rows : s.value_rows;
  if (!one_store) values.find_rows(group, split_begin, steps, value_rows);
  configure_tiles({.first = 16, .second = 16});
  __m512i largest_key = _mm512_setzero_si512();
  __m512i largest_value = _mm512_setzero_si512();
  const StoreKernels& for_keys = kernels_of(a.k.dtype);
  const StoreKernels& for_values = kernels_of(a.v.dtype);
  (tiles > 1 ? for_keys.score_two : for_keys.score_one)(s, keys, tiles, steps, &largest_key);

  constexpr float kLog2E = 1.44269504088896341F;
  const float factor = a.scale * (a.k.dtype == DType::kE4m3 ? a.k.scale : 1.0F) * kLog2E;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const VisibleLanes visible(group, tile);
    const bool all = visible.all_from <= split_begin + steps.begin * kStepKeys &&
                     visible.all_to >= split_begin + steps.end * kStepKeys;
    all ? weigh<false>(s, visible, factor, tile, split_begin, steps, out)
        : weigh<true>(s, visible, factor, tile, split_begin, steps, out);
  }

  if (tiles == 1) {
    if (group.count < 16) configure_tiles({.first = group.count, .second = group.count});
    for_values.add_one(s, values, value_rows, tiles, steps, width, out, &largest_value);
  } else {
    if (tiles == 3) __builtin_memset(s.weights[3], 0, sizeof s.weights[3]);
    for_values.add_two(s, values, value_rows, tiles, steps, width, out, &largest_value);
  }
  release_tiles();
  if (for_keys.has_infinite(largest_key)) spread_infinite(group, keys, s.key_rows, split_begin, steps, out);
  if (for_values.has_infinite(largest_value)) spread_infinite(group, values, value_rows, split_begin, steps, out);
}

void TileCore::attend(const QueryGroup& group, int64_t split_begin, std::byte* scratch, const Partial& out) {
  auto& s = *reinterpret_cast<Scratch*>(scratch);
  const Attention& a = *group.attention;
  clear(out, kQueries);
  const Visible visible = group.visible_to_any();
  const int64_t begin = greater(split_begin, visible.first);
  const int64_t end = smaller(split_begin + kSplit, visible.last);
  if (begin >= end) return;
  const StepRange steps = {.begin = (begin - split_begin) / kStepKeys, .end = divide_up(end - split_begin, kStepKeys)};
  const E4m3Expander e4m3 = E4m3Expander::make();
  const Source keys{.store = a.k, .column = group.kv_head * a.key_dim, .dim = a.key_dim, .e4m3 = e4m3};
  const Source values{.store = a.v, .column = group.kv_head * a.value_dim, .dim = a.value_dim, .e4m3 = e4m3};
  attend_split(s, group, keys, values, split_begin, steps, out);
}

}  // namespace

void mla_attention(WorkerPool& pool, const MlaAttention& call) {
  run_attention<TileCore>(pool, as_attention(call));
}

void gqa_attention(WorkerPool& pool, const GqaAttention& call) {
  run_attention<TileCore>(pool, as_attention(call));
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
