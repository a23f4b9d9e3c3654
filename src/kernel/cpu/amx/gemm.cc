// Matrix products with the tile unit.
//
// A unit of work (gemm_driver.h: 4 output tiles x up to 256 rows) runs over blocks of 512 columns:
// - x: bf16 rows are read where they lie; gathered or f32 rows, and a number of columns that is no multiple of 32,
//   are first written as dense tiles. Neighbouring units of one problem share that copy.
// - weights: bf16 tiles are read where they lie. NVFP4 tiles are expanded to bf16 just before they are used, a step
//   ahead, in L1; where there are more than 16 rows, once for all of them.
// - up to 16 rows ("narrow"): two output tiles side by side (NVFP4: four), so that the multiplications (latency 52
//   cycles) do not wait for each other. More rows ("wide"): 2 x 2 tiles of sums, so that each tile loaded is used
//   twice.
//
// Narrow products read each weight once: out * in * 2 bytes (NVFP4 9/16 of a byte) at what memory gives (measured on a
// Xeon of the fourth generation: 25 GB/s a core from L3, 7 bytes a cycle), against 16 cycles a KiB of bf16 in the tile
// unit. Wide ones are limited by loading tiles: 4 KiB from L1 or L2 for 64 cycles of multiplication.
#include "kernel/cpu/amx/expand.h"
#include "kernel/cpu/amx/kernels.h"
#include "kernel/cpu/amx/nvfp4_narrow.h"
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
static_assert(kTilesPerUnit == 4);  // as narrow() takes them

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
  TileGemm(const Gemm& call, int worker, int workers);
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

  void narrow_pair(const Block& block, const Operand& x, const Operand& w, int64_t row_tile, int64_t tile);
  void narrow_one(const Block& block, const Operand& x, const Operand& w, int64_t row_tile, int64_t tile);
  template <int kTiles>
  void narrow_expanding(const Block& block, const Operand& x);
  void narrow(const Block& block, const Operand& x, const Operand& w, int64_t row_tile);
  void wide_pair(const Block& block, const Operand& x, const Operand& w, int64_t row_tile, int64_t tile);
  template <int kRegister>
  void load_sums(const Block& block, int64_t row_tile, int64_t tile);
  template <int kRegister>
  void store_sums(const Block& block, int64_t row_tile, int64_t tile);
  bool writes_directly(int64_t tile) const;
  void write(int64_t row_tile, int64_t tile, int64_t tiles);

  Scratch& scratch_;
  Nvfp4Expander expander_;
  GemmUnit unit_;
  const GemmProblem* problem_ = nullptr;
  float factor_ = 1;  // of the sums
  Ahead ahead_;
  TileRows rows_;
  // Which rows and columns of which problem scratch_.x holds.
  const GemmProblem* copied_problem_ = nullptr;
  int64_t copied_row_ = 0;
  int64_t copied_column_ = 0;
};

// What is asked for ahead, 192 bytes for each 288 of the call's own, must still be in the second-level cache (2 MiB)
// when it is read: so only calls of few weights ask.
TileGemm::TileGemm(const Gemm& call, int worker, int workers)
    : scratch_(*reinterpret_cast<Scratch*>(thread_scratch())), expander_(Nvfp4Expander::make()) {
  constexpr int64_t kMostOwnNumbers = 2 << 20;  // of a worker; NVFP4: 9/16 of a byte each
  int64_t numbers = 0;
  for (int64_t i = 0; i < call.count && call.upcoming_count > 0; ++i) {
    if (call.problems[i].rows > 0) numbers += call.problems[i].weight.out * call.problems[i].weight.in;
  }
  const bool asks = numbers / workers <= kMostOwnNumbers;
  ahead_.begin(call.upcoming, asks ? call.upcoming_count : 0, worker, workers);
}

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

