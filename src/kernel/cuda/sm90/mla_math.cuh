// MLA decode: scores, softmax and values of the items of a list.
//
// Both products are computed transposed, S^T = K Q^T and O^T += V^T P^T: keys and values are then the operand that
// comes from registers, and are widened on the way from shared memory to the tensor cores.
#pragma once

#include "kernel/cuda/sm90/mla_fold.cuh"
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

// Through L2; zeros if it is not wanted.
__device__ inline uint4 load_cached_if(const uint4* from, bool wanted) {
  uint4 x{};
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
      "@p ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
      : "=&r"(x.x), "=&r"(x.y), "=&r"(x.z), "=&r"(x.w)
      : "l"(from), "r"(static_cast<int>(wanted))
      : "memory");
  return x;
}

// The sums of a thread's 16 rows over the 8 lanes that hold them: each lane ends with two rows, those of group
// lane / 4 of 8 rows. With every step a lane gives away the rows of the other half.
__device__ inline float2 sums_over_lanes(const RowSums& sums, const Place& place) {
  float half[8];
  const bool upper = place.lane & 16;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    half[i] = (upper ? sums[8 + i] : sums[i]) + __shfl_xor_sync(~0U, upper ? sums[i] : sums[8 + i], 16);
  }
  float quarter[4];
  const bool second = place.lane & 8;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    quarter[i] = (second ? half[4 + i] : half[i]) + __shfl_xor_sync(~0U, second ? half[i] : half[4 + i], 8);
  }
  const bool odd = place.lane & 4;
  float2 both{};
  both.x = (odd ? quarter[2] : quarter[0]) + __shfl_xor_sync(~0U, odd ? quarter[0] : quarter[2], 4);
  both.y = (odd ? quarter[3] : quarter[1]) + __shfl_xor_sync(~0U, odd ? quarter[1] : quarter[3], 4);
  return both;
}

// A split ends: each row's sum over a warp's lanes, always in the same order, and its reference. The other warpgroup may
// still be at its values, or at the next split's scores.
__device__ inline void end_split(Shared& s, const Place& place, int turn, RowSums& sums) {
  const float2 both = sums_over_lanes(sums, place);
  float* to = &s.sums[turn][place.warpgroup * 4 + place.warp][place.lane / 4 * 8 + place.column];
  *reinterpret_cast<float2*>(to) = both;
#pragma unroll
  for (int i = 0; i < 16; ++i) sums[i] = 0;
  const int row = place.thread;
  if (place.warpgroup == 0 && row < kRowBlock) s.references[turn][row] = -s.minus_reference[row];
  mbarrier_arrive(&s.together);
}

// What the outputs of a split are multiplied by, and what its group's splits so far are, for each row; so far they
// become all up to this one.
__device__ inline void weigh_split(const Params& p, Shared& s, const Item& item, const Place& place, int turn) {
  const int row = place.thread;
  if (row >= kRowBlock) return;
  Share share{.reference = s.references[turn][row], .sum = 0};
#pragma unroll
  for (int warp = 0; warp < kMathWarps; ++warp) share.sum += s.sums[turn][warp][row];
  s.inverse[place.warpgroup][row] = share.sum == 0 ? 0.0F : reciprocal(share.sum);
  FoldWeights weights{.kept = __float2half2_rn(0), .added = __float2half2_rn(1)};
  if (item.slot != item.split) {
    const Share split = share;
    share = s.so_far[place.warpgroup][row];
    weights = fold_shares(share, split);
  }
  s.weights[place.warpgroup][row] = weights;
  s.so_far[place.warpgroup][row] = share;
  if (place.warpgroup == 0) p.shares[(int64_t{item.block} * kMaxSplits + item.slot) * kRowBlock + row] = share;
}

