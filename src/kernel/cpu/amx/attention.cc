// Attention with the tile unit: up to 64 queries against a split of 256 positions.
//
// 1. Keys, 32 at a time: their stored rows become bf16 rows of 16-key tiles (first operand), and at once, interleaved
// in pairs
//    of keys, the value tiles (second operand) of step 3. Scores^T[key, query] = keys . queries^T, so that a query is a
//    lane.
// 2. Softmax down the lanes: maximum over the split, then weights 2^(score - maximum) rounded to bf16, their sum, and a
// transpose
//    into tiles [query, key].
// 3. Values: sums[query, 16 columns] over the split's keys stay in tile registers; one store per split.
//
// Per position of MLA (576 numbers, 512 of them values): 576 bytes of e4m3 read; 9 chunks x 13 vector operations to
// expand and 8 x 2 to interleave, about 70 cycles; 18 + 32/2 multiplications per 16 queries and 16 keys: 34 cycles for
// 16 queries, 136 for 64. The value tiles (256 KiB a split) go through L2 once each way.
#include "kernel/cpu/amx/expand.h"
#include "kernel/cpu/amx/kernels.h"
#include "kernel/cpu/amx/tiles.h"
#include "kernel/cpu/generic/attention_driver.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

constexpr int64_t kStepKeys = 32;  // of one multiplication with values
constexpr int64_t kSteps = kSplit / kStepKeys;
constexpr int64_t kMaxKeyChunks = kMaxAttentionKeyDim / kChunk;
constexpr int64_t kMaxValueTiles = kMaxAttentionValueDim / 16;
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

  struct alignas(64) Scratch {
    std::byte queries[kQueryTiles][2 * kMaxKeyChunks][kTileBytes];  // [32 numbers in pairs][16 queries]
    std::byte keys[kMaxKeyChunks][2][2][kTileBytes];                // chunk, half of it, 16 keys
    std::byte values[kSteps][kMaxValueTiles][kTileBytes];           // [32 keys in pairs][16 columns]
    float scores[kSplit][kQueries];
    std::byte weights[kQueryTiles][kSteps][kTileBytes];  // [16 queries][32 keys]
    bool bad[kSplit];                                    // the key holds a NaN or infinity
  };
  static constexpr int64_t kScratchBytes = sizeof(Scratch);

  static int64_t width(int64_t value_dim) { return divide_up(value_dim, kChunk) * kChunk; }
  [[gnu::always_inline]] static inline F32x16 power(F32x16 x) { return {{(NativeF32)power_of_two((__m512)x.part[0])}}; }
  [[gnu::always_inline]] static inline F32x16 columns_at(const float* values, int64_t i) {
    return value_columns(values, i);
  }
  static void load_queries(const QueryGroup& group, std::byte* scratch);
  static void attend(const QueryGroup& group, int64_t split_begin, std::byte* scratch, const Partial& out);
};

int64_t query_tiles(const QueryGroup& group) {
  return divide_up(group.count, 16);
}

// Numbers [i, i + 64) of a row in natural order as bf16; zeros from `dim` on.
Halves row_chunk(const Rows& rows, int64_t row, int64_t column, int64_t i, int64_t dim) {
  alignas(64) Bf16 numbers[kChunk];
  for (int64_t c = 0; c < kChunk; c += kLanes) {
    store(numbers + c, get(rows, row, column + i + c, greater(0, smaller(kLanes, dim - i - c))));
  }
  return split_bf16(_mm512_load_si512(numbers), _mm512_load_si512(numbers + 32));
}

