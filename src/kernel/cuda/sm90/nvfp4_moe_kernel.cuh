// The mixture-of-experts kernel of nvfp4_moe.h: both matrix products of all experts in one persistent launch.
//
// A tile is 32 kHalves rows of one expert's matrix times a group of its tokens, over all columns. Blocks take tiles by
// ticket: all of gate_up, then all of down, so that the reading of weights never pauses between the two. Whoever waits
// for an intermediate waits for tiles with smaller tickets, which are running: no deadlock, however few blocks run.
//
//   producer, 1 warp        takes tickets; bulk copies of weights and token rows into a ring of stages
//   consumers, 4 per half   warp (half, k) multiplies blocks k, k + 4, ... of 64 columns; then its sums go to `sums`
//   epilogue, 2 groups      every other tile each: adds the four sums in order; SwiGLU and h; or the partial result,
//   and
//                           if that was the token's last expert for these columns, the sum over its experts
#pragma once

#include "kernel/cuda/sm90/nvfp4_layout.h"
#include "kernel/cuda/sm90/nvfp4_moe_params.h"
#include "kernel/cuda/sm90/nvfp4_moe_ptx.cuh"

namespace strobe::kernel::cuda {

template <int kHalves_, int kRowBlocks_, int kStageBlocks_, int kStages_>
struct MoeConfig {
  static constexpr int kHalves = kHalves_;            // of 32 weight rows
  static constexpr int kRowBlocks = kRowBlocks_;      // of 8 tokens
  static constexpr int kStageBlocks = kStageBlocks_;  // of 64 columns
  static constexpr int kStages = kStages_;

  static constexpr int kChains = 4;
  static_assert(kStageBlocks % kChains == 0, "a chain's blocks must not depend on the stage");
  static constexpr int kRows = 32 * kHalves;
  static constexpr int kTokens = 8 * kRowBlocks;
  static constexpr int kConsumerWarps = kChains * kHalves;
  static constexpr int kEpilogueThreads = kRows;  // per group
  static constexpr int kThreads = 32 * (kConsumerWarps + 1) + 2 * kEpilogueThreads;

  static constexpr int kPartBytes = kStageBlocks * kNvfp4BlockBytes;  // 64 weight rows
  static constexpr int kParts = kHalves / 2;
  static constexpr int kTokenStride = kStageBlocks * 128 + 16;  // bytes; the 16 keep lanes on different banks
  static constexpr int kStageBytes = kParts * kPartBytes + kTokens * kTokenStride;
  static constexpr int kSumsBytes = kChains * kRowBlocks * kRows * 8 * 4;
  static constexpr int kRing = 16;  // tiles between the producer and the epilogue: kStages and three
  static_assert(kStages + 3 <= kRing);
  static constexpr int kSharedBytes = kStages * kStageBytes + 2 * kSumsBytes;
};

struct MoeTile {
  int phase;  // 0 gate_up, 1 down, -1 no more
  int expert;
  int begin;
  int count;
  int index;  // of kRows rows
  int group;
};

template <class C>
struct MoeShared {
  uint64_t full[C::kStages];
  uint64_t empty[C::kStages];
  uint64_t sums_full[2];
  uint64_t sums_empty[2];
  MoeTile ring[C::kRing];
  int last[2][C::kTokens];
};

// A position in the ring of stages.
template <class C>
struct MoeStage {
  int index = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    if (++index == C::kStages) {
      index = 0;
      parity ^= 1U;
    }
  }
};

