// Attention over e4m3 rows with the half-precision arithmetic of AVX512: 32 numbers a register, twice the multiply-adds
// of f32. The three steps of generic/group_attention.h.
//
// e4m3 becomes half precision exactly by moving bits (2^8 times smaller). Queries are rounded to its 11 bits, scaled so
// that the largest number of each lies in [16, 32): then no sum of up to 640 products leaves the range. Weights are
// rounded to 11 bits too, and their sum is that of the rounded ones. Sums stay in half precision for a while:
//   scores: in each of 32 lanes over dim / 32 products (18 for MLA), then over the lanes in a fixed tree; the last two
//           are added as f32
//   values: over at most 64 positions, from one absolute multiple of 64 to the next, then in f32
// The error is that of 2^-12 of the sum of magnitudes, a few times; queries of the activation type (bf16) carry 2^-9.
//
// Per position of MLA (576 numbers, 512 of them values): 17 chunks of 64 numbers expanded, 9 operations each; 34
// multiply-adds a query.
#include "kernel/cpu/fp16/kernels.h"

#include "kernel/cpu/generic/group_attention.h"
#include "kernel/cpu/generic/vector_steps.h"
#include "kernel/cpu/tables.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

constexpr int64_t kHalves = 32;        // a vector
constexpr int64_t kValuesAtOnce = 64;  // positions of which a chunk is expanded, and summed in half precision
constexpr int kSums = 16;              // in registers
static_assert(kMaxAttentionKeyDim % kChunk == 0 && kSplit % kValuesAtOnce == 0);

// Weights take the place of the scores: each twice, as half precision, in the 32 bits of a lane.
struct HalfCore : VectorSteps {
  static constexpr float kE4m3Factor = 256;

  struct alignas(64) Own {
    _Float16 queries[kMaxQueries][kMaxAttentionKeyDim];
    float units[kMaxQueries];  // what a query's numbers are to be multiplied by
    _Float16 keys[kStepKeys][kMaxAttentionKeyDim];
    _Float16 values[kValuesAtOnce][kChunk];
    void begin(const QueryGroup& group, const QueryLanes& lanes);
  };
  static bool score(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows, int64_t queries,
                    Keys keys, TileScores* scores);
  static void weigh(TileScores& scores, const QueryLanes& lanes, int64_t tile, float factor, int64_t split_begin,
                    Keys keys, Weights&, float* max, float* sum);
  static bool add_values(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows, int64_t chunk,
                         int64_t queries, Keys keys, const TileScores* weights, const Weights*, ChunkSums& sums);
};
using Own = HalfCore::Own;

