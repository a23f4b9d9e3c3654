// MLA decode: scores, softmax and values of a page.
//
// Both products are computed transposed, S^T = K Q^T and O^T += V^T P^T: keys and values are then the operand that
// comes from registers, and are widened on the way from shared memory to the tensor cores.
#pragma once

#include "kernel/cuda/sm90/mla_query.cuh"
#include "kernel/cuda/sm90/mla_shared.cuh"
#include "kernel/cuda/sm90/wgmma.cuh"

namespace strobe::kernel::cuda::sm90::mla {

using Scores = float[32];             // of 64 positions x 64 rows: wgmma.cuh
using Output = float[kOutTiles][32];  // of 64 numbers x 64 rows each, numbers in the order of widen_values

// Phases: of what the warpgroups publish (0, 1), of what the other consumed (2), of the two of them together (3).
constexpr int kConsumedPhase = 2;
constexpr int kTogetherPhase = 3;

// Everything that the warp did before is ordered before the arrival.
__device__ inline void warp_arrive(uint64_t* barrier) {
  __syncwarp();
  if (elect_lane()) mbarrier_arrive(barrier);
}

__device__ inline void math_barrier(Shared& s, Phases& phases) {
  mbarrier_arrive(&s.together);
  mbarrier_wait(&s.together, phases.next(kTogetherPhase));
}

__device__ inline uint32_t slot_address(HalfPage half) {
  return kSlotsAt + half.slot * kSlotBytes;
}

__device__ inline void widen(uint32_t four, uint32_t& low, uint32_t& high) {
  asm volatile(
      "{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, a;\ncvt.rn.f16x2.e4m3x2 %1, b;\n}"
      : "=r"(low), "=r"(high)
      : "r"(four));
}

// The operands of two products (16 numbers of 16 positions each) from what ldmatrix_4 read: 8 positions x 16 numbers,
// the 8 positions below, then the same for the next 16 numbers. Of four numbers of a thread the first two stand in
// columns 0..7 of the product, the others in 8..15.
__device__ inline void widen_keys(const uint32_t (&raw)[4], uint32_t (&a)[2][4]) {
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    widen(raw[2 * step], a[step][0], a[step][2]);
    widen(raw[2 * step + 1], a[step][1], a[step][3]);
  }
}

// Likewise of values, from what ldmatrix_4_transposed read: 16 numbers of 32 positions. A thread has two numbers of two
// positions; the even number stands in the upper row of the product, the odd one in the row 8 below.
__device__ inline void widen_values(const uint32_t (&raw)[4], uint32_t (&a)[2][4]) {
  uint32_t by_number[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // volatile: else the compiler waits for raw right behind the load
    asm volatile("prmt.b32 %0, %1, 0, 0x3120;" : "=r"(by_number[i]) : "r"(raw[i]));
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) widen(by_number[i], a[i / 2][i % 2 * 2], a[i / 2][i % 2 * 2 + 1]);
}

// S^T = K Q^T of a page, committed. `slot`: the half page that holds this warp's 16 positions. Operands under way, of
// two products each, are held in kSets sets of registers that take turns.
__device__ inline void start_scores(Scores& scores, uint32_t slot, const Place& place) {
  constexpr uint32_t kQDescriptor = tile_descriptor(kQ);
  constexpr int kPairs = kDim / 32;
  constexpr int kSets = 3;
  const uint32_t from = slot + slot_piece(place.warp % 2 * 16 + place.lane % 16, place.lane / 16);
  uint32_t raw[2][4];
  uint32_t a[kSets][2][4];
  const auto load = [&](int pair) { ldmatrix_4((from ^ (pair % 2 * 32)) + pair / 2 * kSlotTileBytes, raw[pair % 2]); };
  load(0);
#pragma unroll
  for (int pair = 0; pair < kPairs; ++pair) {
    if (pair + 1 < kPairs) load(pair + 1);
    if (pair >= kSets) wgmma_wait<kSets - 1>();
    widen_keys(raw[pair % 2], a[pair % kSets]);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      const int at = 2 * pair + step;
      wgmma_m64n64k16_rs<false>(scores, a[pair % kSets][step], advance(kQDescriptor, at / 4 * kTileBytes + at % 4 * 32),
                                at > 0);
    }
    wgmma_commit();
  }
}

