// Matrix products with the tile unit.
//
// A unit of work (gemm_driver.h: 4 output tiles x up to 256 rows) runs over blocks of 512 columns:
// - x: bf16 rows are read where they lie; gathered or f32 rows, and a number of columns that is no multiple of 32, are
// first
//   written as dense tiles. Neighbouring units of one problem share that copy.
// - weights: bf16 tiles are read where they lie. NVFP4 tiles are expanded to bf16 just before they are used, two steps
// ahead,
//   in L1; where there are more than 16 rows, once for all of them.
// - up to 16 rows ("narrow"): two output tiles side by side, so that the multiplications (latency 52 cycles) do not
// wait for
//   each other. More rows ("wide"): 2 x 2 tiles of sums, so that each tile loaded is used twice.
//
// Narrow products read each weight once: out * in * 2 bytes (NVFP4 9/16 of a byte) at what memory gives (measured on a
// Xeon of the fourth generation: 25 GB/s a core from L3, 7 bytes a cycle), against 16 cycles a KiB of bf16 in the tile
// unit. Wide ones are limited by loading tiles: 4 KiB from L1 or L2 for 64 cycles of multiplication.
#include "kernel/cpu/amx/kernels.h"
#include "kernel/cpu/amx/nvfp4.h"
#include "kernel/cpu/amx/tiles.h"
#include "kernel/cpu/generic/gemm_driver.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

constexpr int64_t kBlockColumns = 512;
constexpr int64_t kBlockSteps = kBlockColumns / kStepColumns;
constexpr int64_t kRowTiles = kRowsPerUnit / 16;

// The scratch of one worker.
struct alignas(64) Scratch {
  std::byte x[kRowTiles][kBlockSteps][kTileBytes];
  std::byte weights[kTilesPerUnit][kBlockSteps][kTileBytes];
  float sums[kRowTiles][kTilesPerUnit][16][16];
};
static_assert(sizeof(Scratch) <= kScratchBytes);

// Where a block's tiles lie: step s of row or output tile t at data + t * tile + s * step, its rows `row` bytes apart.
struct Operand {
  const std::byte* data = nullptr;
  int64_t tile = 0;
  int64_t step = 0;
  int64_t row = 0;
};

// One block of columns of a unit.
struct Block {
  int64_t begin = 0;    // first column
  int64_t columns = 0;  // up to 512
  int64_t steps = 0;
  bool first = false;
  bool last = false;
};

class TileGemm {
 public:
  TileGemm() : scratch_(*reinterpret_cast<Scratch*>(thread_scratch())), expander_(Nvfp4Expander::make()) {}
  ~TileGemm() { release_tiles(); }
  TileGemm(const TileGemm&) = delete;
  TileGemm& operator=(const TileGemm&) = delete;
  void operator()(const GemmUnit& unit);

 private:
  bool is_nvfp4() const { return problem_->weight.format == WeightFormat::kNvfp4Tile16; }
  const std::byte* packed_tile(int64_t tile, int64_t column) const;
  int64_t rows_of_tile(int64_t row_tile) const { return smaller(16, unit_.row_end - unit_.row_begin - row_tile * 16); }
  void set_rows(TileRows rows);

  Operand prepare_x(const Block& block);
  void copy_x_row(const Block& block, int64_t row);
  Operand prepare_weights(const Block& block, bool wide);
  void copy_tail(const Block& block, int64_t tile);
  void expand_step(int64_t tile, int64_t column, int64_t columns, std::byte* to) const;

  void narrow_pair(const Block& block, const Operand& x, const Operand& w, int64_t row_tile, int64_t tile);
  void narrow_one(const Block& block, const Operand& x, const Operand& w, int64_t row_tile, int64_t tile);
  void narrow_expanding(const Block& block, const Operand& x, int64_t tile, int64_t tiles);
  void wide_pair(const Block& block, const Operand& x, const Operand& w, int64_t row_tile, int64_t tile);
  template <int kRegister>
  void load_sums(const Block& block, int64_t row_tile, int64_t tile);
  void write(int64_t row_tile, int64_t tile, int64_t tiles);