void TileCore::load_queries(const QueryGroup& group, std::byte* scratch) {
  auto& s = *reinterpret_cast<Scratch*>(scratch);
  const Attention& a = *group.attention;
  for (int64_t tile = 0; tile < query_tiles(group); ++tile) {
    for (int64_t chunk = 0; chunk * kChunk < a.key_dim; ++chunk) {
      __m512i low[16], high[16];
      for (int64_t i = 0; i < 16; ++i) {
        const int64_t query = tile * 16 + i;
        Halves h = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        if (query < group.count) {
          h = row_chunk(a.q, group.row(query), group.head(query) * a.key_dim, chunk * kChunk, a.key_dim);
        }
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

// Reads rows of one store in chunks. Values come without the store's scale.
struct RowReader {
  PagedStore store;
  E4m3Expander e4m3;
  int64_t column = 0;
  int64_t dim = 0;
  const std::byte* rows[kStepKeys];  // where each key's numbers begin; nullptr for none (zeros)

  // The rows of those of the positions [begin, begin + 32) that a query of the group sees.
  void find_rows(const QueryGroup& group, int64_t begin) {
    const Visible visible = group.visible_to_any();
    const int64_t size = size_of_number();
    for (int64_t i = 0; i < kStepKeys; ++i) {
      rows[i] = nullptr;
      if (begin + i < visible.first || begin + i >= visible.last) continue;
      const int64_t page = (begin + i) / store.page_size;
      const int64_t slot = group.request->pages[page] * int64_t{store.page_size} + (begin + i - page * store.page_size);
      rows[i] = static_cast<const std::byte*>(store.data) + (slot * store.dim + column) * size;
    }
  }
  int64_t size_of_number() const { return store.dtype == DType::kE4m3 ? 1 : store.dtype == DType::kBf16 ? 2 : 4; }

  [[gnu::always_inline]] inline Halves read_e4m3(int64_t key, int64_t i, __m512i* largest) const {
    const int64_t left = dim - i;
    const __mmask64 wanted = left >= kChunk ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
    const __m512i codes = _mm512_maskz_loadu_epi8(rows[key] == nullptr ? 0 : wanted, rows[key] + i);
    return e4m3.expand(codes, largest);
  }
  bool has_nan(int64_t key) const {
    const auto* codes = reinterpret_cast<const uint8_t*>(rows[key]);
    for (int64_t i = 0; codes != nullptr && i < dim; ++i) {
      if ((codes[i] & 0x7fU) == 0x7f) return true;
    }
    return false;
  }
  // bf16 rows as they are, f32 rounded; numbers that are not finite become 0 and set *bad.
  Halves read_wide(int64_t key, int64_t i, bool* bad) const {
    if (rows[key] == nullptr) return {_mm512_setzero_si512(), _mm512_setzero_si512()};
    const Rows row = {.data = const_cast<std::byte*>(rows[key]), .dtype = store.dtype};
    alignas(64) Bf16 numbers[kChunk];
    U32x16 wrong = splat_u32(0);
    for (int64_t c = 0; c < kChunk; c += kLanes) {
      const F32x16 x = get(row, 0, i + c, greater(0, smaller(kLanes, dim - i - c)));
      const U32x16 bits = round_to_bf16(x);
      const U32x16 infinite = (bits & splat_u32(0x7f800000)) == splat_u32(0x7f800000);
      wrong = wrong | infinite;
      strobe::kernel::STROBE_ISA_NAMESPACE::store(numbers + c, select(infinite, splat(0), from_bits(bits)));
    }
    *bad = *bad || any(wrong);
    return split_bf16(_mm512_load_si512(numbers), _mm512_load_si512(numbers + 32));
  }
};

// One chunk of 32 keys into key tiles (kKeys) and, in pairs, into value tiles (kValues).
template <bool kKeys, bool kValues>
[[gnu::always_inline]] inline void expand_chunk(const RowReader& reader, int64_t chunk, __m512i* largest, bool* bad,
                                                std::byte (*keys)[2][kTileBytes], std::byte (*values)[kTileBytes]) {
  const bool is_e4m3 = reader.store.dtype == DType::kE4m3;
  for (int64_t key = 0; key < kStepKeys; key += 2) {
    const int64_t i = chunk * kChunk;
    const Halves even = is_e4m3 ? reader.read_e4m3(key, i, largest) : reader.read_wide(key, i, &bad[key]);
    const Halves odd = is_e4m3 ? reader.read_e4m3(key + 1, i, largest) : reader.read_wide(key + 1, i, &bad[key + 1]);
    if constexpr (kKeys) {
      const int64_t row = key % 16 * kTileStride;
      _mm512_store_si512(keys[0][key / 16] + row, even.low);
      _mm512_store_si512(keys[0][key / 16] + row + kTileStride, odd.low);
      _mm512_store_si512(keys[1][key / 16] + row, even.high);
      _mm512_store_si512(keys[1][key / 16] + row + kTileStride, odd.high);
    }
    if constexpr (kValues) {
      const int64_t row = key / 2 * kTileStride;
      const Pairs low = pair_up(even.low, odd.low);
      const Pairs high = pair_up(even.high, odd.high);
      _mm512_store_si512(values[0] + row, low.first);
      _mm512_store_si512(values[1] + row, low.second);
      _mm512_store_si512(values[2] + row, high.first);
      _mm512_store_si512(values[3] + row, high.second);
    }
  }
}

// One chunk's share of the scores of 32 keys and the queries of tiles `tile` and, if kTwo, tile + 1.
template <bool kTwo>
[[gnu::always_inline]] inline void multiply_chunk(const TileCore::Scratch& s, int64_t chunk, int64_t tile) {
  for (int64_t half = 0; half < 2; ++half) {
    tile_load<4>(s.keys[chunk][half][0], kTileStride);
    tile_load<6>(s.queries[tile][2 * chunk + half], kTileStride);
    tile_multiply<0, 4, 6>();
    tile_load<5>(s.keys[chunk][half][1], kTileStride);
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
  constexpr int64_t kStride = TileCore::kQueries * 4;
  tile_store<0>(s.scores[key] + tile * 16, kStride);
  tile_store<2>(s.scores[key + 16] + tile * 16, kStride);
  if constexpr (kTwo) {
    tile_store<1>(s.scores[key] + tile * 16 + 16, kStride);
    tile_store<3>(s.scores[key + 16] + tile * 16 + 16, kStride);
  }
}

[[gnu::always_inline]] inline void zero_sums() {
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
}

// Step 1 for 32 keys: kOne says that values are the first numbers of the keys (MLA). Multiplications follow the
// expansion one chunk behind, so that tile loads find its stores in L1.
template <bool kOne, bool kTwo>
void score_step(TileCore::Scratch& s, const Attention& a, int64_t tiles, const RowReader& keys, const RowReader& values,
                int64_t step) {
  const int64_t key_chunks = divide_up(a.key_dim, kChunk);
  const int64_t value_chunks = divide_up(a.value_dim, kChunk);
  __m512i largest = _mm512_setzero_si512();
  bool* bad = s.bad + step * kStepKeys;
  __builtin_memset(bad, 0, kStepKeys);
  zero_sums();
  for (int64_t chunk = 0; chunk < key_chunks; ++chunk) {
    if (kOne && chunk < value_chunks) {
      expand_chunk<true, true>(keys, chunk, &largest, bad, s.keys[chunk], s.values[step] + 4 * chunk);
    } else {
      expand_chunk<true, false>(keys, chunk, &largest, bad, s.keys[chunk], nullptr);
    }
    if (chunk > 0) multiply_chunk<kTwo>(s, chunk - 1, 0);
  }
  if constexpr (!kOne) {
    for (int64_t chunk = 0; chunk < value_chunks; ++chunk) {
      expand_chunk<false, true>(values, chunk, &largest, bad, nullptr, s.values[step] + 4 * chunk);
    }
  }
  multiply_chunk<kTwo>(s, key_chunks - 1, 0);
  store_scores<kTwo>(s, step * kStepKeys, 0);
  if (tiles > 2) {
    zero_sums();
    for (int64_t chunk = 0; chunk < key_chunks; ++chunk) multiply_chunk<true>(s, chunk, 2);
    store_scores<true>(s, step * kStepKeys, 2);
  }
  const bool any_nan = E4m3Expander::has_nan(largest);
  for (int64_t key = 0; key < kStepKeys; ++key) {
    if (any_nan && keys.store.dtype == DType::kE4m3 && keys.has_nan(key)) bad[key] = true;
    if (any_nan && !kOne && values.store.dtype == DType::kE4m3 && values.has_nan(key)) bad[key] = true;
    for (int64_t query = 0; bad[key] && query < TileCore::kQueries; ++query) {
      s.scores[step * kStepKeys + key][query] = __builtin_nanf("");
    }
  }
}

// Which positions the 16 queries of a tile see, as vectors.
struct VisibleLanes {
  __m512i first;
  __m512i last;
  int64_t all_from = 0, all_to = 0;  // every query sees these

  VisibleLanes(const QueryGroup& group, int64_t tile) {
    alignas(64) int32_t firsts[16] = {}, lasts[16] = {};
    all_to = INT64_MAX;
    for (int64_t i = 0; i < 16 && tile * 16 + i < group.count; ++i) {
      const Visible v = group.visible(tile * 16 + i);
      firsts[i] = static_cast<int32_t>(v.first);
      lasts[i] = static_cast<int32_t>(v.last);
      all_from = greater(all_from, v.first);
      all_to = smaller(all_to, v.last);
    }
    if (group.count < tile * 16 + 16) all_to = 0;  // lanes without a query see nothing
    first = _mm512_load_si512(firsts);
    last = _mm512_load_si512(lasts);
  }
  [[gnu::always_inline]] inline __mmask16 see(int64_t position) const {
    if (position >= all_from && position < all_to) return 0xffff;
    const __m512i p = _mm512_set1_epi32(static_cast<int32_t>(position));
    return _mm512_mask_cmplt_epi32_mask(_mm512_cmple_epi32_mask(first, p), p, last);
  }
};

// Steps [begin, end) of a split: those with a position that any query of the group sees. Others would add zeros.
struct StepRange {
  int64_t begin = 0, end = 0;
};

// Step 2 for one query tile.
void weigh(TileCore::Scratch& s, const QueryGroup& group, int64_t tile, int64_t split_begin, StepRange steps,
           const Partial& out) {
  const Attention& a = *group.attention;
  constexpr float kLog2E = 1.44269504088896341F;
  const float k_scale = a.k.dtype == DType::kE4m3 ? a.k.scale : 1.0F;
  const __m512 scale = _mm512_set1_ps(a.scale * k_scale * kLog2E);
  const VisibleLanes visible(group, tile);
  __m512 max = _mm512_set1_ps(-__builtin_inff());
  for (int64_t key = steps.begin * kStepKeys; key < steps.end * kStepKeys; ++key) {
    const __m512 x = _mm512_mul_ps(_mm512_load_ps(s.scores[key] + tile * 16), scale);
    max = _mm512_mask_max_ps(max, visible.see(split_begin + key), x, max);  // a NaN in x leaves max
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
        const __m512 x = _mm512_mul_ps(_mm512_load_ps(s.scores[key] + tile * 16), scale);
        const __m512 weight = power_of_two(_mm512_sub_ps(x, max));
        // Positive: half a unit up and cut is round to nearest.
        weights[parity] = _mm512_maskz_and_epi32(visible.see(split_begin + key),
                                                 _mm512_add_epi32(_mm512_castps_si512(weight), half_unit), upper);
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

// Step 3. Sums of up to four tiles are kept at once: of one query tile and four columns tiles, of two and two, or of
// four and one; each loaded tile of values serves all query tiles.
void add_values_1(const TileCore::Scratch& s, StepRange steps, int64_t width, const Partial& out) {
  for (int64_t column = 0; column < width / 16; column += 4) {
    zero_sums();
    for (int64_t step = steps.begin; step < steps.end; ++step) {
      tile_load<4>(s.weights[0][step], kTileStride);
      tile_load<6>(s.values[step][column], kTileStride);
      tile_multiply<0, 4, 6>();
      tile_load<7>(s.values[step][column + 1], kTileStride);
      tile_multiply<1, 4, 7>();
      tile_load<6>(s.values[step][column + 2], kTileStride);
      tile_multiply<2, 4, 6>();
      tile_load<7>(s.values[step][column + 3], kTileStride);
      tile_multiply<3, 4, 7>();
    }
    float* to = out.values + column * 16;
    tile_store<0>(to, width * 4);
    tile_store<1>(to + 16, width * 4);
    tile_store<2>(to + 32, width * 4);
    tile_store<3>(to + 48, width * 4);
  }
}

void add_values_2(const TileCore::Scratch& s, StepRange steps, int64_t width, const Partial& out) {
  for (int64_t column = 0; column < width / 16; column += 2) {
    zero_sums();
    for (int64_t step = steps.begin; step < steps.end; ++step) {
      tile_load<4>(s.weights[0][step], kTileStride);
      tile_load<6>(s.values[step][column], kTileStride);
      tile_multiply<0, 4, 6>();
      tile_load<7>(s.values[step][column + 1], kTileStride);
      tile_multiply<1, 4, 7>();
      tile_load<5>(s.weights[1][step], kTileStride);
      tile_multiply<2, 5, 6>();
      tile_multiply<3, 5, 7>();
    }
    float* to = out.values + column * 16;
    tile_store<0>(to, width * 4);
    tile_store<1>(to + 16, width * 4);
    tile_store<2>(to + 16 * width, width * 4);
    tile_store<3>(to + 16 * width + 16, width * 4);
  }
}

void add_values_4(const TileCore::Scratch& s, StepRange steps, int64_t width, const Partial& out) {
  for (int64_t column = 0; column < width / 16; ++column) {
    zero_sums();
    for (int64_t step = steps.begin; step < steps.end; ++step) {
      tile_load<6>(s.values[step][column], kTileStride);
      tile_load<4>(s.weights[0][step], kTileStride);
      tile_multiply<0, 4, 6>();
      tile_load<5>(s.weights[1][step], kTileStride);
      tile_multiply<1, 5, 6>();
      tile_load<4>(s.weights[2][step], kTileStride);
      tile_multiply<2, 4, 6>();
      tile_load<5>(s.weights[3][step], kTileStride);
      tile_multiply<3, 5, 6>();
    }
    float* to = out.values + column * 16;
    tile_store<0>(to, width * 4);
    tile_store<1>(to + 16 * width, width * 4);
    tile_store<2>(to + 32 * width, width * 4);
    tile_store<3>(to + 48 * width, width * 4);
  }
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
  const int64_t tiles = query_tiles(group);
  const bool one = a.k.data == a.v.data;
  RowReader keys{.store = a.k, .e4m3 = E4m3Expander::make(), .column = group.kv_head * a.key_dim, .dim = a.key_dim};
  RowReader values{.store = a.v, .e4m3 = keys.e4m3, .column = group.kv_head * a.value_dim, .dim = a.value_dim};
  const auto score = one ? (tiles > 1 ? score_step<true, true> : score_step<true, false>)
                         : (tiles > 1 ? score_step<false, true> : score_step<false, false>);
  configure_tiles({.first = 16, .second = 16});
  for (int64_t step = steps.begin; step < steps.end; ++step) {
    keys.find_rows(group, split_begin + step * kStepKeys);
    if (!one) values.find_rows(group, split_begin + step * kStepKeys);
    score(s, a, tiles, keys, values, step);
  }
  for (int64_t tile = 0; tile < tiles; ++tile) weigh(s, group, tile, split_begin, steps, out);
  const int64_t columns = width(a.value_dim);
  if (tiles == 1) {
    if (group.count < 16) configure_tiles({.first = group.count, .second = group.count});
    add_values_1(s, steps, columns, out);
  } else if (tiles == 2) {
    add_values_2(s, steps, columns, out);
  } else {
    if (tiles == 3) __builtin_memset(s.weights[3], 0, sizeof s.weights[3]);
    add_values_4(s, steps, columns, out);
  }
  release_tiles();
}

}  // namespace

void mla_attention(WorkerPool& pool, const MlaAttention& call) {
  run_attention<TileCore>(pool, as_attention(call));
}

void gqa_attention(WorkerPool& pool, const GqaAttention& call) {
  run_attention<TileCore>(pool, as_attention(call));
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