// O^T += V^T P^T of a page and this warpgroup's numbers, committed. `all_before_are_over` is called once the products
// that were under way before are. kFresh: what stands in O does not count.
template <bool kFresh = false, class Call>
__device__ inline void start_values(Output& out, Shared& s, HalfPage first_half, int probabilities, const Place& place,
                                    const Call& all_before_are_over) {
  constexpr int kPairs = 2 * kOutTiles;
  constexpr int kRaw = 3;
  constexpr int kSets = 2;
  const uint32_t piece = slot_piece(place.lane, place.warp) + place.warpgroup * (kHalf / 64) * kSlotTileBytes;
  const uint32_t from[2] = {slot_address(first_half) + piece, slot_address(first_half.after(1)) + piece};
  const uint32_t b = tile_descriptor(kProbabilities) + (probabilities * kTileBytes >> 4);
  uint32_t raw[kRaw][4];
  uint32_t a[kSets][2][4];
  const auto load = [&](int pair) {
    ldmatrix_4_transposed(from[pair / kOutTiles] + pair % kOutTiles * kSlotTileBytes, raw[pair % kRaw]);
  };
  load(0);
  load(1);
#pragma unroll
  for (int pair = 0; pair < kPairs; ++pair) {
    if (pair + 2 < kPairs) load(pair + 2);
    wgmma_wait<kSets - 1>();
    if (pair == kSets - 1) all_before_are_over();
    widen_values(raw[pair % kRaw], a[pair % kSets]);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      wgmma_m64n64k16_rs<true>(out[pair % kOutTiles], a[pair % kSets][step],
                               advance(b, (pair / kOutTiles * 2 + step) * 2048),
                               !kFresh || pair >= kOutTiles || step > 0);
    }
    wgmma_commit();
    if (pair % kOutTiles == kOutTiles - 1) {
      warp_arrive(&s.empty[first_half.after(pair / kOutTiles).slot]);
    }
  }
}

__device__ inline void finish_products(Output& out) {
  wgmma_wait<0>();
#pragma unroll
  for (int tile = 0; tile < kOutTiles; ++tile) wgmma_read_fence(out[tile]);
}

// Positions behind a row's own do not count.
__device__ inline void mask_scores(Scores& scores, const Shared& s, int page, const Place& place) {
  const int position = page * kPage + place.row;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int own = s.positions[8 * j + place.column + e];
      if (position > own) scores[4 * j + e] = kMinusInfinity;
      if (position + 8 > own) scores[4 * j + 2 + e] = kMinusInfinity;
    }
  }
}

// Rows of q were multiplied by powers of two: their scores are exact, and so is this.
__device__ inline void multiply_scores(Scores& scores, const Shared& s, const Place& place) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 factor = *reinterpret_cast<const float2*>(&s.score_factors[8 * j + place.column]);
    scores[4 * j] *= factor.x;
    scores[4 * j + 1] *= factor.y;
    scores[4 * j + 2] *= factor.x;
    scores[4 * j + 3] *= factor.y;
  }
}

// The references of rows that rise above their headroom move to the page's largest exponent (all rows' do on the first
// page of a split). Exponents are taken along, outputs and sums are multiplied by `rescale` later.
__device__ inline void move_references(Shared& s, const Place& place, bool first, Scores& exponents) {
  const int wg = place.warpgroup;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float largest = fmaxf(exponents[4 * j + e], exponents[4 * j + 2 + e]);
#pragma unroll
      for (int step = 4; step < 32; step *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, step));
      if (place.lane < 4) s.largest[wg][place.warp][8 * j + place.column + e] = largest;
    }
  }
  named_barrier_sync(kOwnBarrier + wg, 128);
  const int row = place.thread;
  if (row < kRowBlock) {
    const float(&all)[4][kRowBlock] = s.largest[wg];
    const float largest = fmaxf(fmaxf(all[0][row], all[1][row]), fmaxf(all[2][row], all[3][row]));
    // A row that sees nothing of the split's first page sees nothing of the split.
    const float move = (first || largest > kHeadroom) && largest != kMinusInfinity ? largest : 0;
    s.move[wg][row] = move;
    s.rescale[wg][row] = exp2_fast(-move);
    s.minus_reference[row] = (first ? 0 : s.minus_reference[row]) - move;
  }
  named_barrier_sync(kOwnBarrier + wg, 128);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 move = *reinterpret_cast<const float2*>(&s.move[wg][8 * j + place.column]);
    exponents[4 * j] -= move.x;
    exponents[4 * j + 1] -= move.y;
    exponents[4 * j + 2] -= move.x;
    exponents[4 * j + 3] -= move.y;
  }
}