template <class C>
__device__ void moe_produce(const MoeParams& p, MoeShared<C>& shared, uint8_t* stages) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint64_t read_once = evict_first_policy();
  const uint64_t read_again = evict_normal_policy();
  const int gate_up_tiles = p.work.control->groups * p.phase[0].tiles;
  const int all_tiles = gate_up_tiles + p.work.control->groups * p.phase[1].tiles;
  int next = lane == 0 ? atomicAdd(&p.work.control->ticket, 1) : 0;
  MoeStage<C> stage;
  int sequence = 0;
  for (;; ++sequence) {
    const int number = __shfl_sync(~0U, next, 0);
    if (number >= all_tiles) break;
    if (lane == 0) next = atomicAdd(&p.work.control->ticket, 1);
    const int phase = number >= gate_up_tiles ? 1 : 0;
    const MoePhase& m = p.phase[phase];
    // The groups of one expert take turns at each of its tiles: all but the first find the weights in L2.
    const int in_phase = number - (phase == 1 ? gate_up_tiles : 0);
    MoeGroup group = p.work.groups[in_phase / m.tiles];
    const int in_expert = in_phase - group.first * m.tiles;
    const int tile = in_expert / group.groups;
    const int group_index = group.first + in_expert % group.groups;
    if (group.groups > 1) group = p.work.groups[group_index];
    const uint64_t policy = group.groups > 1 ? read_again : read_once;
    const uint16_t* row = nullptr;
    if (lane < group.count) {
      const int source = phase == 0 ? p.work.pairs[group.begin + lane] / p.top_k : group.begin + lane;
      row = m.x + source * m.x_stride;
    }
    const uint8_t* weights = m.weights + group.expert * m.expert_bytes + tile * C::kParts * m.tile_bytes;
    if (lane == 0) {
      shared.ring[sequence % C::kRing] = {phase, group.expert, group.begin, group.count, tile, group_index};
    }
    bool x_ready = phase == 0;
    for (int block = 0; block < m.k_blocks; block += C::kStageBlocks, stage.advance()) {
      const int blocks = min(C::kStageBlocks, m.k_blocks - block);
      uint8_t* to = stages + stage.index * C::kStageBytes;
      uint64_t* full = &shared.full[stage.index];
      mbarrier_wait(&shared.empty[stage.index], stage.parity ^ 1U);
      if (lane == 0) {
        mbarrier_arrive_expect_bytes(full, blocks * (C::kParts * kNvfp4BlockBytes + group.count * 128));
        for (int part = 0; part < C::kParts; ++part) {
          bulk_load_with_policy(to + part * C::kPartBytes, weights + part * m.tile_bytes + block * kNvfp4BlockBytes,
                                blocks * kNvfp4BlockBytes, full, policy);
        }
      }
      if (!x_ready) {
        while (load_acquire(&p.work.gate_up_done[group_index]) < p.phase[0].tiles) __nanosleep(64);
        fence_async_proxy_all();
        x_ready = true;
      }
      __syncwarp();
      if (lane < group.count) {
        bulk_load(to + C::kParts * C::kPartBytes + lane * C::kTokenStride, row + block * kNvfp4BlockColumns,
                  blocks * 128, full);
      }
    }
  }
  mbarrier_wait(&shared.empty[stage.index], stage.parity ^ 1U);
  if (lane == 0) {
    shared.ring[sequence % C::kRing].phase = -1;
    shared.ring[(sequence + 1) % C::kRing].phase = -1;
    mbarrier_arrive(&shared.full[stage.index]);
  }
}

// Eight codes to four pairs of bf16, times the row's scale: nvfp4_layout.h has the bits.
__device__ inline void nvfp4_expand(uint32_t word, uint32_t scale, uint32_t (&pairs)[4]) {
  constexpr uint32_t kMask = 0x81c081c0;
  pairs[0] = word << 6 & kMask;
  pairs[1] = word << 2 & kMask;
  pairs[2] = __funnelshift_r(word, word, 4) & kMask;
  pairs[3] = (word & 0x81808180) | (word >> 8 & 0x00400040);
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = multiply_bf16x2(pairs[i], scale);
}

// Scale number `index` of four: 2^(exponent + 97) (1 + mantissa / 8), twice.
template <int kIndex>
__device__ inline uint32_t nvfp4_scale(uint32_t scales) {
  return __byte_perm(scales, 0, 0x4040 | kIndex * 0x0101) * 16 + 0x70007000;
}

// 16 rows x 64 columns of weights times kBlocks x 8 tokens.
template <int kBlocks>
__device__ inline void multiply_fragment(const uint4 codes, uint32_t low_scale, uint32_t high_scale,
                                         const uint4 (&x)[kBlocks][2], float (&sums)[kBlocks][4]) {
  uint32_t low[2][4];   // row g
  uint32_t high[2][4];  // row g + 8
  nvfp4_expand(codes.x, low_scale, low[0]);
  nvfp4_expand(codes.z, high_scale, high[0]);
  nvfp4_expand(codes.y, low_scale, low[1]);
  nvfp4_expand(codes.w, high_scale, high[1]);
#pragma unroll
  for (int word = 0; word < 2; ++word) {
    const uint32_t first[4] = {low[word][0], high[word][0], low[word][1], high[word][1]};
    const uint32_t second[4] = {low[word][2], high[word][2], low[word][3], high[word][3]};
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) mma_m16n8k16(sums[b], first, x[b][word].x, x[b][word].y);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) mma_m16n8k16(sums[b], second, x[b][word].z, x[b][word].w);
  }
}

