// How work on grouped-query attention is cut (gqa.cu says how it runs).
#pragma once

#include "kernel/cuda/generic/attention_rows.cuh"

namespace strobe::kernel::cuda::gqa_detail {

constexpr int kWarps = 4;
constexpr int kCluster = 4;
constexpr int kBlock = 32;  // positions
constexpr float kNothing = -__builtin_huge_valf();
constexpr float kLog2E = 1.4426950408889634F;

template <int kDim>
struct Shape {
  static constexpr int kMTiles = 1;  // of 16 folded rows
  static constexpr int kRows = 16 * kMTiles;
  static constexpr int kHalves = kDim / 32;  // 32 numbers of a query or key: two products
  static constexpr int kNTiles = kDim / 8;   // of 8 numbers of a value
  // Whether there are registers for values beside keys: one wait for memory less.
  static constexpr bool kValuesEarly = kDim == 64;
};

// Rows of one request that a cluster works on.
struct Tile {
  int request = -1;
  int first = 0;  // folded row
};

// Tile number `index` of the call, counted over requests; request -1 behind the last.
__device__ inline Tile find_tile(const AttentionRequest* requests, int count, int heads, int rows_per_tile, int index) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int before = 0;
  for (int base = 0; base < count; base += 32) {
    const int rows = base + lane < count ? requests[base + lane].row_count : 0;
    const int tiles = (rows * heads + rows_per_tile - 1) / rows_per_tile;
    int end = tiles;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(~0U, end, distance);
      if (lane >= distance) end += other;
    }
    const uint32_t behind = __ballot_sync(~0U, before + end > index);
    if (behind != 0) {
      const int owner = __ffs(static_cast<int>(behind)) - 1;
      const int begin = before + __shfl_sync(~0U, end - tiles, owner);
      return {.request = base + owner, .first = (index - begin) * rows_per_tile};
    }
    before += __shfl_sync(~0U, end, 31);
  }
  return {};
}

}  // namespace strobe::kernel::cuda::gqa_detail
