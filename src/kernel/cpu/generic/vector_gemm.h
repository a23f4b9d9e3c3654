// Matrix products with vector units: y[r, 16 outputs] += column of 16 weights * x[r, column].
//
// A sum runs over columns in ascending order in one f32 lane with fused multiply-adds (portable: with two roundings),
// so it does not depend on how rows and tiles are grouped. x is bf16 (f32 is rounded), products with bf16 weights are
// exact; NVFP4 weights are code * block scale (exact), and global_scale multiplies the sum once.
//
// Few rows multiply weights as they are decoded: bf16 costs one load and two bit operations per 64 bytes, NVFP4 three
// operations per 16 weights, on top of one multiply-add per row. From kGemmRows rows on, two tiles at a time are
// decoded to f32 in L1 once, and all rows of the unit are multiplied with these.
#pragma once

#include "kernel/cpu/generic/gemm_driver.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

constexpr int64_t kBlockColumns = 256;  // of x and of decoded weights at a time
constexpr int64_t kTileFloats = kBlockColumns * kTileRows;

// The scratch of one worker.
struct alignas(64) Scratch {
  float x[kRowsPerUnit][kBlockColumns];                // f32 that are bf16 numbers
  float weights[kGemmTilesManyRows][kTileFloats];      // decoded: [column][16 rows]
  float sums[kTilesPerUnit][kRowsPerUnit][kTileRows];  // between blocks of columns
};
static_assert(sizeof(Scratch) <= kScratchBytes);

// Loops work on sums of their own: what a reference leads to is not kept in a register.
template <int kCount>
[[gnu::always_inline]] inline void copy_sums(const F32x16 (&from)[kCount], F32x16 (&to)[kCount]) {
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) to[i] = from[i];
}

// to[t * kRows + r] += tile t of the weights . x[r], over columns [0, columns) of a block; and decoding of a tile.
struct Bf16Tiles {
  static constexpr int64_t kDecodeRows = 32;  // from which decoding them once pays
  // Neighboring tiles follow each other in memory.
  static constexpr int64_t kBytesAhead = 16 * 1024;
  static int64_t tile_bytes(int64_t in) { return divide_up(in, 2) * 64; }
  static int64_t column_bytes(int64_t column) { return column * 32; }

  template <int kRows, int kTiles>
  [[gnu::always_inline]] static inline void multiply(const std::byte* w, int64_t tile_stride,
                                                     const float (*x)[kBlockColumns], int64_t columns,
                                                     F32x16 (&to)[kTiles * kRows]) {
    F32x16 sums[kTiles * kRows];
    copy_sums(to, sums);
    for (int64_t c = 0; c < columns; c += 2) {
      F32x16 even[kTiles], odd[kTiles];
#pragma GCC unroll 8
      for (int t = 0; t < kTiles; ++t) {
        const std::byte* at = w + t * tile_stride + c * 32;
        if constexpr (kRows > 1) __builtin_prefetch(at + kBytesAhead);
        const U32x16 pair = load_u32(at);
        even[t] = from_bits(pair << 16);
        odd[t] = from_bits(pair & splat_u32(0xffff0000U));
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        // In registers: each is read once for all tiles.
        const F32x16 x_even = in_register(splat(x[r][c])), x_odd = in_register(splat(x[r][c + 1]));
#pragma GCC unroll 8
        for (int t = 0; t < kTiles; ++t) {
          F32x16& sum = sums[t * kRows + r];
          sum = fma(even[t], x_even, sum);
          sum = fma(odd[t], x_odd, sum);
        }
      }
    }
    copy_sums(sums, to);
  }

  static void decode(const std::byte* w, int64_t columns, float* to) {
    for (int64_t c = 0; c < columns; c += 2) {
      const U32x16 pair = load_u32(w + c * 32);
      store(to + c * kTileRows, from_bits(pair << 16));
      store(to + (c + 1) * kTileRows, from_bits(pair & splat_u32(0xffff0000U)));
    }
  }
};

struct Nvfp4Tiles {
  static constexpr int64_t kDecodeRows = 12;
  static int64_t tile_bytes(int64_t in) { return in / kNvfp4Group * kNvfp4GroupBytes; }
  static int64_t column_bytes(int64_t column) { return column / kNvfp4Group * kNvfp4GroupBytes; }

  [[gnu::always_inline]] static inline F32x16 scales(const std::byte* group) {
    return from_bits((load_u8(group) << 20) + splat_u32(kScaleExponentOffset << 23));
  }