// One tile of one consumer warp, kBlocks x 8 tokens of it.
template <class C, int kBlocks>
__device__ void multiply_tile(MoeShared<C>& shared, const uint8_t* stages, float* all_sums, int k_blocks, int sequence,
                              MoeStage<C>& stage) {
  const int half = static_cast<int>(threadIdx.x) / 32 % C::kHalves;
  const int chain = static_cast<int>(threadIdx.x) / 32 / C::kHalves;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint8_t* my_codes = stages + half / 2 * C::kPartBytes + half % 2 * (kNvfp4BlockCodeBytes / 2) + lane * 16;
  const uint8_t* my_scales = stages + half / 2 * C::kPartBytes + kNvfp4BlockCodeBytes + half % 2 * 128 + lane * 4;
  const uint8_t* my_x = stages + C::kParts * C::kPartBytes + lane / 4 * C::kTokenStride + lane % 4 * 32;
  float sums[2][kBlocks][4] = {};
  for (int block = 0; block < k_blocks; block += C::kStageBlocks, stage.advance()) {
    mbarrier_wait(&shared.full[stage.index], stage.parity);
    const int offset = stage.index * C::kStageBytes;
#pragma unroll
    for (int i = 0; i < C::kStageBlocks / C::kChains; ++i) {
      const int mine = chain + i * C::kChains;
      if (block + mine >= k_blocks) break;
      const uint8_t* codes = my_codes + offset + mine * kNvfp4BlockBytes;
      const uint4 upper = *reinterpret_cast<const uint4*>(codes);
      const uint4 lower = *reinterpret_cast<const uint4*>(codes + 512);
      const uint32_t scales = *reinterpret_cast<const uint32_t*>(my_scales + offset + mine * kNvfp4BlockBytes);
      uint4 x[kBlocks][2];
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        const uint8_t* from = my_x + offset + b * 8 * C::kTokenStride + mine * 128;
        x[b][0] = *reinterpret_cast<const uint4*>(from);
        x[b][1] = *reinterpret_cast<const uint4*>(from + 16);
      }
      multiply_fragment<kBlocks>(upper, nvfp4_scale<0>(scales), nvfp4_scale<1>(scales), x, sums[0]);
      multiply_fragment<kBlocks>(lower, nvfp4_scale<2>(scales), nvfp4_scale<3>(scales), x, sums[1]);
    }
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&shared.empty[stage.index]);
  }
  const int buffer = sequence % 2;
  mbarrier_wait(&shared.sums_empty[buffer], (sequence / 2 % 2) ^ 1);
  float* sums_to = all_sums + buffer * (C::kSumsBytes / 4);
#pragma unroll
  for (int f = 0; f < 2; ++f) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      float* to = sums_to + ((chain * C::kRowBlocks + b) * C::kRows + half * 32 + f * 16 + lane / 4) * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(to) = {sums[f][b][0], sums[f][b][1]};
      *reinterpret_cast<float2*>(to + 64) = {sums[f][b][2], sums[f][b][3]};
    }
  }
}

template <class C>
__device__ void moe_consume(const MoeParams& p, MoeShared<C>& shared, const uint8_t* stages, float* sums) {
  MoeStage<C> stage;
  for (int sequence = 0;; ++sequence) {
    mbarrier_wait(&shared.full[stage.index], stage.parity);
    const MoeTile tile = shared.ring[sequence % C::kRing];
    if (tile.phase < 0) {
      // Both epilogue groups hear of the end, each after its last tile: a warp must not arrive for the end while others
      // have yet to arrive for that tile.
      for (int end = sequence; end < sequence + 2; ++end) {
        mbarrier_wait(&shared.sums_empty[end % 2], (end / 2 % 2) ^ 1);
        mbarrier_arrive(&shared.sums_full[end % 2]);
      }
      return;
    }
    const int k_blocks = p.phase[tile.phase].k_blocks;
    if constexpr (C::kRowBlocks == 1) {
      multiply_tile<C, 1>(shared, stages, sums, k_blocks, sequence, stage);
    } else {
      switch ((tile.count + 7) / 8) {
        case 1:
          multiply_tile<C, 1>(shared, stages, sums, k_blocks, sequence, stage);
          break;
        case 2:
          multiply_tile<C, 2>(shared, stages, sums, k_blocks, sequence, stage);
          break;
        case 3:
          multiply_tile<C, 3>(shared, stages, sums, k_blocks, sequence, stage);
          break;
        default:
          multiply_tile<C, 4>(shared, stages, sums, k_blocks, sequence, stage);
          break;
      }
    }
    mbarrier_arrive(&shared.sums_full[sequence % 2]);
  }
}

}  // namespace strobe::kernel::cuda
