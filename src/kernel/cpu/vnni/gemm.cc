// Matrix products with the integer dot products of AVX512 VNNI, for NVFP4 weights; bf16 weights go through
// vector_gemm.h.
//
// Twice a 4-bit float is an integer from -12 to 12. Sixteen columns of x, those that share a block scale, become
// integers too: x = m 2^(e - 13), where 2^e is the largest power of two in the group's largest magnitude; |m| < 2^14 is
// rounded, so a number keeps 14 bits or all it has (bf16: 8) unless it is 2^6 times smaller than the largest. m = 256
// high + low with bytes high and low, and
//   sum over 16 columns of weight * x  =  block scale * 2^(e - 14) * (256 sum(code * high) + sum(code * low)),
// the integer exact, below 2^24 and so exact as f32; groups are added in ascending order of columns by fused
// multiply-adds. What a row gives depends on that row alone.
//
// The instruction multiplies bytes without a sign by bytes with one: codes are 12 larger, and 12 sum(m) is taken off.
// Per group of 16 columns and 16 output rows: 9 operations to decode it, 13 a row of x; f32 takes 40 and 16.
#include "kernel/cpu/vnni/kernels.h"

#include "kernel/cpu/generic/vector_gemm.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

// Sixteen columns of a row of x. Bytes lie in the order in which a tile's bytes hold columns: (0, 4, 1, 5),
// (2, 6, 3, 7), and the same from 8 on.
struct XGroup {
  int32_t high[4];
  int32_t low[4];
  int32_t correction;  // -12 sum(m)
  float scale;         // 2^(e - 15)
};
constexpr int32_t kCodeOffset = 12;

// A group of 16 rows of weights: codes + 12, and block scales.
struct WGroup {
  __m512i codes[4];
  __m512 scale;
};

constexpr int64_t kXGroups = 6144;         // of all rows of a unit at a time
constexpr int64_t kWeightGroups = 16;      // decoded at a time where there are many rows
constexpr int64_t kRowsWorthDecoding = 9;  // from so many rows on

struct alignas(64) IntegerScratch {
  WGroup weights[kWeightGroups];
  float sums[kTilesPerUnit][kRowsPerUnit][kTileRows];  // between blocks of columns
  XGroup x[kXGroups];
};
constexpr int64_t kIntegerScratchAt = (sizeof(Scratch) + 63) / 64 * 64;
static_assert(kIntegerScratchAt + sizeof(IntegerScratch) <= kScratchBytes);
static_assert(kXGroups / kRowsPerUnit >= kWeightGroups);

class GroupDecoder {
 public:
  GroupDecoder() {
    constexpr int8_t kDoubled[8] = {0, 1, 2, 3, 4, 6, 8, 12};
    alignas(64) int8_t table[64];  // the lookup reads 6 bits: the 16 codes are there four times
    for (int i = 0; i < 64; ++i) table[i] = static_cast<int8_t>(kCodeOffset + (i & 8 ? -1 : 1) * kDoubled[i & 7]);
    table_ = _mm512_load_si512(table);
  }
  [[gnu::always_inline]] inline WGroup operator()(const std::byte* group) const {
    WGroup w;
    for (int half = 0; half < 2; ++half) {
      const __m512i codes = _mm512_loadu_si512(group + kTileRows + half * 64);
      w.codes[2 * half] = _mm512_permutexvar_epi8(codes, table_);
      w.codes[2 * half + 1] = _mm512_permutexvar_epi8(_mm512_srli_epi16(codes, 4), table_);
    }
    const __m512i scale = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(group)));
    w.scale = _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_slli_epi32(scale, 20), _mm512_set1_epi32(kScaleExponentOffset << 23)));
    return w;
  }

 private:
  __m512i table_;
};