  template <int kRows, int kTiles>
  [[gnu::always_inline]] static inline void multiply(const std::byte* w, int64_t tile_stride,
                                                     const float (*x)[kBlockColumns], int64_t columns,
                                                     F32x16 (&to)[kTiles * kRows]) {
    F32x16 sums[kTiles * kRows];
    copy_sums(to, sums);
    for (int64_t c = 0; c < columns; c += kNvfp4Group, w += kNvfp4GroupBytes) {
      F32x16 scale[kTiles];
#pragma GCC unroll 8
      for (int t = 0; t < kTiles; ++t) scale[t] = scales(w + t * tile_stride);
      for (int64_t half = 0; half < 2; ++half) {
        U32x16 codes[kTiles];
#pragma GCC unroll 8
        for (int t = 0; t < kTiles; ++t) codes[t] = load_u32(w + t * tile_stride + kTileRows + half * 64);
#pragma GCC unroll 4
        for (int pair = 0; pair < 4; ++pair) {
          const int64_t column = c + half * 8 + 2 * pair;
          F32x16 even[kTiles], odd[kTiles];
#pragma GCC unroll 8
          for (int t = 0; t < kTiles; ++t) {
            even[t] = e2m1_values(codes[t]) * scale[t];
            odd[t] = e2m1_values(codes[t] >> 16) * scale[t];
            codes[t] = codes[t] >> 4;
          }
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            const F32x16 x_even = splat(x[r][column]), x_odd = splat(x[r][column + 1]);
#pragma GCC unroll 8
            for (int t = 0; t < kTiles; ++t) {
              F32x16& sum = sums[t * kRows + r];
              sum = fma(even[t], x_even, sum);
              sum = fma(odd[t], x_odd, sum);
            }
          }
        }
      }
    }
    copy_sums(sums, to);
  }

  static void decode(const std::byte* w, int64_t columns, float* to) {
    for (int64_t c = 0; c < columns; c += kNvfp4Group, w += kNvfp4GroupBytes) {
      const F32x16 scale = scales(w);
      for (int64_t half = 0; half < 2; ++half) {
        U32x16 codes = load_u32(w + kTileRows + half * 64);
        float* at = to + (c + half * 8) * kTileRows;
#pragma GCC unroll 4
        for (int pair = 0; pair < 4; ++pair, codes = codes >> 4) {
          store(at + 2 * pair * kTileRows, e2m1_values(codes) * scale);
          store(at + (2 * pair + 1) * kTileRows, e2m1_values(codes >> 16) * scale);
        }
      }
    }
  }
};

// The same sums with decoded weights.
template <int kRows, int kTiles>
[[gnu::always_inline]] inline void multiply_decoded(const float (*w)[kTileFloats], const float (*x)[kBlockColumns],
                                                    int64_t columns, F32x16 (&to)[kTiles * kRows]) {
  F32x16 sums[kTiles * kRows];
  copy_sums(to, sums);
  for (int64_t c = 0; c < columns; ++c) {
    F32x16 weights[kTiles];
#pragma GCC unroll 8
    for (int t = 0; t < kTiles; ++t) weights[t] = load(w[t] + c * kTileRows);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const F32x16 number = splat(x[r][c]);
#pragma GCC unroll 8
      for (int t = 0; t < kTiles; ++t) sums[t * kRows + r] = fma(weights[t], number, sums[t * kRows + r]);
    }
  }
  copy_sums(sums, to);
}

// Columns [begin, begin + columns) of rows of x as f32 that are bf16 numbers; an odd end is padded by a zero.
void expand_x(const GemmProblem& p, int64_t row, int64_t rows, int64_t begin, int64_t columns, Scratch& s) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t source = p.x_rows == nullptr ? row + r : p.x_rows[row + r];
    for (int64_t c = 0; c < columns; c += kLanes) {
      F32x16 values = get(p.x, source, begin + c, smaller(kLanes, columns - c));
      if (p.x.dtype == DType::kF32) values = from_bits(round_to_bf16(values));
      store(s.x[r] + c, values);
    }
    if (columns % 2 != 0) s.x[r][columns] = 0;
  }
}

// A worker's part of a call: units one after another, of which neighbours share rows of x.
class UnitMultiplier {
 public:
  void operator()(const GemmUnit& unit) {
    if (unit.problem->weight.format == WeightFormat::kNvfp4Tile16) {
      multiply<Nvfp4Tiles>(unit);
    } else {
      multiply<Bf16Tiles>(unit);
    }
  }

 private:
  // Where sums of a block of columns begin and end: in registers alone when the block is all of them.
  struct Block {
    const GemmUnit& unit;
    int64_t begin, columns;
    [[nodiscard]] bool first() const { return begin == 0; }
    [[nodiscard]] bool last() const { return begin + columns == unit.problem->weight.in; }
  };

  template <class Tiles>
  void multiply(const GemmUnit& unit) {
    const GemmProblem& p = *unit.problem;
    const int64_t rows = unit.row_end - unit.row_begin;
    for (int64_t begin = 0; begin < p.weight.in; begin += kBlockColumns) {
      const Block block{unit, begin, smaller(kBlockColumns, p.weight.in - begin)};
      if (expanded_problem_ != &p || expanded_row_ != unit.row_begin || expanded_column_ != begin) {
        expand_x(p, unit.row_begin, rows, begin, block.columns, s_);
        expanded_problem_ = &p, expanded_row_ = unit.row_begin, expanded_column_ = begin;
      }
      rows >= Tiles::kDecodeRows ? multiply_many<Tiles>(block, rows) : multiply_few<Tiles>(block, rows);
    }
  }