// 32 bf16 numbers times kNvfp4XScale: 80 more in the exponent. Zeros and subnormals become 0 (the tile unit takes these
// for 0 anyway), what grows too large becomes infinite, NaN stays.
[[gnu::always_inline]] inline __m512i scale_bf16(__m512i x) {
  constexpr int16_t kInfinity = 0x7f80;
  const __m512i magnitude = _mm512_and_si512(x, _mm512_set1_epi16(0x7fff));
  const __mmask32 normal = _mm512_cmpge_epu16_mask(magnitude, _mm512_set1_epi16(0x80));
  const __mmask32 nan = _mm512_cmpgt_epu16_mask(magnitude, _mm512_set1_epi16(kInfinity));
  const __m512i grown = _mm512_add_epi16(magnitude, _mm512_set1_epi16(80 << 7));
  const __m512i bounded = _mm512_maskz_min_epu16(normal, grown, _mm512_set1_epi16(kInfinity));
  const __m512i result = _mm512_mask_mov_epi16(bounded, nan, magnitude);
  constexpr int kAOrBAndC = 0xf8;
  return _mm512_ternarylogic_epi32(result, x, _mm512_set1_epi16(static_cast<int16_t>(0x8000)), kAOrBAndC);
}

void TileGemm::copy_x_row(const Block& block, int64_t row) {
  const int64_t index = unit_.row_begin + row;
  const int64_t source = problem_->x_rows == nullptr ? index : problem_->x_rows[index];
  std::byte* to = scratch_.x[row / 16][0] + row % 16 * kTileStride;
  if (problem_->x.dtype == DType::kBf16 && block.columns % kStepColumns == 0) {
    const Bf16* from = row_of<const Bf16>(problem_->x, source) + block.begin;
    for (int64_t step = 0; step < block.steps; ++step, from += kStepColumns, to += kTileBytes) {
      const __m512i x = _mm512_loadu_si512(from);
      _mm512_store_si512(to, is_nvfp4() ? scale_bf16(x) : x);
    }
    return;
  }
  for (int64_t c = 0; c < block.steps * kStepColumns; c += kLanes) {
    const int64_t count = greater(0, smaller(kLanes, block.columns - c));
    F32x16 values = get(problem_->x, source, block.begin + c, count);
    if (is_nvfp4()) values = values * splat(kNvfp4XScale);
    store(reinterpret_cast<Bf16*>(to + c / kStepColumns * kTileBytes + c % kStepColumns * 2), values);
  }
}

