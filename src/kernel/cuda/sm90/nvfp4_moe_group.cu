// Groups (token, choice) pairs by expert: a counting sort whose result depends on the ids alone. One block sorts, the
// others set counters to zero.
#include "kernel/cuda/launch.h"
#include "kernel/cuda/sm90/nvfp4_moe_params.h"
#include "kernel/cuda/sm90/nvfp4_moe_ptx.cuh"

namespace strobe::kernel::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kZerosPerBlock = kThreads * 8;

// Inclusive sum over the block of two small counts at once.
__device__ uint64_t scan_block(uint64_t value, uint64_t* warp_sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int step = 1; step < 32; step *= 2) {
    const uint64_t other = __shfl_up_sync(~0U, value, step);
    if (lane >= step) value += other;
  }
  if (lane == 31) warp_sums[warp] = value;
  __syncthreads();
  uint64_t before = 0;
  for (int w = 0; w < warp; ++w) before += warp_sums[w];
  return value + before;
}

// Where the pairs of one warp's segment go. `counts` is the warp's own row; with `place`, positions begin there.
template <bool kPlace>
__device__ void walk_segment(const MoeGroupParams& p, int begin, int end, uint16_t* counts, const int* expert_begin) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = begin; i < end; i += 32) {
    const int pair = i + lane;
    const int expert = pair < end ? p.ids[pair] : -1;
    const uint32_t same = __match_any_sync(~0U, expert);
    const int rank = __popc(same & ((1U << lane) - 1U));
    if (expert >= 0) {
      const int before = counts[expert];
      if (kPlace) p.work.pairs[expert_begin[expert] + before + rank] = pair;
      __syncwarp(same);
      if (rank == 0) counts[expert] = static_cast<uint16_t>(before + __popc(same));
    }
    __syncwarp();
  }
}

__global__ void __launch_bounds__(kThreads) moe_group_kernel(const MoeGroupParams p) {
  let_next_launch_begin();
  if (blockIdx.x > 0) {
    const int begin = (static_cast<int>(blockIdx.x) - 1) * kZerosPerBlock;
    const int end = min(begin + kZerosPerBlock, p.arrivals);
    for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += kThreads) p.work.arrivals[i] = 0;
    return;
  }
  extern __shared__ uint16_t counts[];  // [kWarps][experts]
  __shared__ int expert_begin[1024];
  __shared__ uint64_t warp_sums[kWarps];
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int segment = (p.pairs + kThreads - 1) / kThreads * 32;
  const int warps = (p.pairs + segment - 1) / segment;
  for (int i = thread; i < warps * p.experts; i += kThreads) counts[i] = 0;
  __syncthreads();
  const int begin = min(warp * segment, p.pairs);
  const int end = min(begin + segment, p.pairs);
  walk_segment<false>(p, begin, end, counts + warp * p.experts, nullptr);
  __syncthreads();

  int total = 0;
  if (thread < p.experts) {
    for (int w = 0; w < warps; ++w) {
      const int count = counts[w * p.experts + thread];
      counts[w * p.experts + thread] = static_cast<uint16_t>(total);
      total += count;
    }
  }
  const int chunks = (total + p.group_rows - 1) / p.group_rows;
  const uint64_t sums = scan_block(static_cast<uint64_t>(chunks) << 32 | static_cast<uint32_t>(total), warp_sums);
  const int first_pair = static_cast<int>(sums & ~0U) - total;
  const int first_group = static_cast<int>(sums >> 32) - chunks;
  if (thread < p.experts) expert_begin[thread] = first_pair;
  for (int c = 0; c < chunks; ++c) {
    const int skipped = c * p.group_rows;
    p.work.groups[first_group + c] = {.expert = thread,
                                      .begin = first_pair + skipped,
                                      .count = min(p.group_rows, total - skipped),
                                      .first = first_group,
                                      .groups = chunks};
    p.work.gate_up_done[first_group + c] = 0;
  }
  if (thread == kThreads - 1) *p.work.control = {static_cast<int>(sums >> 32), 0};
  __syncthreads();
  walk_segment<true>(p, begin, end, counts + warp * p.experts, expert_begin);
}

}  // namespace

void launch_moe_group(const MoeGroupParams& params, cudaStream_t stream) {
  const int bytes = kWarps * params.experts * static_cast<int>(sizeof(uint16_t));
  allow_shared_memory(reinterpret_cast<const void*>(moe_group_kernel), bytes, "moe_group");
  const int blocks = 1 + (params.arrivals + kZerosPerBlock - 1) / kZerosPerBlock;
  moe_group_kernel<<<blocks, kThreads, bytes, stream>>>(params);
  check_launch("moe_group");
}

}  // namespace strobe::kernel::cuda