void HalfCore::Own::begin(const QueryGroup& group, const QueryLanes& lanes) {
  const Attention& a = *group.attention;
  const int64_t end = divide_up(a.key_dim, kHalves) * kHalves;
  for (int64_t query = 0; query < group.count; ++query) {
    alignas(64) float numbers[kMaxAttentionKeyDim];
    F32x16 largest = splat(0);
    for (int64_t i = 0; i < end; i += kLanes) {
      const int64_t left = greater(0, smaller(kLanes, a.key_dim - i));
      const F32x16 q = left == 0 ? splat(0) : get(a.q, lanes.row[query], lanes.head[query] * a.key_dim + i, left);
      strobe::kernel::STROBE_ISA_NAMESPACE::store(numbers + i, q);
      largest = larger(from_bits(bits_of(q) & splat_u32(0x7fffffff)), largest);
    }
    // 2^e is the largest power of two in it. What is not finite stays so.
    const uint32_t e = __builtin_bit_cast(uint32_t, max_lanes(largest)) >> 23;  // biased by 127
    const bool scaled = e >= 8 && e < 255;                                      // below: 0, or as good as
    const float factor = scaled ? __builtin_bit_cast(float, (127 + 4 + 127 - e) << 23) : 1.0F;
    units[query] = scaled ? __builtin_bit_cast(float, (e - 4) << 23) : 1.0F;
    for (int64_t i = 0; i < end; i += kLanes) {
      const __m512 x = _mm512_mul_ps(_mm512_load_ps(numbers + i), _mm512_set1_ps(factor));
      _mm256_store_si256(reinterpret_cast<__m256i*>(queries[query] + i),
                         _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
  }
}

// Numbers [begin, begin + kChunk) of a row, of which it has `count`; zeros behind. The NaN codes come as 480, and set a
// bit of kInfinite in *flags.
constexpr uint32_t kInfinite = 0x80808080U;

[[gnu::always_inline]] inline void expand(const std::byte* row, int64_t begin, int64_t count, _Float16* to,
                                          __m512i* flags) {
  const __mmask64 wanted = count >= kChunk ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
  const __m512i codes = _mm512_maskz_loadu_epi8(wanted, row + begin);
  // In each byte: 127, and nothing smaller, carries into the upper bit.
  const __m512i magnitudes = _mm512_and_si512(codes, _mm512_set1_epi8(0x7f));
  *flags = _mm512_or_si512(*flags, _mm512_add_epi32(magnitudes, _mm512_set1_epi32(0x01010101)));
  for (int64_t half = 0; half < 2; ++half) {
    const __m512i wide =
        _mm512_cvtepi8_epi16(half == 0 ? _mm512_castsi512_si256(codes) : _mm512_extracti64x4_epi64(codes, 1));
    _mm512_store_si512(to + half * kHalves,
                       _mm512_and_si512(_mm512_slli_epi16(wide, 7), _mm512_set1_epi16(static_cast<int16_t>(0xbf80))));
  }
}
[[gnu::always_inline]] inline bool is_finite(__m512i flags) {
  return _mm512_test_epi32_mask(flags, _mm512_set1_epi32(static_cast<int32_t>(kInfinite))) == 0;
}

[[gnu::always_inline]] inline __m512h half(__m512i a) {
  return (__m512h)a;
}
[[gnu::always_inline]] inline __m512i bits(__m512h a) {
  return (__m512i)a;
}

// Lane i is the sum over the lanes of v[place_of(i)]: lanes 16 apart are added first, then 8, 4, 2, and those next to
// each other as f32.
constexpr int place_of(int lane) {
  return lane / 4 + lane % 4 * 4;
}
[[gnu::always_inline]] inline __m512 sums_of_halves(__m512h (&v)[kSums]) {
  for (int i = 0; i < 8; ++i) {
    const __m512i a = bits(v[2 * i]), b = bits(v[2 * i + 1]);
    v[i] = half(_mm512_inserti64x4(a, _mm512_castsi512_si256(b), 1)) + half(_mm512_shuffle_i64x2(a, b, 0xee));
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i a = bits(v[2 * i]), b = bits(v[2 * i + 1]);
    v[i] = half(_mm512_shuffle_i64x2(a, b, 0x88)) + half(_mm512_shuffle_i64x2(a, b, 0xdd));
  }
  for (int i = 0; i < 2; ++i) {
    const __m512i a = bits(v[2 * i]), b = bits(v[2 * i + 1]);
    v[i] = half(_mm512_unpacklo_epi64(a, b)) + half(_mm512_unpackhi_epi64(a, b));
  }
  const __m512 a = (__m512)v[0], b = (__m512)v[1];
  const __m512i pairs = bits((__m512h)_mm512_shuffle_ps(a, b, 0x88) + (__m512h)_mm512_shuffle_ps(a, b, 0xdd));
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs)) +
         _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(pairs, 16)));
}

// Scores of queries [first, first + kRows) and the expanded keys, of which the first is `begin` in its split.
template <int kRows, bool kAsks>
void score_rows(const Own& own, Ahead& ahead, int64_t first, int64_t begin, int64_t dim, TileScores* scores) {
  constexpr int kKeys = kSums / kRows;
  alignas(64) float units[16];
  for (int i = 0; i < 16; ++i) units[i] = own.units[first + i % kRows];
  for (int64_t key = 0; key < HalfCore::kStepKeys; key += kKeys) {
    __m512h sums[kSums];
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_setzero_ph();
    for (int64_t i = 0; i < dim; i += kHalves) {
      __m512h numbers[kKeys];
#pragma GCC unroll 16
      for (int k = 0; k < kKeys; ++k) numbers[k] = _mm512_load_ph(own.keys[key + k] + i);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const __m512h q = _mm512_load_ph(own.queries[first + r] + i);
#pragma GCC unroll 16
        for (int k = 0; k < kKeys; ++k) {
          __m512h& sum = sums[place_of(k * kRows + r)];
          sum = _mm512_fmadd_ph(numbers[k], q, sum);
        }
      }
      if constexpr (kAsks) ahead.ask();
    }
    alignas(64) float by_key[kSums];
    _mm512_store_ps(by_key, _mm512_mul_ps(sums_of_halves(sums), _mm512_load_ps(units)));
#pragma GCC unroll 16
    for (int k = 0; k < kKeys; ++k) {
      __builtin_memcpy(scores[first / 16][begin + key + k] + first % 16, by_key + k * kRows, kRows * sizeof(float));
    }
  }
}

