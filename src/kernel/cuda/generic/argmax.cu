// The most likely token of each row: a block of threads a row, or a cluster of blocks where rows are long.
#include <cooperative_groups.h>

#include "kernel/cuda/generic.h"
#include "kernel/cuda/generic/launch.cuh"
#include "kernel/cuda/generic/numbers.cuh"
#include "kernel/cuda/generic/order.cuh"

namespace strobe::kernel::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kCluster = 8;
constexpr int64_t kLong = 16384;  // columns

// The key of a number above its place counted from behind: the largest is the largest number, at its first place.
using Candidate = unsigned long long;

__device__ Candidate candidate(float value, int64_t column) {
  return Candidate{order_key(value)} << 32 | static_cast<uint32_t>(~static_cast<uint32_t>(column));
}

__device__ Candidate larger(Candidate a, Candidate b) {
  return a > b ? a : b;
}

__device__ Candidate largest_of_warp(Candidate best) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) best = larger(best, __shfl_xor_sync(~0U, best, distance));
  return best;
}

// Of the columns that this block has, in thread 0.
__device__ Candidate largest_of_block(const float* logits, int64_t columns, int block, int blocks) {
  __shared__ Candidate of_warps[kThreads / 32];
  const int64_t step = int64_t{4} * kThreads * blocks;
  const bool aligned = reinterpret_cast<uintptr_t>(logits) % 16 == 0;
  Candidate best = 0;
#pragma unroll 4
  for (int64_t column = 4 * (int64_t{block} * kThreads + threadIdx.x); column < columns; column += step) {
    if (aligned && column + 4 <= columns) {
      const float4 v = *reinterpret_cast<const float4*>(logits + column);
      best = larger(best, larger(larger(candidate(v.x, column), candidate(v.y, column + 1)),
                                 larger(candidate(v.z, column + 2), candidate(v.w, column + 3))));
    } else {
      for (int64_t c = column; c < columns && c < column + 4; ++c) best = larger(best, candidate(logits[c], c));
    }
  }
  best = largest_of_warp(best);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = best;
  __syncthreads();
  return threadIdx.x < 32 ? largest_of_warp(of_warps[threadIdx.x]) : 0;
}

__global__ void __launch_bounds__(kThreads) argmax_kernel(Argmax call) {
  wait_for_launch_ahead();
  let_next_launch_begin();
  const Candidate best = largest_of_block(call.logits + blockIdx.x * call.stride, call.columns, 0, 1);
  if (threadIdx.x == 0) call.ids[blockIdx.x] = static_cast<int32_t>(~static_cast<uint32_t>(best));
}

__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(kThreads) argmax_long_kernel(Argmax call) {
  __shared__ Candidate of_blocks[kCluster];
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  // Nobody writes into a block that has not started.
  asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
  wait_for_launch_ahead();
  let_next_launch_begin();
  const int block = static_cast<int>(cluster.block_rank());
  const int64_t row = blockIdx.x / kCluster;
  const Candidate best = largest_of_block(call.logits + row * call.stride, call.columns, block, kCluster);
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0) cluster.map_shared_rank(of_blocks, 0)[block] = best;
  cluster.sync();
  if (block != 0 || threadIdx.x >= 32) return;
  const Candidate winner = largest_of_warp(threadIdx.x < kCluster ? of_blocks[threadIdx.x] : 0);
  if (threadIdx.x == 0) call.ids[row] = static_cast<int32_t>(~static_cast<uint32_t>(winner));
}

}  // namespace

void argmax(const Argmax& call, cudaStream_t stream) {
  if (call.rows == 0) return;
  const auto rows = static_cast<unsigned>(call.rows);
  if (call.columns > kLong) {
    launch("argmax", argmax_long_kernel, rows * kCluster, kThreads, 0, stream, call);
  } else {
    launch("argmax", argmax_kernel, rows, kThreads, 0, stream, call);
  }
}

}  // namespace strobe::kernel::cuda
