// Matrix products with vector units: y[r, 16 outputs] += column of 16 weights * x[r, column].
//
// A sum runs over columns in ascending order in one f32 lane with fused multiply-adds (portable: with two roundings),
// so it does not depend on how rows and tiles are grouped. x is bf16 (f32 is rounded), products with bf16 weights are
// exact; NVFP4 weights are code * block scale (exact), and global_scale multiplies the sum once.
//
// Cost: a weight is read once from memory per kGemmRows rows and re-read from cache for the others. bf16 costs one load
// and two bit operations per 64 bytes, NVFP4 three operations per 16 weights, on top of one multiply-add per row.
#include "kernel/cpu/generic/gemm_driver.h"
#include "kernel/cpu/generic/kernels.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

constexpr int64_t kBlockColumns = 512;  // of x, expanded to f32 at a time: 16 KiB for 8 rows, in L1

// sums[t * kRows + r] += tile t of the weights . x[r], over columns [0, columns) of a block.
struct Bf16Tiles {
  static constexpr int64_t kStep = 2;
  static int64_t tile_bytes(int64_t in) { return divide_up(in, 2) * 64; }
  static int64_t column_bytes(int64_t column) { return column * 32; }

  template <int kRows, int kTiles>
  [[gnu::always_inline]] static inline void multiply(const std::byte* w, int64_t tile_stride, const float* x,
                                                     int64_t columns, F32x16 (&sums)[kTiles * kRows]) {
    for (int64_t c = 0; c < columns; c += 2) {
      for (int t = 0; t < kTiles; ++t) {
        const U32x16 pair = load_u32(w + t * tile_stride + c * 32);
        const F32x16 even = from_bits(pair << 16);
        const F32x16 odd = from_bits(pair & splat_u32(0xffff0000U));
        for (int r = 0; r < kRows; ++r) {
          F32x16& sum = sums[t * kRows + r];
          sum = fma(even, splat(x[r * kBlockColumns + c]), sum);
          sum = fma(odd, splat(x[r * kBlockColumns + c + 1]), sum);
        }
      }
    }
  }
};

struct Nvfp4Tiles {
  static int64_t tile_bytes(int64_t in) { return in / kNvfp4Group * kNvfp4GroupBytes; }
  static int64_t column_bytes(int64_t column) { return column / kNvfp4Group * kNvfp4GroupBytes; }

  template <int kRows, int kTiles>
  [[gnu::always_inline]] static inline void multiply(const std::byte* w, int64_t tile_stride, const float* x,
                                                     int64_t columns, F32x16 (&sums)[kTiles * kRows]) {
    for (int64_t c = 0; c < columns; c += kNvfp4Group, w += kNvfp4GroupBytes) {
      F32x16 scale[kTiles];
      for (int t = 0; t < kTiles; ++t) {
        const U32x16 bits = (load_u8(w + t * tile_stride) << 20) + splat_u32(kScaleExponentOffset << 23);
        scale[t] = from_bits(bits);
      }
      for (int64_t half = 0; half < 2; ++half) {
        for (int t = 0; t < kTiles; ++t) {
          U32x16 codes = load_u32(w + t * tile_stride + kTileRows + half * 64);
          const float* xs = x + c + half * 8;
          for (int pair = 0; pair < 4; ++pair, codes = codes >> 4) {
            const F32x16 even = e2m1_values(codes) * scale[t];
            const F32x16 odd = e2m1_values(codes >> 16) * scale[t];
            for (int r = 0; r < kRows; ++r) {
              F32x16& sum = sums[t * kRows + r];
              sum = fma(even, splat(xs[r * kBlockColumns + 2 * pair]), sum);
              sum = fma(odd, splat(xs[r * kBlockColumns + 2 * pair + 1]), sum);
            }
          }
        }
      }
    }
  }
};

// Columns [begin, begin + columns) of rows [row, row + rows) of x as f32 that are bf16 numbers; an odd end is padded by
// a zero.
void expand_x(const GemmProblem& p, int64_t row, int64_t rows, int64_t begin, int64_t columns, float* to) {
  for (int64_t r = 0; r < rows; ++r, to += kBlockColumns) {
    const int64_t source = p.x_rows == nullptr ? row + r : p.x_rows[row + r];
    for (int64_t c = 0; c < columns; c += kLanes) {
      const F32x16 values = get(p.x, source, begin + c, smaller(kLanes, columns - c));
      store(to + c, from_bits(round_to_bf16(values)));
    }
    if (columns % 2 != 0) to[columns] = 0;
  }
}

// kRows rows of x through the tiles of a unit, kTiles at a time; the sums wait in memory between blocks of columns.
template <class Tiles, int kRows, int kTiles>
void multiply_rows(const GemmUnit& unit, int64_t row) {
  const GemmProblem& p = *unit.problem;
  alignas(64) float x[kRows * kBlockColumns + kLanes];
  F32x16 waiting[kTilesPerUnit * kRows];
  const int64_t tile_stride = Tiles::tile_bytes(p.weight.in);
  const auto* weight = static_cast<const std::byte*>(p.weight.data);
  for (int64_t begin = 0; begin < p.weight.in; begin += kBlockColumns) {
    const int64_t columns = smaller(kBlockColumns, p.weight.in - begin);
    const bool last = begin + columns == p.weight.in;
    expand_x(p, row, kRows, begin, columns, x);
    auto some_tiles = [&]<int kSome>(int64_t tile) __attribute__((always_inline)) {
      F32x16 sums[kSome * kRows];
      F32x16* wait = waiting + (tile - unit.tile_begin) * kRows;
      for (int i = 0; i < kSome * kRows; ++i) sums[i] = begin == 0 ? splat(0) : wait[i];
      const std::byte* w = weight + tile * tile_stride + Tiles::column_bytes(begin);
      Tiles::template multiply<kRows, kSome>(w, tile_stride, x, columns, sums);
      for (int i = 0; i < kSome * kRows; ++i) {
        if (last) {
          write_sum(p, p.weight.global_scale, row + i % kRows, tile + i / kRows, sums[i]);
        } else {
          wait[i] = sums[i];
        }
      }
    };
    int64_t tile = unit.tile_begin;
    for (; tile + kTiles <= unit.tile_end; tile += kTiles) some_tiles.template operator()<kTiles>(tile);
    for (; tile < unit.tile_end; ++tile) some_tiles.template operator()<1>(tile);
  }
}

template <class Tiles>
void multiply_unit(const GemmUnit& unit) {
  int64_t row = unit.row_begin;
  for (; row + kGemmRows <= unit.row_end; row += kGemmRows) {
    multiply_rows<Tiles, kGemmRows, kGemmTilesManyRows>(unit, row);
  }
  if constexpr (kGemmRows > 4) {
    for (; row + 4 <= unit.row_end; row += 4) multiply_rows<Tiles, 4, kGemmTilesManyRows>(unit, row);
  }
  if constexpr (kGemmRows > 2) {
    for (; row + 2 <= unit.row_end; row += 2) multiply_rows<Tiles, 2, kGemmTilesManyRows>(unit, row);
  }
  for (; row < unit.row_end; ++row) multiply_rows<Tiles, 1, kGemmTilesOneRow>(unit, row);
}

}  // namespace

void gemm(WorkerPool& pool, const Gemm& call) {
  run_gemm(pool, call, [] {
    return [](const GemmUnit& unit) {
      if (unit.problem->weight.format == WeightFormat::kNvfp4Tile16) {
        multiply_unit<Nvfp4Tiles>(unit);
      } else {
        multiply_unit<Bf16Tiles>(unit);
      }
    };
  });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