// RowSums of a thread's positions of its warpgroup's pages, for its 16 rows.
using RowSums = float[16];

__device__ inline void rescale_sums(RowSums& sums, const Shared& s, int parity, const Place& place) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 factor = *reinterpret_cast<const float2*>(&s.rescale[parity][8 * j + place.column]);
    sums[2 * j] *= factor.x;
    sums[2 * j + 1] *= factor.y;
  }
}

// Waits for the products under way first.
__device__ inline void rescale_output(Output& out, const Shared& s, int parity, const Place& place) {
  finish_products(out);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 factor = *reinterpret_cast<const float2*>(&s.rescale[parity][8 * j + place.column]);
#pragma unroll
    for (int tile = 0; tile < kOutTiles; ++tile) {
      out[tile][4 * j] *= factor.x;
      out[tile][4 * j + 1] *= factor.y;
      out[tile][4 * j + 2] *= factor.x;
      out[tile][4 * j + 3] *= factor.y;
    }
  }
}

// The references of a thread's rows, negative.
using References = float2[8];
__device__ inline void read_references(References& minus, const Shared& s, const Place& place) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    minus[j] = *reinterpret_cast<const float2*>(&s.minus_reference[8 * j + place.column]);
  }
}

// Scores become probabilities in shared memory. Returns whether a row's reference moved, so that all of the outputs and
// sums before this page are to be multiplied by `rescale`. `consumed_parity`: of the phase in which the other warpgroup
// is done with the last ones.
template <bool kFirst>
__device__ inline bool softmax(Shared& s, const Place& place, float log2_scale, const References& minus,
                               uint32_t consumed_parity, Scores& x, RowSums& sums) {
  const int wg = place.warpgroup;
  float largest = kMinusInfinity;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    x[4 * j] = fmaf(x[4 * j], log2_scale, minus[j].x);
    x[4 * j + 1] = fmaf(x[4 * j + 1], log2_scale, minus[j].y);
    x[4 * j + 2] = fmaf(x[4 * j + 2], log2_scale, minus[j].x);
    x[4 * j + 3] = fmaf(x[4 * j + 3], log2_scale, minus[j].y);
    largest = fmaxf(largest, fmaxf(fmaxf(x[4 * j], x[4 * j + 1]), fmaxf(x[4 * j + 2], x[4 * j + 3])));
  }
  const bool moves = kFirst || named_barrier_any(kOwnBarrier + wg, 128, largest > kHeadroom);
  const bool moved = moves && !kFirst;  // nothing stands before the first page
  if (moves) move_references(s, place, kFirst, x);
  if (moved) rescale_sums(sums, s, wg, place);
  if (place.thread == 0) s.moved[wg] = moved;
  uint32_t packed[4][4];
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float low = exp2_fast(x[4 * j + 2 * i]);
      const float high = exp2_fast(x[4 * j + 2 * i + 1]);
      sums[2 * j] += low;
      sums[2 * j + 1] += high;
      packed[j / 2][j % 2 * 2 + i] = pack_half(low, high);
    }
  }
  const int lane = lane_id();  // read anew: what depends on it would be kept in local memory
  mbarrier_wait(&s.consumed[wg], consumed_parity);
  // Lane l gives the address of row l % 8 of the matrix l / 8: upper, lower positions of 8 rows, then of the next 8.
  uint32_t to = kProbabilities + wg * kTileBytes + swizzled_16(place.warp * 16 + lane % 16, lane / 16);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    stmatrix_4(to, packed[i]);
    asm volatile("xor.b32 %0, %0, %1;" : "+r"(to) : "r"((i ^ (i + 1)) << 5));  // else all four are kept in local memory
  }
  fence_async_proxy();
  return moved;
}

__device__ inline void adjust_scores(Scores& scores, const Shared& s, int page, const Place& place) {
  if (!s.plain) multiply_scores(scores, s, place);
  mask_scores(scores, s, page, place);
}

}  // namespace strobe::kernel::cuda::sm90::mla
