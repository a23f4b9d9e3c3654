// A cluster of four blocks of threads has 16 folded rows of one request, folded row f being head f % G of row f / G of
// the G heads that share keys. Position block b, 32 positions counted from position 0, belongs to block b % 4 of the
// cluster and there to warp b / 4 % 4. Warps merge in ascending order, then blocks.
//
// Keys and values go from memory straight into the registers where they are operands. A warp multiplies
//   scores [16 rows, 8 positions] += q [16, 16 numbers] k^T: a lane has 8 neighbouring numbers of a row or key
//   sums [16 rows, 8 numbers]    += p [16, 16 positions] v: number i of every 8 is column i of the product's
//                                   operand, so that a lane has 8 neighbouring numbers of four values
//
// A row's bytes depend on no other row of its tile: what a row does not see adds exact zeros to it, and values that are
// not finite and seen by a part of the rows only are multiplied row by row.
#include <cooperative_groups.h>

#include <algorithm>

#include "kernel/cuda/generic/gqa.cuh"
#include "kernel/cuda/generic/gqa_merge.cuh"
#include "kernel/cuda/generic/gqa_worker.cuh"
#include "kernel/cuda/generic/launch.cuh"

namespace strobe::kernel::cuda {
namespace {

using namespace gqa_detail;

template <int kDim, bool kE4m3>
__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(32 * kWarps, kDim == 64 ? 3 : 2)
    gqa_kernel(const __grid_constant__ GqaAttention call, bool q_aligned) {
  using S = Shape<kDim>;
  using P = Partials<kDim>;
  __shared__ __align__(16) P partials;
  wait_for_launch_ahead();
  let_next_launch_begin();
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const int rank = static_cast<int>(cluster.block_rank());
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int group = static_cast<int>(blockIdx.y);
  const int heads = static_cast<int>(call.heads / call.kv_heads);
  const Tile tile = find_tile(call.requests, static_cast<int>(call.request_count), heads, S::kRows,
                              static_cast<int>(blockIdx.x) / kCluster);
  if (tile.request < 0) return;  // the whole cluster
  const AttentionRequest request = call.requests[tile.request];
  const int first_visible = call.first_visible == nullptr ? 0 : call.first_visible[tile.request];
  const int count = min(S::kRows, request.row_count * heads - tile.first);
  const int first_row = tile.first / heads;
  const int last_row = (tile.first + count - 1) / heads;
  const Visible of_first = visible_to(request, first_row, first_visible, call.causal, call.window);
  const Visible of_last = visible_to(request, last_row, first_visible, call.causal, call.window);
  const Visible any{.first = of_first.first, .last = of_last.last};
  const Visible all{.first = of_last.first, .last = of_first.last};

  Worker<kDim, kE4m3> worker{.call = call, .g = thread % 32 / 4, .t = thread % 4, .group = group, .heads = heads};
  worker.scale = call.scale * (kE4m3 ? call.k.scale : 1.0F) * kLog2E;
  worker.begin(request, tile, first_visible, q_aligned);
  constexpr int kSplits = kCluster * kWarps;
  const int split = rank + kCluster * warp;
  for (int block = any.first / kBlock / kSplits * kSplits + split; block * kBlock < any.last; block += kSplits) {
    const int base = block * kBlock;
    if (base + kBlock <= any.first) continue;
    const int mine = base + thread % 32;
    const bool stored = mine >= any.first && mine < any.last;
    const int slot = stored ? static_cast<int>(slot_of(request.pages, call.k.page_size, mine)) : -1;
    float scores[S::kMTiles][kBlock / 8][4];
    worker.score(scores, base, slot);
    if constexpr (!S::kValuesEarly) worker.load_values(slot);
    worker.weigh(scores);
    uint32_t weights[S::kMTiles][kBlock / 16][4];
#pragma unroll
    for (int m = 0; m < S::kMTiles; ++m) {
#pragma unroll
      for (int s = 0; s < kBlock / 16; ++s) {
        weights[m][s][0] = float_bf16x2(scores[m][2 * s][0], scores[m][2 * s][1]);
        weights[m][s][1] = float_bf16x2(scores[m][2 * s][2], scores[m][2 * s][3]);
        weights[m][s][2] = float_bf16x2(scores[m][2 * s + 1][0], scores[m][2 * s + 1][1]);
        weights[m][s][3] = float_bf16x2(scores[m][2 * s + 1][2], scores[m][2 * s + 1][3]);
      }
    }
    const bool alike = max(base, any.first) >= all.first && min(base + kBlock, any.last) <= all.last;
    if (alike || worker.values_finite()) {
      worker.add_values(weights);
      continue;
    }
    for (int row = first_row; row <= last_row; ++row) {
      worker.add_values_of_row(weights, base, row, visible_to(request, row, first_visible, call.causal, call.window));
    }
  }

  write_partials(worker, partials, warp);
  __syncthreads();
  merge_block(partials);
  cluster.sync();
  finish_part(call, partials, request, tile, count, first_visible, kE4m3 ? call.v.scale : 1.0F);
  cluster.sync();  // others may still read from here
}

template <int kDim, bool kE4m3>
void launch_gqa(const GqaAttention& call, cudaStream_t stream) {
  const int64_t heads = call.heads / call.kv_heads;
  // A request's last tile may be partly empty.
  const int64_t tiles = call.rows * heads / Shape<kDim>::kRows + std::min(call.request_count, call.rows);
  const dim3 grid(static_cast<unsigned>(tiles * kCluster), static_cast<unsigned>(call.kv_heads));
  launch("gqa_attention", gqa_kernel<kDim, kE4m3>, grid, 32 * kWarps, 0, stream, call, vectors_of_8(call.q));
}

bool fits(const PagedStore& store) {
  const int numbers = store.dtype == DType::kE4m3 ? 16 : 8;
  return store.dtype != DType::kF32 && vectors_of(numbers, store.data, store.dtype, store.dim);
}

}  // namespace

bool gqa_applies(const GqaAttention& call) {
  return value_dim_of(call) == call.head_dim && (call.head_dim == 64 || call.head_dim == 128) && call.k.dtype == call.v.dtype &&
         call.k.page_size == call.v.page_size && fits(call.k) && fits(call.v);
}

void gqa(const GqaAttention& call, cudaStream_t stream) {
  const bool e4m3 = call.k.dtype == DType::kE4m3;
  if (call.head_dim == 64) {
    e4m3 ? launch_gqa<64, true>(call, stream) : launch_gqa<64, false>(call, stream);
  } else {
    e4m3 ? launch_gqa<128, true>(call, stream) : launch_gqa<128, false>(call, stream);
  }
}

}  // namespace strobe::kernel::cuda