// A group that holds a NaN or infinity makes every result of its row NaN.
[[gnu::always_inline]] inline void write_x_group(F32x16 numbers, XGroup* to) {
  const __m512 x = (__m512)numbers.part[0];
  const __m512i magnitudes = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
  const uint32_t exponent = static_cast<uint32_t>(_mm512_reduce_max_epi32(magnitudes)) >> 23;  // e + 127
  constexpr uint32_t kSmallest = 16, kInfinite = 255;  // below: 0, as all products with it are nearly
  const bool finite = exponent < kInfinite && exponent >= kSmallest;
  const float factor = finite ? __builtin_bit_cast(float, (127 + 14 + 127 - exponent) << 23) : 0.0F;
  to->scale = finite                  ? __builtin_bit_cast(float, (exponent - 15) << 23)
              : exponent == kInfinite ? __builtin_nanf("")
                                      : 0.0F;
  const __m512i rounded = _mm512_maskz_cvtps_epi32(finite ? 0xffff : 0, _mm512_mul_ps(x, _mm512_set1_ps(factor)));
  const __m512i m = _mm512_min_epi32(rounded, _mm512_set1_epi32(127 * 256 + 127));
  const __m512i low = _mm512_srai_epi32(_mm512_slli_epi32(m, 24), 24);
  const __m512i high = _mm512_srai_epi32(_mm512_sub_epi32(m, low), 8);
  const __m128i order = _mm_setr_epi8(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
  const auto store = [&](int32_t * bytes, __m512i v) __attribute__((always_inline)) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes), _mm_shuffle_epi8(_mm512_cvtepi32_epi8(v), order));
  };
  store(to->high, high);
  store(to->low, low);
  to->correction = -kCodeOffset * _mm512_reduce_add_epi32(m);
}

[[gnu::always_inline]] inline __m512 add_group(const WGroup& w, const XGroup& x, __m512 sum) {
  __m512i high = _mm512_setzero_si512();
  __m512i low = _mm512_set1_epi32(x.correction);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    high = _mm512_dpbusd_epi32(high, w.codes[i], _mm512_set1_epi32(x.high[i]));
    low = _mm512_dpbusd_epi32(low, w.codes[i], _mm512_set1_epi32(x.low[i]));
  }
  const __m512i total = _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(total), _mm512_mul_ps(w.scale, _mm512_set1_ps(x.scale)), sum);
}

class IntegerMultiplier {
 public:
  void operator()(const GemmUnit& unit) {
    if (unit.problem->weight.format != WeightFormat::kNvfp4Tile16) return others_(unit);
    const GemmProblem& p = *unit.problem;
    const int64_t rows = unit.row_end - unit.row_begin;
    const int64_t groups = p.weight.in / kNvfp4Group;
    const int64_t most = smaller(groups, kXGroups / rows);
    for (int64_t begin = 0; begin < groups; begin += most) {
      const Block block{unit, rows, begin, smaller(most, groups - begin), begin == 0, begin + most >= groups};
      prepare_x(block);
      for (int64_t tile = unit.tile_begin; tile < unit.tile_end; ++tile) {
        rows < kRowsWorthDecoding ? multiply_few(block, tile) : multiply_many(block, tile);
      }
    }
  }

 private:
  struct Block {
    const GemmUnit& unit;
    int64_t rows;
    int64_t begin, groups;  // of columns
    bool first, last;
  };

  // Neighboring units, and problems with the same rows of x (gate and up of an expert), share what it makes.
  void prepare_x(const Block& block) {
    const GemmProblem& p = *block.unit.problem;
    const Prepared wanted{p.x.data, p.x_rows, block.unit.row_begin, block.rows, block.begin, block.groups};
    if (wanted == prepared_) return;
    prepared_ = wanted;
    for (int64_t r = 0; r < block.rows; ++r) {
      const int64_t index = block.unit.row_begin + r;
      const int64_t row = p.x_rows == nullptr ? index : p.x_rows[index];
      for (int64_t g = 0; g < block.groups; ++g) {
        F32x16 numbers = get(p.x, row, (block.begin + g) * kNvfp4Group, kNvfp4Group);
        if (p.x.dtype == DType::kF32) numbers = from_bits(round_to_bf16(numbers));
        write_x_group(numbers, &s_.x[r * block.groups + g]);
      }
    }
  }

  const std::byte* weights_at(const Block& block, int64_t tile) const {
    const QuantTensor& w = block.unit.problem->weight;
    return static_cast<const std::byte*>(w.data) + (tile * (w.in / kNvfp4Group) + block.begin) * kNvfp4GroupBytes;
  }

