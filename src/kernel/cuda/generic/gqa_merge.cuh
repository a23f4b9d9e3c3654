// How the sums of warps and of blocks of a cluster become those of grouped-query attention, in a fixed order.
#pragma once

#include <cooperative_groups.h>

#include "kernel/cuda/generic/gqa_tile.cuh"
#include "kernel/cuda/generic/gqa_worker.cuh"

namespace strobe::kernel::cuda::gqa_detail {

// Partial results, in shared memory.
template <int kDim>
struct Partials {
  static constexpr int kRows = Shape<kDim>::kRows;
  static constexpr int kStride = kDim + 4;
  float sums[kWarps][kRows][kStride];
  float highest[kWarps][kRows];
  float total[kWarps][kRows];
  float factors[kWarps][kRows];  // by which sums of warps count
  // Of the whole block; sums are in sums[0].
  float block_highest[kRows];
  float block_total[kRows];
};

template <int kDim, bool kE4m3>
__device__ void write_partials(const Worker<kDim, kE4m3>& worker, Partials<kDim>& partials, int warp) {
  using S = Shape<kDim>;
#pragma unroll
  for (int m = 0; m < S::kMTiles; ++m) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = 16 * m + 8 * i + worker.g;
      float total = worker.total[m][i];
      total += __shfl_xor_sync(~0U, total, 1);
      total += __shfl_xor_sync(~0U, total, 2);
      if (worker.t == 0) {
        partials.highest[warp][row] = worker.highest[m][i];
        partials.total[warp][row] = total;
      }
#pragma unroll
      for (int n = 0; n < S::kNTiles; n += 4) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const auto& sums = worker.sums[m];
          *reinterpret_cast<float4*>(&partials.sums[warp][row][n / 8 * 64 + 16 * worker.t + 8 * c + n % 8]) = {
              sums[n][2 * i + c], sums[n + 1][2 * i + c], sums[n + 2][2 * i + c], sums[n + 3][2 * i + c]};
        }
      }
    }
  }
}

// The warps' results become the block's, in sums[0].
template <int kDim>
__device__ void merge_block(Partials<kDim>& partials) {
  constexpr int kRows = Partials<kDim>::kRows;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kRows) {
    float most = kNothing;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) most = fmaxf(most, partials.highest[w][thread]);
    float total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float own = partials.highest[w][thread];
      const float factor = own == kNothing ? 0.0F : exp2_approximate(own - most);
      partials.factors[w][thread] = factor;
      total += partials.total[w][thread] * factor;
    }
    partials.block_highest[thread] = most;
    partials.block_total[thread] = total;
  }
  __syncthreads();
#pragma unroll 2
  for (int i = 4 * thread; i < kRows * kDim; i += 4 * 32 * kWarps) {
    const int row = i / kDim;
    float4 sum = {0, 0, 0, 0};
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float factor = partials.factors[w][row];
      const float4 own = *reinterpret_cast<const float4*>(&partials.sums[w][row][i % kDim]);
      sum = {fmaf(own.x, factor, sum.x), fmaf(own.y, factor, sum.y), fmaf(own.z, factor, sum.z),
             fmaf(own.w, factor, sum.w)};
    }
    *reinterpret_cast<float4*>(&partials.sums[0][row][i % kDim]) = sum;
  }
}

// This block's part of the cluster's numbers, from the results of all its blocks.
template <int kDim>
__device__ void finish_part(const GqaAttention& call, Partials<kDim>& partials, const AttentionRequest& request,
                            const Tile& tile, int count, int first_visible, float scale) {
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const int heads = static_cast<int>(call.heads / call.kv_heads);
  const int group = static_cast<int>(blockIdx.y);
  const Partials<kDim>* blocks[kCluster];
#pragma unroll
  for (int r = 0; r < kCluster; ++r) blocks[r] = cluster.map_shared_rank(&partials, r);
  constexpr int kPart = Partials<kDim>::kRows * kDim / kCluster;
  const int begin = static_cast<int>(cluster.block_rank()) * kPart;
  for (int i = begin + 2 * static_cast<int>(threadIdx.x); i < begin + kPart; i += 2 * 32 * kWarps) {
    const int row = i / kDim;
    const int column = i % kDim;
    if (row >= count) break;
    float own[kCluster];
    float totals[kCluster];
    float2 sums[kCluster];
#pragma unroll
    for (int r = 0; r < kCluster; ++r) {
      own[r] = blocks[r]->block_highest[row];
      totals[r] = blocks[r]->block_total[row];
      sums[r] = *reinterpret_cast<const float2*>(&blocks[r]->sums[0][row][column]);
    }
    float most = kNothing;
#pragma unroll
    for (int r = 0; r < kCluster; ++r) most = fmaxf(most, own[r]);
    float2 sum = {0, 0};
    float total = 0;
#pragma unroll
    for (int r = 0; r < kCluster; ++r) {
      const float factor = own[r] == kNothing ? 0.0F : exp2_approximate(own[r] - most);
      sum = {fmaf(sums[r].x, factor, sum.x), fmaf(sums[r].y, factor, sum.y)};
      total = fmaf(totals[r], factor, total);
    }
    const int folded = tile.first + row;
    const Visible seen = visible_to(request, folded / heads, first_visible, call.causal, call.window);
    const bool nothing = seen.first >= seen.last;
    const int64_t to = int64_t{group * heads + folded % heads} * kDim + column;
    put(call.out, request.row_begin + folded / heads, to, nothing ? 0.0F : sum.x / total * scale);
    put(call.out, request.row_begin + folded / heads, to + 1, nothing ? 0.0F : sum.y / total * scale);
  }
}

}  // namespace strobe::kernel::cuda::gqa_detail
