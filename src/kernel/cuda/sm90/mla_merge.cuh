// MLA decode: the partial results of a row are merged in the order of positions.
#pragma once

#include "kernel/cuda/sm90/mla_math.cuh"

namespace strobe::kernel::cuda::sm90::mla {

// A warp's part of one chunk of one row block: 8 numbers a thread. `block_splits`: of the row that has most, at most
// kMost.
template <int kMost>
__device__ void merge_chunk(const Params& p, int block, int block_splits, int chunk, const Place& place) {
  const int row = chunk / 2 * 8 + place.column + chunk % 2;
  const int64_t slot = int64_t{block} * kMaxSplits;
  const float2* shares = reinterpret_cast<const float2*>(p.shares) + slot * kRowBlock + row;
  const uint4* partials = p.partials + (slot * kChunks + chunk) * kMathThreads + place.warpgroup * 128 + place.thread;
  float2 share[kMost];
  uint4 part[kMost];
#pragma unroll
  for (int i = 0; i < kMost; ++i) {  // no branches: all loads are under way together
    const int from = min(i, block_splits - 1);
    share[i] = __ldcg(shares + from * kRowBlock);
    part[i] = __ldcg(partials + from * kChunks * kMathThreads);
  }
  const int4* info_words = reinterpret_cast<const int4*>(p.infos + block);
  const int4 words_of_info = __ldcg(info_words);
  const BlockInfo info = {words_of_info.x, words_of_info.y, {words_of_info.z, words_of_info.w}};
  const int heads = static_cast<int>(p.call.heads);
  const int folded = min(info.rows.begin + row, info.rows.end - 1);
  const int splits = split_count(info.first_position + folded / heads);
  float largest = kMinusInfinity;
#pragma unroll
  for (int i = 0; i < kMost; ++i) largest = i < splits ? fmaxf(largest, share[i].x) : largest;
  float total = 0;
  float sums[8] = {};
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    const float weight = exp2_fast(share[i].x - largest) * share[i].y;
    const uint32_t words[4] = {part[i].x, part[i].y, part[i].z, part[i].w};
    if (i < splits) {
      total += weight;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 pair = __half22float2(reinterpret_cast<const __half2&>(words[j]));
        sums[2 * j] = fmaf(weight, pair.x, sums[2 * j]);
        sums[2 * j + 1] = fmaf(weight, pair.y, sums[2 * j + 1]);
      }
    }
  }
  if (info.rows.begin + row >= info.rows.end) return;
  const float factor = p.call.store.scale / total;
  const int64_t to = int64_t{info.row_begin + folded / heads} * p.call.out.stride + folded % heads * int64_t{kLatent} +
                     place.warpgroup * kHalf + place.warp * 16 + place.lane / 4 * 2;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float low = sums[2 * j] * factor;
    const float high = sums[2 * j + 1] * factor;
    if (p.call.out.dtype == DType::kF32) {
      *reinterpret_cast<float2*>(static_cast<float*>(p.call.out.data) + to + 64 * j) = make_float2(low, high);
    } else {
      *reinterpret_cast<__nv_bfloat162*>(static_cast<__nv_bfloat16*>(p.call.out.data) + to + 64 * j) =
          __floats2bfloat162_rn(low, high);
    }
  }
}

__device__ inline unsigned load_acquire(const unsigned* from) {
  unsigned value = 0;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

// Warps' parts of chunks are dealt to all math warps. Whoever has one waits for the splits of its row block: all
// blocks of the grid run at the same time and none waits before its own items are done.
__device__ void merge(const Params& p, const Shared& s, int warp, int lane) {
  const int parts = s.list.total_blocks * kChunks;  // of 8 warps each
  const unsigned* ready = p.ready + s.turn * p.block_capacity;
  const Place place{.warpgroup = warp / 4,
                    .warp = warp % 4,
                    .thread = warp % 4 * 32 + lane,
                    .lane = lane,
                    .row = warp % 4 * 16 + lane / 4,
                    .column = lane % 4 * 2};
  for (int i = static_cast<int>(blockIdx.x); i < parts; i += static_cast<int>(gridDim.x)) {
    const int block = i / kChunks;
    unsigned seen = 0;
    while (((seen = load_acquire(ready + block)) & 0xffff) != kMaxSplits) {
    }
    const int splits = static_cast<int>(seen >> 16);
    if (splits <= kMaxSplits / 2) {
      merge_chunk<kMaxSplits / 2>(p, block, splits, i % kChunks, place);
    } else {
      merge_chunk<kMaxSplits>(p, block, splits, i % kChunks, place);
    }
  }
}

}  // namespace strobe::kernel::cuda::sm90::mla