  // Rows [row, row + kRows) of the unit and groups [begin, begin + count) of the block's columns; group_at(g) is group
  // begin + g of the weights. Sums are begun or taken up again, then left or written.
  template <int kRows, class GroupAt>
  [[gnu::always_inline]] inline void add_groups(const Block& block, int64_t row, int64_t tile, int64_t begin,
                                                int64_t count, const GroupAt& group_at) {
    const bool first = block.first && begin == 0, last = block.last && begin + count == block.groups;
    auto& waiting = s_.sums[tile - block.unit.tile_begin];
    const XGroup* x = s_.x + row * block.groups + begin;
    __m512 sums[kRows];
    for (int r = 0; r < kRows; ++r) sums[r] = first ? _mm512_setzero_ps() : _mm512_load_ps(waiting[row + r]);
    for (int64_t g = 0; g < count; ++g) {
      const auto& group = group_at(g);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[r] = add_group(group, x[r * block.groups + g], sums[r]);
    }
    if (!last) {
      for (int r = 0; r < kRows; ++r) _mm512_store_ps(waiting[row + r], sums[r]);
      return;
    }
    F32x16 results[kRows];
    for (int r = 0; r < kRows; ++r) results[r] = {{(NativeF32)sums[r]}};
    const GemmProblem& p = *block.unit.problem;
    write_sums<kRows, 1>(p, p.weight.global_scale, block.unit.row_begin + row, tile, results);
  }

  template <int kRows>
  void rows_at_once(const Block& block, int64_t row, int64_t tile) {
    const std::byte* w = weights_at(block, tile);
    const GroupDecoder decode = decode_;
    // Two tiles ahead: neighboring tiles of a problem follow each other in memory.
    const int64_t ahead = 2 * (block.unit.problem->weight.in / kNvfp4Group) * kNvfp4GroupBytes;
    add_groups<kRows>(
        block, row, tile, 0, block.groups, [&](int64_t g) __attribute__((always_inline)) {
          const std::byte* group = w + g * kNvfp4GroupBytes;
          __builtin_prefetch(group + ahead);  // 144 bytes: two lines, and a third now and then
          __builtin_prefetch(group + ahead + 64);
          if (g % 4 == 0) __builtin_prefetch(group + ahead + 128);
          return decode(group);
        });
  }

  void multiply_few(const Block& block, int64_t tile) {
    int64_t row = 0;
    if (block.rows - row >= 8) rows_at_once<8>(block, row, tile), row += 8;
    if (block.rows - row >= 4) rows_at_once<4>(block, row, tile), row += 4;
    if (block.rows - row == 3) return rows_at_once<3>(block, row, tile);
    if (block.rows - row >= 2) rows_at_once<2>(block, row, tile), row += 2;
    if (block.rows - row >= 1) rows_at_once<1>(block, row, tile);
  }

  template <int kRows>
  void decoded_rows_at_once(const Block& block, int64_t row, int64_t tile, int64_t begin, int64_t count) {
    add_groups<kRows>(
        block, row, tile, begin,
        count, [&](int64_t g) __attribute__((always_inline))->const WGroup& { return s_.weights[g]; });
  }

  void multiply_many(const Block& block, int64_t tile) {
    const std::byte* w = weights_at(block, tile);
    for (int64_t begin = 0; begin < block.groups; begin += kWeightGroups) {
      const int64_t count = smaller(kWeightGroups, block.groups - begin);
      for (int64_t g = 0; g < count; ++g) s_.weights[g] = decode_(w + (begin + g) * kNvfp4GroupBytes);
      int64_t row = 0;
      for (; row + 4 <= block.rows; row += 4) decoded_rows_at_once<4>(block, row, tile, begin, count);
      for (; row < block.rows; ++row) decoded_rows_at_once<1>(block, row, tile, begin, count);
    }
  }

  struct Prepared {
    const void* x = nullptr;
    const int32_t* x_rows = nullptr;
    int64_t row = 0, rows = 0, begin = 0, groups = 0;
    bool operator==(const Prepared&) const = default;
  };

  IntegerScratch& s_ = *reinterpret_cast<IntegerScratch*>(thread_scratch() + kIntegerScratchAt);
  GroupDecoder decode_;
  Prepared prepared_;
  UnitMultiplier others_;
};

}  // namespace

void gemm(WorkerPool& pool, const Gemm& call) {
  run_gemm(pool, call, [](int) { return IntegerMultiplier(); });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
