// The epilogue warps of nvfp4_moe_kernel.cuh.
#pragma once

#include "kernel/cuda/sm90/nvfp4_moe_kernel.cuh"

namespace strobe::kernel::cuda {

__device__ inline float4 add(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}
__device__ inline float4 scaled(float4 a, float factor) {
  return {a.x * factor, a.y * factor, a.z * factor, a.w * factor};
}

// Four tokens of one row: the chains' sums, added in order.
template <class C>
__device__ inline float4 add_chains(const float* sums, int row_block, int row, int token) {
  float4 total = {};
#pragma unroll
  for (int chain = 0; chain < C::kChains; ++chain) {
    const auto* from =
        reinterpret_cast<const float4*>(sums + ((chain * C::kRowBlocks + row_block) * C::kRows + row) * 8 + token);
    total = chain == 0 ? *from : add(total, *from);
  }
  return total;
}

__device__ inline uint16_t round_to_bf16_bits(float value) {
  uint16_t bits = 0;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ inline uint16_t silu_mul(float gate, float up) {
  return round_to_bf16_bits(gate / (1.0F + expf(-gate)) * up);
}

// h[token] = silu(gate) * up. A thread has one row of four tokens of every eight.
template <class C>
__device__ void finish_gate_up(const MoeParams& p, const MoeTile& tile, const float* sums, int thread, int barrier) {
  const int row = thread / 64 * 64 + thread % 32;  // of gate; up's is 32 further
  const int first_token = thread / 32 % 2 * 4;
  const float gate_factor = p.gate_scales[tile.expert] * kNvfp4SumFactor;
  const float up_factor = p.up_scales[tile.expert] * kNvfp4SumFactor;
  auto* to = p.work.h + static_cast<int64_t>(tile.begin) * p.inter + tile.index * (C::kRows / 2) + thread / 64 * 32 +
             thread % 32;
  for (int block = 0; block * 8 < tile.count; ++block) {
    const float4 gate = scaled(add_chains<C>(sums, block, row, first_token), gate_factor);
    const float4 up = scaled(add_chains<C>(sums, block, row + 32, first_token), up_factor);
    const uint16_t h[4] = {silu_mul(gate.x, up.x), silu_mul(gate.y, up.y), silu_mul(gate.z, up.z),
                           silu_mul(gate.w, up.w)};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = block * 8 + first_token + i;
      if (token < tile.count) to[static_cast<int64_t>(token) * p.inter] = h[i];
    }
  }
  fence_async_proxy_all();  // the copy engine reads h
  named_barrier_sync(barrier, C::kEpilogueThreads);
  if (thread == 0) increment_acq_rel(&p.work.gate_up_done[tile.group]);
}

// y[token, column] from the partial results of all its experts, in the order of k.
__device__ inline void combine_token(const MoeParams& p, int token, int column) {
  const float* weights = p.id_weights + static_cast<int64_t>(token) * p.top_k;
  const float* partial = p.work.partial + static_cast<int64_t>(token) * p.top_k * p.hidden + column;
  float sum = 0;
#pragma unroll 8
  for (int k = 0; k < p.top_k; ++k) {
    sum = fmaf(__ldg(weights + k), __ldcg(partial + static_cast<int64_t>(k) * p.hidden), sum);
  }
  const int64_t place = token * p.y_stride + column;
  if (p.y_f32) {
    auto* y = static_cast<float*>(p.y);
    y[place] = p.accumulate ? y[place] + sum : sum;
  } else {
    static_cast<uint16_t*>(p.y)[place] = round_to_bf16_bits(sum);
  }
}

template <class C>
__device__ void finish_down(const MoeParams& p, const MoeTile& tile, const float* sums, uint64_t* sums_empty, int* last,
                            int thread, int barrier) {
  const int* pairs = p.work.pairs + tile.begin;
  const int column = tile.index * C::kRows + thread;
  const float factor = p.down_scales[tile.expert] * kNvfp4SumFactor;
  for (int first = 0; first < tile.count; first += 4) {
    const float4 four = scaled(add_chains<C>(sums, first / 8, thread, first % 8), factor);
    const float values[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (first + i < tile.count)
        p.work.partial[static_cast<int64_t>(pairs[first + i]) * p.hidden + column] = values[i];
    }
  }
  mbarrier_arrive(sums_empty);
  named_barrier_sync(barrier, C::kEpilogueThreads);
  if (thread < tile.count) {
    const int token = pairs[thread] / p.top_k;
    const int before = increment_acq_rel(&p.work.arrivals[token * p.phase[1].tiles + tile.index]);
    last[thread] = before == p.top_k - 1 ? token : -1;
  }
  named_barrier_sync(barrier, C::kEpilogueThreads);
  for (int i = 0; i < tile.count; ++i) {
    if (last[i] >= 0) combine_token(p, last[i], column);
  }
}

template <class C>
__device__ void moe_finish(const MoeParams& p, MoeShared<C>& shared, const float* all_sums, int thread) {
  const int group = thread / C::kEpilogueThreads;
  thread %= C::kEpilogueThreads;
  const float* sums = all_sums + group * (C::kSumsBytes / 4);
  for (int sequence = group;; sequence += 2) {
    mbarrier_wait(&shared.sums_full[group], sequence / 2 % 2);
    const MoeTile tile = shared.ring[sequence % C::kRing];
    if (tile.phase < 0) return;
    if (tile.phase == 0) {
      finish_gate_up<C>(p, tile, sums, thread, 1 + group);
      mbarrier_arrive(&shared.sums_empty[group]);
    } else {
      finish_down<C>(p, tile, sums, &shared.sums_empty[group], shared.last[group], thread, 1 + group);
    }
  }
}

template <class C>
__global__ void __launch_bounds__(C::kThreads, 1) nvfp4_moe_kernel(const __grid_constant__ MoeParams p) {
  extern __shared__ __align__(128) uint8_t stages[];
  __shared__ MoeShared<C> shared;
  auto* sums = reinterpret_cast<float*>(stages + C::kStages * C::kStageBytes);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < C::kStages; ++i) {
      mbarrier_init(&shared.full[i], 1);
      mbarrier_init(&shared.empty[i], C::kConsumerWarps);
    }
    for (int i = 0; i < 2; ++i) {
      mbarrier_init(&shared.sums_full[i], 32 * C::kConsumerWarps);
      mbarrier_init(&shared.sums_empty[i], C::kEpilogueThreads);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  wait_for_launch_ahead();
  if (warp < C::kConsumerWarps) {
    moe_consume<C>(p, shared, stages, sums);
  } else if (warp == C::kConsumerWarps) {
    moe_produce<C>(p, shared, stages);
  } else {
    moe_finish<C>(p, shared, sums, static_cast<int>(threadIdx.x) - 32 * (C::kConsumerWarps + 1));
  }
}

}  // namespace strobe::kernel::cuda