bool HalfCore::score(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows, int64_t queries,
                     Keys keys, TileScores* scores) {
  __m512i flags = _mm512_setzero_si512();
  for (int64_t begin = keys.begin; begin < keys.end; begin += kStepKeys) {
    if (begin + kRowsAhead < keys.end) stored.prefetch(rows + begin + kRowsAhead, kStepKeys);
    for (int64_t key = 0; key < kStepKeys; ++key) {
      for (int64_t i = 0; i < stored.dim; i += kChunk) {
        expand(rows[begin + key], i, smaller(kChunk, stored.dim - i), own.keys[key] + i, &flags);
        ahead.ask();
      }
      ahead.more();
    }
    in_rows<4>(queries, [&]<int kRows>(int64_t first) {
      const auto score = ahead.more() ? score_rows<kRows, true> : score_rows<kRows, false>;
      score(own, ahead, first, begin, stored.dim, scores);
    });
  }
  return is_finite(flags);
}

void HalfCore::weigh(TileScores& scores, const QueryLanes& lanes, int64_t tile, float factor, int64_t split_begin,
                     Keys keys, Weights&, float* max, float* sum) {
  weigh_tile(
      scores, lanes, tile, factor, split_begin, keys, max, sum,
      [](F32x16 weight, F32x16 * counted) __attribute__((always_inline)) {
        const __m256i rounded = _mm512_cvtps_ph((__m512)weight.part[0], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        *counted = {{(NativeF32)_mm512_cvtph_ps(rounded)}};
        const __m512i one = _mm512_cvtepu16_epi32(rounded);
        return F32x16{{(NativeF32)_mm512_or_si512(one, _mm512_slli_epi32(one, 16))}};
      });
}

// Sums of queries [first, first + kRows) (+)= weights . expanded values, of `count` positions from `begin` on.
template <int kRows, bool kAsks>
[[gnu::always_inline]] inline void add_rows(const Own& own, Ahead& ahead, const TileScores* weights, int64_t first,
                                            int64_t begin, int64_t count, bool from_zero, ChunkSums& to) {
  constexpr int kColumns = kChunk / kHalves;
  __m512h sums[kRows * kColumns];
#pragma GCC unroll 16
  for (int i = 0; i < kRows * kColumns; ++i) sums[i] = _mm512_setzero_ph();
  const float(*w)[16] = weights[first / 16] + begin;
  for (int64_t key = 0; key < count; ++key) {
    __m512h numbers[kColumns];
#pragma GCC unroll 2
    for (int c = 0; c < kColumns; ++c) numbers[c] = _mm512_load_ph(own.values[key] + c * kHalves);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512h weight = (__m512h)_mm512_set1_ps(w[key][first % 16 + r]);
#pragma GCC unroll 2
      for (int c = 0; c < kColumns; ++c) {
        sums[r * kColumns + c] = _mm512_fmadd_ph(weight, numbers[c], sums[r * kColumns + c]);
      }
    }
    if constexpr (kAsks) ahead.ask();
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows * kColumns; ++i) {
    float* row = to[first + i / kColumns] + i % kColumns * kHalves;
    const __m512i all = bits(sums[i]);
    const __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(all));
    const __m512 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(all, 1));
    _mm512_store_ps(row, from_zero ? low : _mm512_add_ps(_mm512_load_ps(row), low));
    _mm512_store_ps(row + 16, from_zero ? high : _mm512_add_ps(_mm512_load_ps(row + 16), high));
  }
}

bool HalfCore::add_values(Own& own, Ahead& ahead, const StoredRows& stored, const std::byte* const* rows, int64_t chunk,
                          int64_t queries, Keys keys, const TileScores* weights, const Weights*, ChunkSums& sums) {
  const int64_t width = smaller(kChunk, stored.dim - chunk * kChunk);
  __m512i flags = _mm512_setzero_si512();
  for (int64_t begin = keys.begin, end; begin < keys.end; begin = end) {
    end = smaller(begin / kValuesAtOnce * kValuesAtOnce + kValuesAtOnce, keys.end);
    for (int64_t key = begin; key < end; ++key) {
      expand(rows[key], chunk * kChunk, width, own.values[key - begin], &flags);
      ahead.ask();
    }
    in_rows<8>(
        queries, [&]<int kRows>(int64_t first) __attribute__((always_inline)) {
          if (ahead.more()) {
            add_rows<kRows, true>(own, ahead, weights, first, begin, end - begin, begin == keys.begin, sums);
          } else {
            add_rows<kRows, false>(own, ahead, weights, first, begin, end - begin, begin == keys.begin, sums);
          }
        });
  }
  return is_finite(flags);
}

}  // namespace

void mla_attention(WorkerPool& pool, const MlaAttention& call) {
  if (call.store.dtype != DType::kE4m3) return avx512::kKernels.mla_attention(pool, call);
  run_attention<HalfCore>(pool, as_attention(call));
}

void gqa_attention(WorkerPool& pool, const GqaAttention& call) {
  if (call.k.dtype != DType::kE4m3 || call.v.dtype != DType::kE4m3) return avx512::kKernels.gqa_attention(pool, call);
  run_attention<HalfCore>(pool, as_attention(call));
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
