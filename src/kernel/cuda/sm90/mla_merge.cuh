// MLA decode: the partial results of a row are merged in the order of positions.
#pragma once

#include "kernel/cuda/sm90/mla_fold.cuh"
#include "kernel/cuda/sm90/mla_query.cuh"

namespace strobe::kernel::cuda::sm90::mla {

// What a warp needs of one chunk of one row block: 8 numbers a thread, of the groups or of all their splits.
template <int kGroups, int kEach>
struct ChunkParts {
  float2 share[kGroups][kEach];
  uint4 part[kGroups][kEach];
};

__device__ inline int chunk_row(int chunk, const Place& place) {
  return chunk / 2 * 8 + place.column + chunk % 2;
}

// No branches: all loads are under way together.
template <int kGroups, int kEach>
__device__ inline void load_parts(ChunkParts<kGroups, kEach>& parts, const Params& p, int block, unsigned written,
                                  int chunk, const Place& place) {
  const int64_t slot = int64_t{block} * kMaxSplits;
  const float2* shares = reinterpret_cast<const float2*>(p.shares) + slot * kRowBlock + chunk_row(chunk, place);
  const uint4* partials = p.partials + (slot * kChunks + chunk) * kMathThreads + place.warpgroup * 128 + place.thread;
#pragma unroll
  for (int i = 0; i < kGroups * kEach; ++i) {
    const int split = i / kEach * kGroup + i % kEach;
    const int from = written >> split & 1 ? split : 0;
    parts.share[i / kEach][i % kEach] = __ldcg(shares + from * kRowBlock);
    parts.part[i / kEach][i % kEach] = __ldcg(partials + from * kChunks * kMathThreads);
  }
}

template <int kGroups, int kEach>
__device__ inline void merge_parts(ChunkParts<kGroups, kEach>& parts, const Params& p, const BlockInfo& info,
                                   unsigned written, int chunk, const Place& place) {
  const int row = chunk_row(chunk, place);
  const int folded = min(info.rows.begin + row, info.rows.end - 1);
  const int token = p.heads.quotient(folded);
  const int splits = split_count(info.first_position + token);
  float largest = kMinusInfinity;
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    Share so_far{parts.share[group][0].x, parts.share[group][0].y};
    uint4& numbers = parts.part[group][0];
#pragma unroll
    for (int i = 1; i < kEach; ++i) {
      if (written >> (group * kGroup + i) & 1) {
        const FoldWeights weights = fold_shares(so_far, {parts.share[group][i].x, parts.share[group][i].y});
        numbers = fold_numbers(weights, numbers, parts.part[group][i]);
      }
    }
    parts.share[group][0] = make_float2(so_far.reference, so_far.sum);
    if (group * kGroup < splits) largest = fmaxf(largest, so_far.reference);
  }
  float total = 0;
  float sums[8] = {};
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const float2& share = parts.share[group][0];
    const float weight = __fmul_rn(exp2_fast(share.x - largest), share.y);
    const uint4& numbers = parts.part[group][0];
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
  const int64_t to = int64_t{info.row_begin + token} * p.call.out.stride +
                     (folded - token * p.heads.value) * int64_t{kLatent} + place.warpgroup * kHalf + place.warp * 16 +
                     place.lane / 4 * 2;
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

// A warp's part of kChunksAtOnce chunks of one row block. `written`: a bit for each partial result that there is, all
// within the first kGroups groups. kFolded: those of whole groups alone.
template <int kGroups, bool kFolded, int kChunksAtOnce>
__device__ void merge_chunks(const Params& p, int block, unsigned written, int first_chunk, const Place& place) {
  ChunkParts<kGroups, kFolded ? 1 : kGroup> parts[kChunksAtOnce];
#pragma unroll
  for (int i = 0; i < kChunksAtOnce; ++i) load_parts(parts[i], p, block, written, first_chunk + i, place);
  const int4 words = __ldcg(reinterpret_cast<const int4*>(p.infos + block));
  const BlockInfo info = {words.x, words.y, {words.z, words.w}};
#pragma unroll
  for (int i = 0; i < kChunksAtOnce; ++i) merge_parts(parts[i], p, info, written, first_chunk + i, place);
}

__device__ inline unsigned load_acquire(const unsigned* from) {
  unsigned value = 0;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

// What is to be said of a list's item when its partial results are written: one lane an item.
struct Signal {
  int block = 0;
  unsigned count = 0;
};
__device__ inline Signal signal_of_item(const List& list, int lane) {
  if (lane >= list.count) return {};
  return {list.items[lane].block, list.items[lane].signal};
}

// Warps' parts of chunks are dealt to all math warps, several together if there are many. Whoever has some waits for
// the splits of their row block: all blocks of the grid run at the same time and none waits before its own items are
// done.
__device__ void merge(const Params& p, const Shared& s, const Place& place) {
  constexpr int kGroups = kMaxSplits / kGroup;
  constexpr int kMany = 4;
  const unsigned* ready = p.ready + s.turn * p.block_capacity;
  const int all_chunks = s.list.total_blocks * kChunks;
  const int at_once = all_chunks > 2 * static_cast<int>(gridDim.x) ? kMany : 1;
  for (int i = at_once * static_cast<int>(blockIdx.x); i < all_chunks; i += at_once * static_cast<int>(gridDim.x)) {
    const int block = i / kChunks;
    unsigned seen = 0;
    while (((seen = load_acquire(ready + block)) & 0xffff) != kMaxSplits) {
    }
    const unsigned written = seen >> 16;
    constexpr unsigned kFirstOfGroups = 0xffff / ((1U << kGroup) - 1);  // every kGroup-th bit
    const bool folded = (written & ~kFirstOfGroups) == 0;
    if (folded && at_once == kMany) {
      merge_chunks<kGroups, true, kMany>(p, block, written, i % kChunks, place);
      continue;
    }
    for (int chunk = i % kChunks; chunk < i % kChunks + at_once; ++chunk) {
      if (written < 1U << (kMaxSplits / 2)) {
        merge_chunks<kGroups / 2, false, 1>(p, block, written, chunk, place);
      } else {
        merge_chunks<kGroups, false, 1>(p, block, written, chunk, place);
      }
    }
  }
}

}  // namespace strobe::kernel::cuda::sm90::mla