// The outputs of a split over its own sum, in f16, folded into those of its group so far, which this thread wrote. Some
// of those are asked for at once, the others as packing makes registers free.
__device__ inline void write_partial(const Params& p, Shared& s, Phases& phases, const Item& item, const Place& place,
                                     const Output& out) {
  constexpr int kEarly = 6;
  const int64_t slot = int64_t{item.block} * kMaxSplits + item.slot;
  uint4* to = p.partials + slot * kChunks * kMathThreads + place.warpgroup * 128 + place.thread;
  const bool folds = item.slot != item.split;
  uint4 split[kChunks];  // a chunk holds two numbers of each tile, of one row
  uint4 so_far[kChunks];
#pragma unroll
  for (int chunk = 0; chunk < kEarly; ++chunk) so_far[chunk] = load_cached_if(to + chunk * kMathThreads, folds);
  const int turn = static_cast<int>(phases.next(kTogetherPhase));
  mbarrier_wait(&s.together, turn);
  weigh_split(p, s, item, place, turn);
  named_barrier_sync(kOwnBarrier + place.warpgroup, 128);
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const float factor = s.inverse[place.warpgroup][chunk / 2 * 8 + place.column + chunk % 2];
    uint32_t h[kOutTiles];
#pragma unroll
    for (int tile = 0; tile < kOutTiles; ++tile) {
      const int at = chunk / 2 * 4 + chunk % 2;
      h[tile] = pack_half(out[tile][at] * factor, out[tile][at + 2] * factor);
    }
    split[chunk] = make_uint4(h[0], h[1], h[2], h[3]);
    if (chunk + kEarly < kChunks) {
      so_far[chunk + kEarly] = load_cached_if(to + (chunk + kEarly) * kMathThreads, folds);
    }
  }
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const FoldWeights weights = s.weights[place.warpgroup][chunk / 2 * 8 + place.column + chunk % 2];
    __stcg(to + chunk * kMathThreads, fold_numbers(weights, so_far[chunk], split[chunk]));
  }
  if (place.warpgroup == 0 && place.thread == 0 && item.split == 0) p.infos[item.block] = item.info;
}

__device__ inline void clear(Output& out) {
#pragma unroll
  for (int j = 0; j < 128; ++j) out[j / 32][j % 32] = 0;
}

// A split's pages, in registers that all threads of a warp hold alike.
struct Span {
  int pages;
  int plain_pages;  // of them, whose scores every row of the block takes as they are; may be more or negative
};

// Each warpgroup owns every second page's scores and softmax, and half of the numbers of the output. In turn: scores
// and softmax of an own page, then the values of the other's page before it and of its own. The four warps that publish
// a page's probabilities have waited for all of the page: whoever waits for them need not.
//
// A split that another of its row block follows has an even number of pages: warpgroup 1 ends it. Warpgroup 0 begins
// the next before it takes the values of the last page and writes the outputs: `begun` is then the item before.
__device__ inline void first_page(const Params& p, Shared& s, const Item& item, const Item* begun, const Span& span,
                                  const Place& place, HalfPage own, Phases& phases, Output& out, RowSums& sums,
                                  bool timed) {
  const HalfPage keys = own.after(place.warp / 2);
  mbarrier_wait(&s.full[keys.slot], keys.parity);
  if (timed) s.stages.first_page = clock64();
  Scores scores;
  start_scores(scores, slot_address(keys), place);
  bool other_moved = false;
  if (begun != nullptr) {
    mbarrier_wait(&s.published[1], phases.next(1));
    other_moved = s.moved[1];
    if (other_moved) rescale_sums(sums, s, 1, place);
    end_split(s, place, phases.now(kTogetherPhase), sums);
  }
  wgmma_wait<0>();
  wgmma_read_fence(scores);
  if (span.plain_pages <= 0) adjust_scores(scores, s, item.first_page, place);
  const References none{};
  softmax<true>(s, place, p.log2_scale, none, phases.next(kConsumedPhase) ^ 1, scores, sums);
  if (other_moved) rescale_output(out, s, 1, place);
  mbarrier_arrive(&s.published[0]);
  if (begun != nullptr) {
    start_values(out, s, own.before(2), 1, place, [] {});
    finish_products(out);
    warp_arrive(&s.consumed[1]);
    write_partial(p, s, phases, *begun, place, out);
  }
  mbarrier_wait(&s.published[0], phases.next(0));
  start_values<true>(out, s, own, 0, place, [] {});
  finish_products(out);
}

