// Attention with the tile unit: the three steps of generic/group_attention.h.
//
// 1. Scores^T[key, query] = keys . queries^T, so that a query is a lane of what follows. Stored rows become bf16
//    rows of 16-key tiles (first operand) just before they are multiplied.
// 2. Softmax down the lanes: maximum over the split, then weights 2^(score - maximum) rounded to bf16, their sum, and a
//    transpose into tiles [query, key].
// 3. values[query, column] = weights . stored values, 64 columns at a time over all keys of the split: the sums of up
//    to four tiles stay in registers. The stored rows, now in L2, are expanded again, in pairs of keys (second
//    operand): keeping the expanded rows of step 1 instead would cost more, as their 256 KiB miss L1 on the way out and
//    on the way in. Splits are folded 64 columns at a time too, while these are in L1.
//
// Expanding is work for the vector units. In steps 1 and 3 the tile unit multiplies what was expanded before,
// instruction by instruction between the expansions: one after the other their times would add up, the out-of-order
// window being shorter than either.
//
// Per position of MLA (576 numbers, 512 of them values): 576 bytes of e4m3 read; 9 + 8 chunks of 13 to 15 vector
// operations, about 100 cycles; 18 + 32/2 multiplications per 16 queries and 16 keys: 34 cycles for 16 queries, 136
// for 64.
#include <utility>

#include "kernel/cpu/amx/kernels.h"
#include "kernel/cpu/amx/operands.h"
#include "kernel/cpu/amx/tiles.h"
#include "kernel/cpu/generic/group_attention.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

constexpr int64_t kSplitSteps = kSplit / kTileKeys;
constexpr int kLinesAhead = 12;  // that are asked for with each chunk of 32 stored rows (generic/ahead.h)

// x = n + f, |f| <= 1/2; x below -200 counts as that.
struct Powers {
  __m512 n;
  __m512 f;

  [[gnu::always_inline]] explicit inline Powers(__m512 x) {
    const __m512 t = _mm512_max_ps(_mm512_set1_ps(-200.0F), x);  // in this order a NaN in x passes
    n = _mm512_roundscale_ps(t, 0);
    f = _mm512_sub_ps(t, n);
  }
};

// 2^x within 2e-7, for x <= 0: NaN stays NaN, far below gives 0, 0 gives 1 exactly.
[[gnu::always_inline]] inline __m512 power_of_two(__m512 x) {
  const Powers parts(x);
  const __m512 f = parts.f;
  __m512 p = _mm512_set1_ps(1.33335581e-3F);  // ln(2)^k / k!
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.61812911e-3F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.55041087e-2F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.40226507e-1F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.93147181e-1F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0F));
  return _mm512_scalef_ps(p, parts.n);
}

// The same within 1.1e-4, for what is rounded to bf16 (within 2e-3): least largest error of a cubic that is 1 at 0.
[[gnu::always_inline]] inline __m512 rough_power_of_two(__m512 x) {
  const Powers parts(x);
  const __m512 f = parts.f;
  __m512 p = _mm512_set1_ps(5.5008971e-2F);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.42211060e-1F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.93282933e-1F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0F));
  return _mm512_scalef_ps(p, parts.n);
}

struct TileCore {
  static constexpr int64_t kStepKeys = kTileKeys;
  static constexpr float kScoreFactor = 1.44269504088896341F;  // log2(e)
  static constexpr float kE4m3Factor = 1;
  static constexpr int64_t kFewestQueries = 32;