Operand TileGemm::prepare_x(const Block& block) {
  const Rows& x = problem_->x;
  const bool as_it_is = x.dtype == DType::kBf16 && problem_->x_rows == nullptr && !is_nvfp4();
  if (as_it_is && block.columns % kStepColumns == 0) {
    return {.data = reinterpret_cast<const std::byte*>(row_of<const Bf16>(x, unit_.row_begin) + block.begin),
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

// One step of one tile from its packed groups: up to 32 columns, the rest zeros.
[[gnu::always_inline]] inline void expand_step(const Nvfp4Expander& expander, const std::byte* groups, int64_t columns,
                                               std::byte* to) {
  expander.expand_group(groups, to);
  if (columns > kNvfp4Group) {
    expander.expand_group(groups + kNvfp4GroupBytes, to + kTileBytes / 2);
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
      const std::byte* groups = packed_tile(tile, block.begin);
      for (int64_t step = 0; step < block.steps; ++step, groups += 2 * kNvfp4GroupBytes) {
        expand_step(expander_, groups, block.columns - step * kStepColumns, scratch_.weights[tile][step]);
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
  store_sums<0>(block, row_tile, tile);
  store_sums<1>(block, row_tile, tile + 1);
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
  store_sums<0>(block, row_tile, tile);
}

// All NVFP4 tiles of a unit with one row tile.
template <int kTiles>
void TileGemm::narrow_expanding(const Block& block, const Operand& x) {
  const Nvfp4Expander expander = expander_;
  std::byte* slots = scratch_.weights[0][0];
  const auto slot_of = [&](int64_t step) { return slots + step % 2 * kTiles * kTileBytes; };
  const std::byte* groups = packed_tile(0, block.begin);
  constexpr int64_t kStepBytes = 2 * kNvfp4GroupBytes;
  const int64_t in = problem_->weight.in;
  const int64_t tile_bytes = in / kNvfp4Group * kNvfp4GroupBytes;
  // Some steps on in the same tile; from the last steps, what begins the same tile of the next unit.
  const int64_t steps_ahead = smaller(8, divide_up(in, kStepColumns));
  const auto ahead_of = [&](int64_t step) {
    const bool ends = block.begin + (step + steps_ahead) * kStepColumns >= in;
    return steps_ahead * kStepBytes + (ends ? (kTiles - 1) * tile_bytes : 0);
  };
  const auto expand = [&](int64_t step) {
    for (int64_t tile = 0; tile < kTiles; ++tile) {
      const std::byte* from = groups + tile * tile_bytes + step * kStepBytes;
      for (int64_t line = 0; line < 5; ++line) __builtin_prefetch(from + ahead_of(step) + line * 64);
      expand_step(expander, from, block.columns - step * kStepColumns, slot_of(step) + tile * kTileBytes);
    }
  };
  load_sums<0>(block, 0, 0);
  if constexpr (kTiles > 1) load_sums<1>(block, 0, 1);
  if constexpr (kTiles > 2) load_sums<2>(block, 0, 2);
  if constexpr (kTiles > 3) load_sums<3>(block, 0, 3);
  const int64_t whole = block.columns / kStepColumns;
  expand(0);
  const std::byte* xs = x.data;
  for (int64_t s = 1; s < block.steps; ++s, xs += x.step) {
    if (s < whole) {
      ahead_.more();
      expand_and_multiply<kTiles>(expander,
                                  {.groups = groups + s * kStepBytes,
                                   .tile_bytes = tile_bytes,
                                   .ahead = ahead_of(s),
                                   .to = slot_of(s),
                                   .x = xs,
                                   .x_row = x.row,
                                   .weights = slot_of(s - 1)},
                                  ahead_);
    } else {
      multiply_expanded<kTiles>(xs, x.row, slot_of(s - 1));
      expand(s);
    }
  }
  multiply_expanded<kTiles>(xs, x.row, slot_of(block.steps - 1));
  store_sums<0>(block, 0, 0);
  if constexpr (kTiles > 1) store_sums<1>(block, 0, 1);
  if constexpr (kTiles > 2) store_sums<2>(block, 0, 2);
  if constexpr (kTiles > 3) store_sums<3>(block, 0, 3);
}

// One row tile and all output tiles of the unit.
void TileGemm::narrow(const Block& block, const Operand& x, const Operand& w, int64_t row_tile) {
  const int64_t tiles = unit_.tile_end - unit_.tile_begin;
  set_rows({.first = rows_of_tile(row_tile), .second = rows_of_tile(row_tile)});
  if (is_nvfp4() && row_tile == 0) {
    tiles == 4   ? narrow_expanding<4>(block, x)
    : tiles == 3 ? narrow_expanding<3>(block, x)
    : tiles == 2 ? narrow_expanding<2>(block, x)
                 : narrow_expanding<1>(block, x);
  } else {
    int64_t tile = 0;
    for (; tile + 1 < tiles; tile += 2) narrow_pair(block, x, w, row_tile, tile);
    if (tile < tiles) narrow_one(block, x, w, row_tile, tile);
  }
  for (int64_t tile = 0; block.last && tile < tiles; tile += 2) write(row_tile, tile, smaller(2, tiles - tile));
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
  store_sums<0>(block, row_tile, tile);
  store_sums<1>(block, row_tile, tile + 1);
  store_sums<2>(block, row_tile + 1, tile);
  store_sums<3>(block, row_tile + 1, tile + 1);
}

// Whether the tile unit may store sums where they belong: nothing remains to be done to them.
bool TileGemm::writes_directly(int64_t tile) const {
  const GemmProblem& p = *problem_;
  return p.y.dtype == DType::kF32 && !p.accumulate && factor_ == 1.0F &&
         (unit_.tile_begin + tile + 1) * kTileRows <= p.weight.out;
}

template <int kRegister>
[[gnu::always_inline]] inline void TileGemm::store_sums(const Block& block, int64_t row_tile, int64_t tile) {
  if (block.last && writes_directly(tile)) {
    const int64_t row = unit_.row_begin + row_tile * 16;
    const float* y = row_of<const float>(problem_->y, row) + (unit_.tile_begin + tile) * kTileRows;
    tile_store<kRegister>(const_cast<float*>(y), problem_->y.stride * 4);
  } else {
    tile_store<kRegister>(scratch_.sums[row_tile][tile][0], kTileStride);
  }
}

// The rows of a whole tile; T is the type of y.
template <bool kAccumulate, class T>
[[gnu::always_inline]] inline void write_rows(const float (&sums)[16][16], int64_t rows, float factor, T* y,
                                              int64_t stride) {
  for (int64_t r = 0; r < rows; ++r, y += stride) {
    F32x16 value = load(sums[r]) * splat(factor);
    if constexpr (kAccumulate) value = load(y) + value;
    store(y, value);
  }
}

// The same of two tiles side by side, as bf16.
inline void write_row_pairs(const float (&first)[16][16], const float (&second)[16][16], int64_t rows, float factor,
                            Bf16* y, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r, y += stride) {
    store_pair(y, load(first[r]) * splat(factor), load(second[r]) * splat(factor));
  }
}

void TileGemm::write(int64_t row_tile, int64_t tile, int64_t tiles) {
  const GemmProblem& p = *problem_;
  const int64_t row = unit_.row_begin + row_tile * 16;
  const int64_t rows = rows_of_tile(row_tile);
  const int64_t first_column = (unit_.tile_begin + tile) * kTileRows;
  if (tiles == 2 && p.y.dtype == DType::kBf16 && first_column + 2 * kTileRows <= p.weight.out) {
    const auto& sums = scratch_.sums[row_tile];
    Bf16* y = row_of<Bf16>(p.y, row) + first_column;
    return write_row_pairs(sums[tile], sums[tile + 1], rows, factor_, y, p.y.stride);
  }
  for (int64_t t = tile; t < tile + tiles; ++t) {
    const int64_t column = (unit_.tile_begin + t) * kTileRows;
    const auto& sums = scratch_.sums[row_tile][t];
    if (writes_directly(t)) continue;
    if (column + kTileRows > p.weight.out) {
      for (int64_t r = 0; r < rows; ++r) write_sum(p, factor_, row + r, unit_.tile_begin + t, load(sums[r]));
    } else if (p.y.dtype == DType::kBf16) {
      write_rows<false>(sums, rows, factor_, row_of<Bf16>(p.y, row) + column, p.y.stride);
    } else if (p.accumulate) {
      write_rows<true>(sums, rows, factor_, row_of<float>(p.y, row) + column, p.y.stride);
    } else {
      write_rows<false>(sums, rows, factor_, row_of<float>(p.y, row) + column, p.y.stride);
    }
  }
}

void TileGemm::operator()(const GemmUnit& unit) {
  unit_ = unit;
  problem_ = unit.problem;
  factor_ = problem_->weight.global_scale * (is_nvfp4() ? kNvfp4SumScale : 1.0F);
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
    if (row_tile < row_tiles) narrow(block, x, w, row_tile);
  }
}

}  // namespace

void gemm(WorkerPool& pool, const Gemm& call) {
  const int workers = workers_of(pool);
  run_gemm(pool, call, [&](int worker) { return TileGemm(call, worker, workers); });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