// The pages of a split but warpgroup 0's first.
__device__ inline void further_pages(const Params& p, Shared& s, const Item& item, const Span& span, const Place& place,
                                     HalfPage& own, int& page, Phases& phases, Output& out, RowSums& sums) {
  const int wg = place.warpgroup;
  const int other = 1 - wg;
  for (; page < span.pages; page += 2, own = own.after(4)) {
    const HalfPage keys = own.after(place.warp / 2);
    mbarrier_wait(&s.full[keys.slot], keys.parity);
    Scores scores;
    start_scores(scores, slot_address(keys), place);
    mbarrier_wait(&s.published[other], phases.next(other));
    const bool other_moved = s.moved[other];
    if (other_moved) rescale_sums(sums, s, other, place);
    References minus;
    read_references(minus, s, place);
    wgmma_wait<0>();
    wgmma_read_fence(scores);
    if (page >= span.plain_pages) adjust_scores(scores, s, item.first_page + page, place);
    const bool own_moved =
        softmax<false>(s, place, p.log2_scale, minus, phases.next(kConsumedPhase) ^ 1, scores, sums);
    if (other_moved) rescale_output(out, s, other, place);  // before the other may move again
    mbarrier_arrive(&s.published[wg]);
    start_values(out, s, own.before(2), other, place, [] {});
    mbarrier_wait(&s.published[wg], phases.next(wg));
    if (own_moved) rescale_output(out, s, wg, place);
    start_values(out, s, own, wg, place, [&] { warp_arrive(&s.consumed[other]); });
    finish_products(out);
  }
}

// The values of the other's page, the last of a row block's splits here.
__device__ inline void last_values(Shared& s, const Place& place, HalfPage half, Phases& phases, Output& out,
                                   RowSums& sums) {
  const int other = 1 - place.warpgroup;
  mbarrier_wait(&s.published[other], phases.next(other));
  if (s.moved[other]) {
    rescale_sums(sums, s, other, place);
    rescale_output(out, s, other, place);
  }
  start_values(out, s, half, other, place, [] {});
  finish_products(out);
  warp_arrive(&s.consumed[other]);
}

// Where the rows of a block stand.
__device__ inline void place_rows(Shared& s, const BlockInfo& info, int heads, const Place& place) {
  const int row = place.thread;
  if (place.warpgroup != 0 || row >= kRowBlock) return;
  s.positions[row] = info.first_position + min(info.rows.begin + row, info.rows.end - 1) / heads;
}

// Another row block: its queries, if they are not there yet, and where its rows stand.
__device__ inline void begin_rows(const Params& p, Shared& s, const Item& item, const Place& place, Phases& phases,
                                  int& loaded_block) {
  math_barrier(s, phases);  // nobody reads what belongs to the last one any more
  if (item.block != loaded_block) {
    if (loaded_block >= 0) {
      if (place.warpgroup == 0 && place.thread == 0) s.plain = true;
      math_barrier(s, phases);
    }
    load_q(p, s, item.info, place);
    if (loaded_block < 0) named_barrier_arrive(kQueriesBarrier, kThreads);
    loaded_block = item.block;
  }
  place_rows(s, item.info, static_cast<int>(p.call.heads), place);
  math_barrier(s, phases);
}

__device__ void run_items(const Params& p, Shared& s, const Place& place, HalfPage& next, Phases& phases,
                          int& loaded_block, bool timed) {
  const int heads = static_cast<int>(p.call.heads);
  Output out;
  RowSums sums;
  for (int i = 0; i < s.list.count; ++i) {
    const Item& item = s.list.items[i];
    if (!item.continues) {
      begin_rows(p, s, item, place, phases, loaded_block);
      clear(out);
#pragma unroll
      for (int j = 0; j < 16; ++j) sums[j] = 0;
    }
    const int plain_end = s.plain ? (item.info.first_position + item.info.rows.begin / heads + 1) / kPage : 0;
    const Span span{.pages = __shfl_sync(~0U, item.page_count, 0),
                    .plain_pages = __shfl_sync(~0U, plain_end - item.first_page, 0)};
    if (timed && i == 0) s.stages.first_scores = clock64();
    HalfPage own = next.after(2 * place.warpgroup);
    int page = place.warpgroup;
    if (place.warpgroup == 0) {
      first_page(p, s, item, item.continues ? &item - 1 : nullptr, span, place, own, phases, out, sums,
                 timed && i == 0);
      own = own.after(4);
      page = 2;
    }
    further_pages(p, s, item, span, place, own, page, phases, out, sums);
    if (timed && i == 0) s.stages.first_outputs = clock64();
    const bool others_last = page - 1 < span.pages;
    const bool followed = i + 1 < s.list.count && s.list.items[i + 1].continues;
    if (!(followed && others_last)) {
      if (others_last) last_values(s, place, own.before(2), phases, out, sums);
      end_split(s, place, phases.now(kTogetherPhase), sums);
      write_partial(p, s, phases, item, place, out);
      if (place.warpgroup == 1) clear(out);
    }
    next = next.long_after(2 * span.pages);
  }
}

}  // namespace strobe::kernel::cuda::sm90::mla
