// How a call of many matrix products is split among workers: into units of up to 4 tiles of 16 output rows x up to 256
// rows of x, numbered through all problems, and dealt out in runs. So the experts of one layer, or one large product,
// balance alike. A unit's result does not depend on who computes it.
#pragma once

#include "kernel/cpu/generic/rows.h"
#include "kernel/cpu/generic/tasks.h"
#include "kernel/cpu/pack.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

inline constexpr int64_t kTilesPerUnit = 4;
inline constexpr int64_t kRowsPerUnit = 256;

struct GemmUnit {
  const GemmProblem* problem = nullptr;
  int64_t row_begin = 0, row_end = 0;
  int64_t tile_begin = 0, tile_end = 0;
};

static inline int64_t tiles_of(const GemmProblem& p) {
  return divide_up(p.weight.out, kTileRows);
}

static inline int64_t units_of(const GemmProblem& p) {
  return divide_up(p.rows, kRowsPerUnit) * divide_up(tiles_of(p), kTilesPerUnit);
}

// Unit `index` of a problem: all tiles for the first rows, then for the next, so that neighbours share their rows of x.
static inline GemmUnit unit_at(const GemmProblem& p, int64_t index) {
  const int64_t columns = divide_up(tiles_of(p), kTilesPerUnit);
  const int64_t row = index / columns * kRowsPerUnit;
  const int64_t tile = index % columns * kTilesPerUnit;
  return {.problem = &p,
          .row_begin = row,
          .row_end = smaller(row + kRowsPerUnit, p.rows),
          .tile_begin = tile,
          .tile_end = smaller(tile + kTilesPerUnit, tiles_of(p))};
}

// Sixteen outputs of one row: their sums times `factor`.
[[gnu::always_inline]] static inline void write_sum(const GemmProblem& p, float factor, int64_t row, int64_t tile,
                                                    F32x16 sum) {
  const int64_t column = tile * kTileRows;
  const int64_t count = smaller(kTileRows, p.weight.out - column);
  F32x16 y = sum * splat(factor);
  if (p.accumulate) y = get(p.y, row, column, count) + y;
  set(p.y, row, column, count, y);
}

// The same for rows [row, row + kRows) and kTiles tiles: sums[t * kRows + r].
template <int kRows, int kTiles>
[[gnu::always_inline]] static inline void write_sums(const GemmProblem& p, float factor, int64_t row, int64_t tile,
                                                     const F32x16 (&sums)[kTiles * kRows]) {
  const bool whole = (tile + kTiles) * kTileRows <= p.weight.out;
  const int64_t column = tile * kTileRows;
  const F32x16 factors = splat(factor);
  if (whole && p.y.dtype == DType::kBf16 && !p.accumulate) {
    auto* y = row_of<Bf16>(p.y, row) + column;
    for (int i = 0; i < kTiles * kRows; ++i) {
      store(y + i % kRows * p.y.stride + i / kRows * kTileRows, sums[i] * factors);
    }
  } else if (whole && p.y.dtype == DType::kF32) {
    auto* y = row_of<float>(p.y, row) + column;
    const bool accumulate = p.accumulate;
    for (int i = 0; i < kTiles * kRows; ++i) {
      float* to = y + i % kRows * p.y.stride + i / kRows * kTileRows;
      const F32x16 value = sums[i] * factors;
      store(to, accumulate ? load(to) + value : value);
    }
  } else {
    for (int i = 0; i < kTiles * kRows; ++i) write_sum(p, factor, row + i % kRows, tile + i / kRows, sums[i]);
  }
}

// Calls compute(unit) for units [begin, end) of a call, counted through its problems, starting the search at problem
// `first`, whose first unit is number `first_unit`; both move on.
template <class Compute>
static inline void compute_units(const Gemm& call, int64_t begin, int64_t end, int64_t* first, int64_t* first_unit,
                                 Compute& compute) {
  for (int64_t unit = begin; unit < end; ++unit) {
    while (unit - *first_unit >= units_of(call.problems[*first])) *first_unit += units_of(call.problems[(*first)++]);
    compute(unit_at(call.problems[*first], unit - *first_unit));
  }
}

// make_compute(worker) gives each worker its own function object.
template <class MakeCompute>
static inline void run_gemm(WorkerPool& pool, const Gemm& call, const MakeCompute& make_compute) {
  // Below this many weight reads or multiply-adds (2 us of work) waking other workers does not pay.
  constexpr int64_t kWorthSharing = 32 * 1024;
  constexpr int64_t kMostPiecesPerWorker = 8;
  int64_t units = 0;
  int64_t work = 0;
  for (int64_t i = 0; i < call.count; ++i) {
    const GemmProblem& p = call.problems[i];
    units += units_of(p);
    work += p.rows == 0 ? 0 : p.weight.out * p.weight.in * (8 + p.rows) / 8;
  }
  const int workers = workers_of(pool);
  if (workers == 1 || units < 2 || work < kWorthSharing) {
    auto compute = make_compute(0);
    int64_t first = 0, first_unit = 0;
    compute_units(call, 0, units, &first, &first_unit, compute);
    return;
  }
  int64_t pieces = smaller(units, workers * kMostPiecesPerWorker);
  if (workers <= kMostOwnPieces / 2) pieces = smaller(pieces, kMostOwnPieces);
  on_pieces(pool, pieces, [&](int worker, const auto& each) {
    auto compute = make_compute(worker);
    int64_t first = 0, first_unit = 0;
    each([&](int64_t piece) {
      const int64_t begin = units * piece / pieces;
      if (begin < first_unit) first = first_unit = 0;
      compute_units(call, begin, units * (piece + 1) / pieces, &first, &first_unit, compute);
    });
  });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