  Scratch& scratch_;
  Nvfp4Expander expander_;
  GemmUnit unit_;
  const GemmProblem* problem_ = nullptr;
  TileRows rows_;
  // Which rows and columns of which problem scratch_.x holds.
  const GemmProblem* copied_problem_ = nullptr;
  int64_t copied_row_ = 0;
  int64_t copied_column_ = 0;
};

void TileGemm::set_rows(TileRows rows) {
  if (rows.first == rows_.first && rows.second == rows_.second) return;
  configure_tiles(rows);
  rows_ = rows;
}

// The packed bytes of output tile `tile` of the unit from `column` on.
const std::byte* TileGemm::packed_tile(int64_t tile, int64_t column) const {
  const int64_t in = problem_->weight.in;
  const auto* data = static_cast<const std::byte*>(problem_->weight.data);
  tile += unit_.tile_begin;
  if (is_nvfp4()) return data + (tile * (in / kNvfp4Group) + column / kNvfp4Group) * kNvfp4GroupBytes;
  return data + (tile * divide_up(in, 2) + column / 2) * 64;
}

void TileGemm::copy_x_row(const Block& block, int64_t row) {
  const int64_t index = unit_.row_begin + row;
  const int64_t source = problem_->x_rows == nullptr ? index : problem_->x_rows[index];
  std::byte* to = scratch_.x[row / 16][0] + row % 16 * kTileStride;
  for (int64_t c = 0; c < block.steps * kStepColumns; c += kLanes) {
    const int64_t count = greater(0, smaller(kLanes, block.columns - c));
    const F32x16 values = get(problem_->x, source, block.begin + c, count);
    store(reinterpret_cast<Bf16*>(to + c / kStepColumns * kTileBytes + c % kStepColumns * 2), values);
  }
}

Operand TileGemm::prepare_x(const Block& block) {
  const Rows& x = problem_->x;
  if (x.dtype == DType::kBf16 && problem_->x_rows == nullptr && block.columns % kStepColumns == 0) {
    return {.data = reinterpret_cast<const std::byte*>(row_bf16(x, unit_.row_begin) + block.begin),
            .tile = x.stride * 16 * 2,
            .step = kStepColumns * 2,
            .row = x.stride * 2};
  }
  if (copied_problem_ != problem_ || copied_row_ != unit_.row_begin || copied_column_ != block.begin) {
    for (int64_t row = 0; row < unit_.row_end - unit_.row_begin; ++row) copy_x_row(block, row);
    copied_problem_ = problem_;
    copied_row_ = unit_.row_begin;
    copied_column_ = block.begin;
  }
  return {.data = scratch_.x[0][0], .tile = kBlockSteps * kTileBytes, .step = kTileBytes, .row = kTileStride};
}

// One step of one tile: up to 32 columns, the rest zeros.
void TileGemm::expand_step(int64_t tile, int64_t column, int64_t columns, std::byte* to) const {
  const std::byte* group = packed_tile(tile, column);
  expander_.expand_group(group, to);
  if (columns > kNvfp4Group) {
    expander_.expand_group(group + kNvfp4GroupBytes, to + kTileBytes / 2);
  } else {
    __builtin_memset(to + kTileBytes / 2, 0, kTileBytes / 2);
  }
}

// A bf16 tile whose columns are no multiple of 32: with zeros behind.
void TileGemm::copy_tail(const Block& block, int64_t tile) {
  std::byte* to = scratch_.weights[tile][0];
  const int64_t bytes = divide_up(block.columns, 2) * 64;
  __builtin_memcpy(to, packed_tile(tile, block.begin), static_cast<size_t>(bytes));
  __builtin_memset(to + bytes, 0, static_cast<size_t>(block.steps * kTileBytes - bytes));
}

Operand TileGemm::prepare_weights(const Block& block, bool wide) {
  const int64_t tiles = unit_.tile_end - unit_.tile_begin;
  if (!is_nvfp4() && block.columns % kStepColumns == 0) {
    return {.data = packed_tile(0, block.begin),
            .tile = divide_up(problem_->weight.in, 2) * 64,
            .step = kTileBytes,
            .row = kTileStride};
  }
  for (int64_t tile = 0; tile < tiles; ++tile) {
    if (!is_nvfp4()) {
      copy_tail(block, tile);
    } else if (wide) {
      for (int64_t step = 0; step < block.steps; ++step) {
        const int64_t column = step * kStepColumns;
        expand_step(tile, block.begin + column, block.columns - column, scratch_.weights[tile][step]);
      }
    }
  }
  return {.data = scratch_.weights[0][0], .tile = kBlockSteps * kTileBytes, .step = kTileBytes, .row = kTileStride};
}

