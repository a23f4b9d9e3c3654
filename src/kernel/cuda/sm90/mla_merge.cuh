// MLA decode: the partial results of a row are merged in the order of positions.
#pragma once

#include "kernel/cuda/sm90/mla_math.cuh"

namespace strobe::kernel::cuda::sm90::mla {

// A warp's part of one chunk of one row block: 8 numbers a thread. `written`: a bit for each partial result that there
// is, all within the first kGroups groups. kFolded: those of whole groups alone.
template <int kGroups, bool kFolded>
__device__ void merge_chunk(const Params& p, int block, unsigned written, int chunk, const Place& place) {
  constexpr int kEach = kFolded ? 1 : kGroup;
  const int row = chunk / 2 * 8 + place.column + chunk % 2;
  const int64_t slot = int64_t{block} * kMaxSplits;
  const float2* shares = reinterpret_cast<const float2*>(p.shares) + slot * kRowBlock + row;
  const uint4* partials = p.partials + (slot * kChunks + chunk) * kMathThreads + place.warpgroup * 128 + place.thread;
  float2 share[kGroups][kEach];
  uint4 part[kGroups][kEach];
#pragma unroll
  for (int i = 0; i < kGroups * kEach; ++i) {  // no branches: all loads are under way together
    const int split = i / kEach * kGroup + i % kEach;
    const int from = written >> split & 1 ? split : 0;
    share[i / kEach][i % kEach] = __ldcg(shares + from * kRowBlock);
    part[i / kEach][i % kEach] = __ldcg(partials + from * kChunks * kMathThreads);
  }
  const int4* info_words = reinterpret_cast<const int4*>(p.infos + block);
  const int4 words_of_info = __ldcg(info_words);
  const BlockInfo info = {words_of_info.x, words_of_info.y, {words_of_info.z, words_of_info.w}};
  const int heads = static_cast<int>(p.call.heads);
  const int folded = min(info.rows.begin + row, info.rows.end - 1);
  const int splits = split_count(info.first_position + folded / heads);
  float largest = kMinusInfinity;
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    Share so_far{share[group][0].x, share[group][0].y};
#pragma unroll
    for (int i = 1; i < kEach; ++i) {
      if (written >> (group * kGroup + i) & 1) {
        const FoldWeights weights = fold_shares(so_far, {share[group][i].x, share[group][i].y});
        part[group][0] = fold_numbers(weights, part[group][0], part[group][i]);
      }
    }
    share[group][0] = make_float2(so_far.reference, so_far.sum);
    if (group * kGroup < splits) largest = fmaxf(largest, so_far.reference);
  }
  float total = 0;
  float sums[8] = {};
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const float weight = __fmul_rn(exp2_fast(share[group][0].x - largest), share[group][0].y);
    const uint4& numbers = part[group][0];
    const uint32_t words[4] = {numbers.x, numbers.y, numbers.z, numbers.w};
    if (group * kGroup < splits) {
      total += weight;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 pair = __half22float2(as_half2(words[j]));
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
    const unsigned written = seen >> 16;
    constexpr unsigned kFirstOfGroups = 0xffff / ((1U << kGroup) - 1);  // every kGroup-th bit
    const bool few = written < 1U << (kMaxSplits / 2);
    if ((written & ~kFirstOfGroups) == 0) {
      merge_chunk<kMaxSplits / kGroup, true>(p, block, written, i % kChunks, place);
    } else if (few) {
      merge_chunk<kMaxSplits / kGroup / 2, false>(p, block, written, i % kChunks, place);
    } else {
      merge_chunk<kMaxSplits / kGroup, false>(p, block, written, i % kChunks, place);
    }
  }
}

}  // namespace strobe::kernel::cuda::sm90::mla