  struct alignas(64) Own {
    std::byte queries[kQueryTiles][2 * kMaxKeyChunks][kTileBytes];  // [32 numbers in pairs][16 queries]
    std::byte keys[2][4][kTileBytes];                               // one chunk of up to 32 keys
    std::byte values[kSplitSteps][4][kTileBytes];                   // of one chunk: [32 keys in pairs][16 columns]
    TileRows configured;                                            // rows of the registers
    void begin(const QueryGroup& group, const QueryLanes& lanes);
    void set_rows(TileRows wanted);
  };
  // While it lives, a worker may use the tile unit.
  class Session {
   public:
    explicit Session(Own& own) { own.configured = {}; }
    ~Session() { release_tiles(); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
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
    const Bf16* from = row_of<const Bf16>(q, row) + column;
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

void TileCore::Own::set_rows(TileRows wanted) {
  if (wanted.first == configured.first && wanted.second == configured.second) return;
  configure_tiles(wanted);
  configured = wanted;
}

// ---------------------------------------------------------------------------------------------------- step 1: scores

// By the number of query tiles. Up to two meet 32 keys at a time, and sums stay in registers over all chunks: 36 KiB of
// MLA's queries stay in L1. More do not fit there: four meet 16 keys, three chunks at a time through all keys of a run
// (24 KiB of queries), the sums waiting in memory in between.
template <int kTiles>
struct ScoreShape {
  static constexpr int64_t kKeyTiles = kTiles == 4 ? 1 : 2;
  static constexpr int64_t kKeys = 16 * kKeyTiles;
  static constexpr int64_t kHalf = kKeyTiles * kTileBytes;  // from low numbers to high ones
  static constexpr int64_t kChunksAtOnce = kTiles == 4 ? 3 : kMaxKeyChunks;
};

// One chunk of some keys.
struct ScoreUnit {
  const std::byte* tiles = nullptr;  // low numbers, then high ones
  int64_t chunk = 0;
  int64_t key = 0;
  bool first = false, last = false;  // of those that are summed up in registers
};

// Sums so far into registers, or from them: of key tile k and query tile t in register 2 k + t, or t of four.
template <int kTiles, bool kLoad>
[[gnu::always_inline]] inline void move_scores(TileScores* scores, int64_t key) {
  const auto move = [&]<int kRegister>(int64_t tile, int64_t key_tile) __attribute__((always_inline)) {
    float* at = scores[tile][key + 16 * key_tile];
    kLoad ? tile_load<kRegister>(at, kTileStride) : tile_store<kRegister>(at, kTileStride);
  };
  move.template operator()<0>(0, 0);
  if constexpr (kTiles > 1) move.template operator()<1>(1, 0);
  if constexpr (kTiles < 4) move.template operator()<2>(0, 1);
  if constexpr (kTiles == 2) move.template operator()<3>(1, 1);
  if constexpr (kTiles == 4) move.template operator()<2>(2, 0);
  if constexpr (kTiles == 4) move.template operator()<3>(3, 0);
}

// A unit's share of the scores, in kParts parts of one multiplication (at least where there are several query tiles).
constexpr int kParts = 8;

template <int kTiles, int kPart>
[[gnu::always_inline]] inline void score_part(const Own& own, const ScoreUnit& u, TileScores* scores) {
  if constexpr (kPart == 0) {
    if (u.first && u.chunk == 0) {
      zero_sums();
    } else if (u.first) {
      move_scores<kTiles, true>(scores, u.key);
    }
  }
  constexpr int kHalf = kPart / 4, kStep = kPart % 4;
  const std::byte* keys = u.tiles + kHalf * ScoreShape<kTiles>::kHalf;
  const auto queries = [&](int64_t tile) __attribute__((always_inline)) {
    return own.queries[tile][2 * u.chunk + kHalf];
  };
  if constexpr (kTiles == 4) {
    constexpr int kQueries = 6 + kStep % 2;
    if constexpr (kStep == 0) tile_load<4>(keys, kTileStride);
    tile_load<kQueries>(queries(kStep), kTileStride);
    tile_multiply<kStep, 4, kQueries>();
  } else if constexpr (kStep == 0) {
    tile_load<4>(keys, kTileStride);
    tile_load<6>(queries(0), kTileStride);
    tile_multiply<0, 4, 6>();
  } else if constexpr (kStep == 1) {
    tile_load<5>(keys + kTileBytes, kTileStride);
    tile_multiply<2, 5, 6>();
  } else if constexpr (kTiles == 2 && kStep == 2) {
    tile_load<7>(queries(1), kTileStride);
    tile_multiply<1, 4, 7>();
  } else if constexpr (kTiles == 2) {
    tile_multiply<3, 5, 7>();
  }
  if constexpr (kPart == kParts - 1) {
    if (u.last) move_scores<kTiles, false>(scores, u.key);
  }
}

// f<part>() for [0, parts).
template <int kCount, class F>
[[gnu::always_inline]] inline void for_parts(const F& f) {
  [&]<int... kPart>(std::integer_sequence<int, kPart...>) __attribute__((always_inline)) {
    (f.template operator()<kPart>(), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

template <int kTiles, bool kWhole, DType kType>
[[gnu::always_inline]] inline void expand_and_score(Expansion<kType>& expansion, const Own& own,
                                                    const ScoreUnit& before, TileScores* scores) {
  using Shape = ScoreShape<kTiles>;
  for_parts<kParts>([&]<int kPart>() __attribute__((always_inline)) {
    expansion.template keys<kWhole>((kPart + 1) * Shape::kKeys / kParts, Shape::kHalf);
    if (before.tiles != nullptr) score_part<kTiles, kPart>(own, before, scores);
  });
}

// A run of steps of one split: its units one after the other, each multiplied while the next is expanded.
template <DType kType, int kTiles>
bool score_run(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* key_rows, Keys keys,
               TileScores* scores) {
  using Shape = ScoreShape<kTiles>;
  Expansion<kType> expansion;
  ScoreUnit before;
  int64_t room = 0;
  for (int64_t begin = 0; begin < stored.chunks(); begin += Shape::kChunksAtOnce) {
    const int64_t end = smaller(begin + Shape::kChunksAtOnce, stored.chunks());
    for (int64_t key = keys.begin; key < keys.end; key += Shape::kKeys) {
      const std::byte* const* rows = key_rows + key;
      // The rows of the next step, in as many parts as there are chunks; later chunks find them in L2.
      const int64_t rows_ahead = begin == 0 && key + Shape::kKeys < keys.end ? Shape::kKeys : 0;
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t first = rows_ahead * chunk / end;
        stored.prefetch(rows + Shape::kKeys + first, rows_ahead * (chunk + 1) / end - first);
        ahead.ask(kLinesAhead * static_cast<int>(Shape::kKeys) / static_cast<int>(kTileKeys));
        const ScoreUnit unit = {
            .tiles = own.keys[room][0], .chunk = chunk, .key = key, .first = chunk == begin, .last = chunk + 1 == end};
        expansion.begin(stored, rows, chunk, own.keys[room][0]);
        if (kWholeChunksApart<kType> && expansion.whole()) {
          expand_and_score<kTiles, kWholeChunksApart<kType>>(expansion, own, before, scores);
        } else {
          expand_and_score<kTiles, false>(expansion, own, before, scores);
        }
        before = unit;
        room ^= 1;
      }
    }
  }
  for_parts<kParts>([&]<int kPart>()
                        __attribute__((always_inline)) { score_part<kTiles, kPart>(own, before, scores); });
  return !has_infinite<kType>(expansion.largest);
}

// --------------------------------------------------------------------------------------------------- step 2: weights

// Which positions the 16 queries of a tile see, as vectors. A lane without a query sees what the others do: its numbers
// are computed and not used.
struct VisibleLanes {
  __m512i first;
  __m512i last;

  VisibleLanes(const QueryLanes& lanes, int64_t tile)
      : first(_mm512_load_si512(lanes.first + tile * 16)), last(_mm512_load_si512(lanes.last + tile * 16)) {}
  // Up to where every query sees all positions from `begin` on.
  int64_t all_see_up_to(int64_t begin) const {
    return _mm512_reduce_max_epi32(first) <= begin ? _mm512_reduce_min_epi32(last) : begin;
  }
  [[gnu::always_inline]] inline __mmask16 see(int64_t position) const {
    const __m512i p = _mm512_set1_epi32(static_cast<int32_t>(position));
    return _mm512_mask_cmplt_epi32_mask(_mm512_cmple_epi32_mask(first, p), p, last);
  }
};

// Softmax of one query tile of one split.
class TileSoftmax {
 public:
  TileSoftmax(const TileScores& scores, const VisibleLanes& visible, float factor, int64_t split_begin)
      : scores_(scores), visible_(visible), scale_(_mm512_set1_ps(factor)), split_begin_(split_begin) {}

  // First the maximum, then with that the weights; kMasked: not every query sees every one of the keys.
  template <bool kMasked>
  [[gnu::always_inline]] inline void find_max(Keys keys) {
    for (int64_t key = keys.begin; key < keys.end; ++key) {
      const __m512 x = _mm512_mul_ps(_mm512_load_ps(scores_[key]), scale_);
      // A NaN in x leaves max.
      max_ = kMasked ? _mm512_mask_max_ps(max_, visible_.see(split_begin_ + key), x, max_) : _mm512_max_ps(x, max_);
    }
  }
  template <bool kMasked>
  [[gnu::always_inline]] inline void weigh(Keys keys, Weights& weights) {
    const __m512i half_unit = _mm512_set1_epi32(0x8000);
    const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000));
    for (int64_t begin = keys.begin; begin < keys.end; begin += kTileKeys) {
      __m512i pairs[16];
      for (int64_t i = 0; i < 16; ++i) {
        __m512i both[2];
        for (int64_t parity = 0; parity < 2; ++parity) {
          const int64_t key = begin + 2 * i + parity;
          // The product as the maximum has it, rounded: one that overflows gives NaN.
          const __m512 x = _mm512_sub_ps(_mm512_mul_ps(_mm512_load_ps(scores_[key]), scale_), max_);
          const __m512i weight = _mm512_castps_si512(rough_power_of_two(x));
          // Positive: half a unit up and cut is round to nearest.
          const __m512i rounded = _mm512_add_epi32(weight, half_unit);
          both[parity] = kMasked ? _mm512_maskz_and_epi32(visible_.see(split_begin_ + key), rounded, upper)
                                 : _mm512_and_si512(rounded, upper);
          sum_ = _mm512_add_ps(sum_, _mm512_castsi512_ps(both[parity]));
        }
        pairs[i] = _mm512_or_si512(_mm512_srli_epi32(both[0], 16), both[1]);
      }
      transpose_words(pairs);
      for (int64_t i = 0; i < 16; ++i) {
        _mm512_store_si512(weights.steps[begin / kTileKeys] + i * kTileStride, pairs[i]);
      }
    }
  }
  void store(float* max, float* sum) const {
    _mm512_store_ps(max, max_);
    _mm512_store_ps(sum, sum_);
  }

 private:
  const TileScores& scores_;
  const VisibleLanes& visible_;
  const __m512 scale_;
  const int64_t split_begin_;
  __m512 max_ = _mm512_set1_ps(-__builtin_inff());
  __m512 sum_ = _mm512_setzero_ps();
};

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

// One step's share of one chunk's columns from column tile `column` on: of one query tile and four column tiles, or of
// two and two. In four parts of one multiplication.
template <bool kTwo, int kPart>
[[gnu::always_inline]] inline void value_part(const ChunkOfSplit& c, int64_t step, int64_t tile, int64_t column) {
  const std::byte(*values)[kTileBytes] = c.values[step] + column;
  if constexpr (kPart == 0) {
    tile_load<4>(c.weights[tile].steps[step], kTileStride);
    tile_load<6>(values[0], kTileStride);
    tile_multiply<0, 4, 6>();
  } else if constexpr (kPart == 1) {
    tile_load<7>(values[1], kTileStride);
    tile_multiply<1, 4, 7>();
  } else if constexpr (kTwo && kPart == 2) {
    tile_load<5>(c.weights[tile + 1].steps[step], kTileStride);
    tile_multiply<2, 5, 6>();
  } else if constexpr (kTwo) {
    tile_multiply<3, 5, 7>();
  } else {
    constexpr int kValues = kPart == 2 ? 6 : 7;
    tile_load<kValues>(values[kPart], kTileStride);
    tile_multiply<kPart, 4, kValues>();
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
  for (int64_t step = steps.begin; step < steps.end; ++step) {
    for_parts<4>([&]<int kPart>() __attribute__((always_inline)) { value_part<kTwo, kPart>(c, step, tile, column); });
  }
  store_values<kTwo>(c, tile, column);
}

// The first columns of a chunk of a split, which is expanded one step ahead.
template <bool kTwo, bool kWhole, DType kType>
[[gnu::always_inline]] inline void expand_and_add(Expansion<kType>& expansion, Ahead& ahead, Steps steps,
                                                  const ChunkOfSplit& c) {
  zero_sums();
  expansion.template pairs<kWhole>(kTileKeys / 2);
  for (int64_t step = steps.begin + 1; step < steps.end; ++step) {
    ahead.ask(kLinesAhead);
    for_parts<4>([&]<int kPart>() __attribute__((always_inline)) {
      value_part<kTwo, kPart>(c, step - 1, 0, 0);
      expansion.template pairs<kWhole>(expansion.at + kTileKeys / 2 / 4);
    });
  }
  for_parts<4>([&]<int kPart>() __attribute__((always_inline)) { value_part<kTwo, kPart>(c, steps.end - 1, 0, 0); });
  store_values<kTwo>(c, 0, 0);
}

// One chunk of a split; its other columns in an order in which each pass finds half of its operands in L1.
template <DType kType, bool kTwo>
bool add_chunk(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* value_rows, int64_t chunk,
               int64_t tiles, Steps steps, const ChunkOfSplit& c) {
  Expansion<kType> expansion;
  expansion.begin(stored, value_rows + steps.begin * kTileKeys, chunk, own.values[steps.begin][0]);
  if (kWholeChunksApart<kType> && expansion.whole()) {
    expand_and_add<kTwo, kWholeChunksApart<kType>>(expansion, ahead, steps, c);
  } else {
    expand_and_add<kTwo, false>(expansion, ahead, steps, c);
  }
  if constexpr (kTwo) {
    if (tiles > 2) {
      multiply_expanded<true>(c, steps, 2, 0);
      multiply_expanded<true>(c, steps, 2, 2);
    }
    multiply_expanded<true>(c, steps, 0, 2);
  }
  return !has_infinite<kType>(expansion.largest);
}

// ---------------------------------------------------------------------------------------------------- all together

// f<kTiles>() for so many queries.
template <class F>
[[gnu::always_inline]] inline bool for_tiles(int64_t queries, const F& f) {
  if (queries <= 16) return f.template operator()<1>();
  return queries <= 32 ? f.template operator()<2>() : f.template operator()<4>();
}

bool TileCore::score(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows, int64_t queries,
                     Keys keys, TileScores* scores) {
  own.set_rows({.first = 16, .second = 16});
  return for_type(stored.store.dtype, [&]<DType kType>() {
    return for_tiles(queries,
                     [&]<int kTiles>() { return score_run<kType, kTiles>(own, ahead, stored, rows, keys, scores); });
  });
}

void TileCore::weigh(const TileScores& scores, const QueryLanes& lanes, int64_t tile, float factor, int64_t split_begin,
                     Keys keys, Weights& weights, float* max, float* sum) {
  const VisibleLanes visible(lanes, tile);
  const int64_t seen = visible.all_see_up_to(split_begin + keys.begin) - split_begin;
  const int64_t masked_from = greater(keys.begin, smaller(seen / kTileKeys * kTileKeys, keys.end));
  const Keys plain = {.begin = keys.begin, .end = masked_from}, masked = {.begin = masked_from, .end = keys.end};
  TileSoftmax softmax(scores, visible, factor, split_begin);
  softmax.find_max<false>(plain);
  softmax.find_max<true>(masked);
  softmax.weigh<false>(plain, weights);
  softmax.weigh<true>(masked, weights);
  softmax.store(max, sum);
}

bool TileCore::add_values(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows, int64_t chunk,
                          int64_t queries, Keys keys, const TileScores*, const Weights* weights, ChunkSums& sums) {
  const int64_t rows_of_tile = smaller(16, queries);  // of several tiles, all are computed with, read or not
  const Steps steps = {.begin = keys.begin / kTileKeys, .end = keys.end / kTileKeys};
  const ChunkOfSplit c = {.weights = weights, .values = own.values, .sums = sums};
  own.set_rows({.first = rows_of_tile, .second = rows_of_tile});
  return for_type(stored.store.dtype, [&]<DType kType>() {
    const auto add = queries > 16 ? add_chunk<kType, true> : add_chunk<kType, false>;
    return add(own, ahead, stored, rows, chunk, divide_up(queries, 16), steps, c);
  });
}

// Adding 0 turns -0 to 0: whether a zero sum carries a sign may depend on neighbours' keys (0 * -1).
void TileCore::store(const Rows& out, int64_t row, int64_t column, int64_t left, const float* sums, float factor) {
  const ValueColumns columns(sums);
  const auto value = [&](int64_t j) __attribute__((always_inline)) {
    return columns.at(j) * splat(factor) + splat(0.0F);
  };
  if (left == kChunk && out.dtype == DType::kBf16) {
    auto* to = row_of<Bf16>(out, row) + column;
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