template <int kRegister>
[[gnu::always_inline]] inline void TileGemm::load_sums(const Block& block, int64_t row_tile, int64_t tile) {
  if (block.first) {
    tile_zero<kRegister>();
  } else {
    tile_load<kRegister>(scratch_.sums[row_tile][tile][0], kTileStride);
  }
}

void TileGemm::narrow_pair(const Block& block, const Operand& x, const Operand& w, int64_t row_tile, int64_t tile) {
  const std::byte* xs = x.data + row_tile * x.tile;
  const std::byte* w0 = w.data + tile * w.tile;
  const std::byte* w1 = w0 + w.tile;
  load_sums<0>(block, row_tile, tile);
  load_sums<1>(block, row_tile, tile + 1);
  for (int64_t s = 0; s < block.steps; ++s, xs += x.step, w0 += kTileBytes, w1 += kTileBytes) {
    tile_load<4>(xs, x.row);
    tile_load<6>(w0, kTileStride);
    tile_multiply<0, 4, 6>();
    tile_load<7>(w1, kTileStride);
    tile_multiply<1, 4, 7>();
  }
  tile_store<0>(scratch_.sums[row_tile][tile][0], kTileStride);
  tile_store<1>(scratch_.sums[row_tile][tile + 1][0], kTileStride);
}

void TileGemm::narrow_one(const Block& block, const Operand& x, const Operand& w, int64_t row_tile, int64_t tile) {
  const std::byte* xs = x.data + row_tile * x.tile;
  const std::byte* w0 = w.data + tile * w.tile;
  load_sums<0>(block, row_tile, tile);
  for (int64_t s = 0; s < block.steps; ++s, xs += x.step, w0 += kTileBytes) {
    tile_load<4>(xs, x.row);
    tile_load<6>(w0, kTileStride);
    tile_multiply<0, 4, 6>();
  }
  tile_store<0>(scratch_.sums[row_tile][tile][0], kTileStride);
}

// One row tile and one or two NVFP4 tiles (with one, the second pair of registers repeats the first and is not used). A
// step is expanded one ahead of its multiplication, so that its stores have left for L1 when the tile unit loads them.
void TileGemm::narrow_expanding(const Block& block, const Operand& x, int64_t tile, int64_t tiles) {
  constexpr int64_t kRing = 4;
  std::byte* ring0 = scratch_.weights[0][0];
  std::byte* ring1 = ring0 + kRing * kTileBytes;
  const int64_t second = tile + tiles - 1;
  const std::byte* xs = x.data;
  load_sums<0>(block, 0, tile);
  load_sums<1>(block, 0, second);
  for (int64_t s = 0; s <= block.steps; ++s) {
    if (s < block.steps) {
      const int64_t column = s * kStepColumns;
      std::byte* to = ring0 + s % kRing * kTileBytes;
      expand_step(tile, block.begin + column, block.columns - column, to);
      if (tiles == 2) expand_step(second, block.begin + column, block.columns - column, to + (ring1 - ring0));
    }
    if (s == 0) continue;
    const int64_t slot = (s - 1) % kRing * kTileBytes;
    tile_load<4>(xs, x.row);
    tile_load<6>(ring0 + slot, kTileStride);
    tile_multiply<0, 4, 6>();
    if (tiles == 2) {
      tile_load<7>(ring1 + slot, kTileStride);
      tile_multiply<1, 4, 7>();
    }
    xs += x.step;
  }
  tile_store<0>(scratch_.sums[0][tile][0], kTileStride);
  if (tiles == 2) tile_store<1>(scratch_.sums[0][second][0], kTileStride);
}

