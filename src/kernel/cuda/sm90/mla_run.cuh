// MLA decode: the splits of a list, page by page, and their partial results.
#pragma once

#include "kernel/cuda/sm90/mla_fold.cuh"
#include "kernel/cuda/sm90/mla_math.cuh"

namespace strobe::kernel::cuda::sm90::mla {

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

// A split ends: each row's sum over a warp's lanes, always in the same order, and its reference. The other warpgroup
// may still be at its values, or at the next split's scores.
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
    start_values(out, s, own.before(2), 1, place_here(), [] {});
    finish_products(out);
    warp_arrive(&s.consumed[1]);
    write_partial(p, s, phases, *begun, place_here(), out);
  }
  mbarrier_wait(&s.published[0], phases.next(0));
  start_values<true>(out, s, own, 0, place_here(), [] {});
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
    const bool own_moved = softmax<false>(s, place, p.log2_scale, minus, phases.next(kConsumedPhase) ^ 1, scores, sums);
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
__device__ inline void place_rows(const Params& p, Shared& s, const BlockInfo& info, const Place& place) {
  const int row = place.thread;
  if (place.warpgroup != 0 || row >= kRowBlock) return;
  s.positions[row] = info.first_position + p.heads.quotient(min(info.rows.begin + row, info.rows.end - 1));
}

// The row block of an item that does not continue another, if it is not there yet.
__device__ inline void begin_rows(const Params& p, Shared& s, const Item& item, const Place& place, Phases& phases) {
  const int loaded = s.loaded_block;
  if (item.block == loaded) return;
  math_barrier(s, phases);  // nobody reads what belongs to the last one any more
  if (place.warpgroup == 0 && place.thread == 0) s.loaded_block = item.block;
  if (loaded >= 0) {
    if (place.warpgroup == 0 && place.thread == 0) s.plain = true;
    math_barrier(s, phases);
  }
  load_q(p, s, item.info, place);
  place_rows(p, s, item.info, place);
  if (loaded < 0) named_barrier_arrive(kQueriesBarrier, kThreads);
  math_barrier(s, phases);
}

__device__ void run_items(const Params& p, Shared& s, const Place& place, HalfPage& next, Phases& phases, bool timed) {
  Output out;
  RowSums sums;
  for (int i = 0; i < s.list.count; ++i) {
    const Item& item = s.list.items[i];
    if (!item.continues) {
      begin_rows(p, s, item, place, phases);
      clear(out);
#pragma unroll
      for (int j = 0; j < 16; ++j) sums[j] = 0;
    }
    const int plain_end = s.plain ? (item.info.first_position + p.heads.quotient(item.info.rows.begin) + 1) / kPage : 0;
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
      write_partial(p, s, phases, item, place_here(), out);
      if (place.warpgroup == 1) clear(out);
    }
    next = next.long_after(2 * span.pages);
  }
}

}  // namespace strobe::kernel::cuda::sm90::mla