  template <class Tiles>
  const std::byte* tile_at(const Block& block, int64_t tile) const {
    const QuantTensor& w = block.unit.problem->weight;
    return static_cast<const std::byte*>(w.data) + tile * Tiles::tile_bytes(w.in) + Tiles::column_bytes(block.begin);
  }

  // Sums of rows [row, row + kRows) of the unit and kTiles tiles: begun or taken up again, computed, left or written.
  template <int kRows, int kTiles, class Compute>
  [[gnu::always_inline]] void with_sums(const Block& block, int64_t row, int64_t tile, const Compute& compute) {
    const GemmUnit& unit = block.unit;
    F32x16 sums[kTiles * kRows];
    const auto waiting = [&](int i) __attribute__((always_inline)) {
      return s_.sums[tile - unit.tile_begin + i / kRows][row + i % kRows];
    };
    for (int i = 0; i < kTiles * kRows; ++i) sums[i] = block.first() ? splat(0) : load(waiting(i));
    compute(sums);
    if (block.last()) {
      write_sums<kRows, kTiles>(*unit.problem, unit.problem->weight.global_scale, unit.row_begin + row, tile, sums);
    } else {
      for (int i = 0; i < kTiles * kRows; ++i) store(waiting(i), sums[i]);
    }
  }

  // f<tiles>(tile) over a unit's tiles, kTiles at a time.
  template <int kTiles, class F>
  [[gnu::always_inline]] static void over_tiles(const GemmUnit& unit, const F& f) {
    int64_t tile = unit.tile_begin;
    for (; tile + kTiles <= unit.tile_end; tile += kTiles) f.template operator()<kTiles>(tile);
    for (; tile < unit.tile_end; ++tile) f.template operator()<1>(tile);
  }

  template <class Tiles, int kRows>
  void rows_at_once(const Block& block, int64_t row) {
    const int64_t stride = Tiles::tile_bytes(block.unit.problem->weight.in);
    constexpr int kTiles = kRows == 1 ? kGemmTilesOneRow : kGemmTilesManyRows;
    over_tiles<kTiles>(
        block.unit, [&]<int kSome>(int64_t tile) __attribute__((always_inline)) {
          with_sums<kRows, kSome>(
              block, row, tile, [&](F32x16(&sums)[kSome * kRows]) __attribute__((always_inline)) {
                Tiles::template multiply<kRows, kSome>(tile_at<Tiles>(block, tile), stride, s_.x + row, block.columns,
                                                       sums);
              });
        });
  }

  template <class Tiles>
  void multiply_few(const Block& block, int64_t rows) {
    int64_t row = 0;
    for (; row + kGemmRows <= rows; row += kGemmRows) rows_at_once<Tiles, kGemmRows>(block, row);
    if constexpr (kGemmRows > 4) {
      for (; row + 4 <= rows; row += 4) rows_at_once<Tiles, 4>(block, row);
    }
    if constexpr (kGemmRows > 2) {
      if (rows - row == 3) return rows_at_once<Tiles, 3>(block, row);
      for (; row + 2 <= rows; row += 2) rows_at_once<Tiles, 2>(block, row);
    }
    for (; row < rows; ++row) rows_at_once<Tiles, 1>(block, row);
  }

  template <int kRows, int kTiles>
  void decoded_rows_at_once(const Block& block, int64_t row, int64_t tile) {
    with_sums<kRows, kTiles>(
        block, row, tile, [&](F32x16(&sums)[kTiles * kRows]) __attribute__((always_inline)) {
          multiply_decoded<kRows, kTiles>(s_.weights, s_.x + row, block.columns, sums);
        });
  }

  template <class Tiles>
  void multiply_many(const Block& block, int64_t rows) {
    over_tiles<kGemmTilesManyRows>(block.unit, [&]<int kTiles>(int64_t tile) {
      for (int t = 0; t < kTiles; ++t) Tiles::decode(tile_at<Tiles>(block, tile + t), block.columns, s_.weights[t]);
      int64_t row = 0;
      for (; row + kGemmRows <= rows; row += kGemmRows) decoded_rows_at_once<kGemmRows, kTiles>(block, row, tile);
      if constexpr (kGemmRows > 4) {
        for (; row + 4 <= rows; row += 4) decoded_rows_at_once<4, kTiles>(block, row, tile);
      }
      for (; row < rows; ++row) decoded_rows_at_once<1, kTiles>(block, row, tile);
    });
  }

  Scratch& s_ = *reinterpret_cast<Scratch*>(thread_scratch());
  const GemmProblem* expanded_problem_ = nullptr;
  int64_t expanded_row_ = 0, expanded_column_ = 0;
};

}  // namespace
}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