void TileGemm::wide_pair(const Block& block, const Operand& x, const Operand& w, int64_t row_tile, int64_t tile) {
  const std::byte* x0 = x.data + row_tile * x.tile;
  const std::byte* x1 = x0 + x.tile;
  const std::byte* w0 = w.data + tile * w.tile;
  const std::byte* w1 = w0 + w.tile;
  load_sums<0>(block, row_tile, tile);
  load_sums<1>(block, row_tile, tile + 1);
  load_sums<2>(block, row_tile + 1, tile);
  load_sums<3>(block, row_tile + 1, tile + 1);
  for (int64_t s = 0; s < block.steps; ++s, x0 += x.step, x1 += x.step, w0 += kTileBytes, w1 += kTileBytes) {
    tile_load<4>(x0, x.row);
    tile_load<6>(w0, kTileStride);
    tile_multiply<0, 4, 6>();
    tile_load<7>(w1, kTileStride);
    tile_multiply<1, 4, 7>();
    tile_load<5>(x1, x.row);
    tile_multiply<2, 5, 6>();
    tile_multiply<3, 5, 7>();
  }
  tile_store<0>(scratch_.sums[row_tile][tile][0], kTileStride);
  tile_store<1>(scratch_.sums[row_tile][tile + 1][0], kTileStride);
  tile_store<2>(scratch_.sums[row_tile + 1][tile][0], kTileStride);
  tile_store<3>(scratch_.sums[row_tile + 1][tile + 1][0], kTileStride);
}

void TileGemm::write(int64_t row_tile, int64_t tile, int64_t tiles) {
  const int64_t row = unit_.row_begin + row_tile * 16;
  for (int64_t t = tile; t < tile + tiles; ++t) {
    for (int64_t r = 0; r < rows_of_tile(row_tile); ++r) {
      write_sum(*problem_, row + r, unit_.tile_begin + t, load(scratch_.sums[row_tile][t][r]));
    }
  }
}

void TileGemm::operator()(const GemmUnit& unit) {
  unit_ = unit;
  problem_ = unit.problem;
  const int64_t in = problem_->weight.in;
  const int64_t row_tiles = divide_up(unit.row_end - unit.row_begin, 16);
  const int64_t tiles = unit.tile_end - unit.tile_begin;
  for (int64_t begin = 0; begin < in; begin += kBlockColumns) {
    const int64_t columns = smaller(kBlockColumns, in - begin);
    const Block block{.begin = begin,
                      .columns = columns,
                      .steps = divide_up(columns, kStepColumns),
                      .first = begin == 0,
                      .last = begin + columns == in};
    const Operand x = prepare_x(block);
    const Operand w = prepare_weights(block, row_tiles > 1);
    int64_t row_tile = 0;
    for (; row_tile + 1 < row_tiles; row_tile += 2) {
      const int64_t second = rows_of_tile(row_tile + 1);
      set_rows({.first = 16, .second = second});
      int64_t tile = 0;
      for (; tile + 1 < tiles; tile += 2) {
        wide_pair(block, x, w, row_tile, tile);
        if (block.last) write(row_tile, tile, 2), write(row_tile + 1, tile, 2);
      }
      if (tile == tiles) continue;
      set_rows({.first = 16, .second = 16});
      narrow_one(block, x, w, row_tile, tile);
      set_rows({.first = second, .second = second});
      narrow_one(block, x, w, row_tile + 1, tile);
      if (block.last) write(row_tile, tile, 1), write(row_tile + 1, tile, 1);
    }
    if (row_tile == row_tiles) continue;
    set_rows({.first = rows_of_tile(row_tile), .second = rows_of_tile(row_tile)});
    for (int64_t tile = 0; tile < tiles; tile += 2) {
      const int64_t some = smaller(2, tiles - tile);
      if (is_nvfp4() && row_tiles == 1) {
        narrow_expanding(block, x, tile, some);
      } else if (some == 2) {
        narrow_pair(block, x, w, row_tile, tile);
      } else {
        narrow_one(block, x, w, row_tile, tile);
      }
      if (block.last) write(row_tile, tile, some);
    }
  }
}

}  // namespace

void gemm(WorkerPool& pool, const Gemm& call) {
  run_gemm(pool, call, [] { return TileGemm(); });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
