// MLA decode: scores, softmax and values of the items of a list.
#pragma once

#include "kernel/cuda/sm90/mla_shared.cuh"
#include "kernel/cuda/sm90/wgmma.cuh"

namespace strobe::kernel::cuda::sm90::mla {

__device__ inline void math_barrier(Shared& s, Phases& phases) {
  mbarrier_arrive(&s.together);
  mbarrier_wait(&s.together, phases.next(4));
}

// Which of the 64 rows and columns a thread of a warpgroup holds (wgmma.cuh).
struct Place {
  int warpgroup;
  int thread;  // of the warpgroup
  int lane;
  int row;     // and row + 8
  int column;  // within 8
};

// 8 numbers of q.
struct Float8 {
  float4 low, high;
};
__device__ inline void unpack(const Float8& packed, float (&x)[8]) {
  x[0] = packed.low.x, x[1] = packed.low.y, x[2] = packed.low.z, x[3] = packed.low.w;
  x[4] = packed.high.x, x[5] = packed.high.y, x[6] = packed.high.z, x[7] = packed.high.w;
}
__device__ inline void unpack(const uint4& packed, float (&x)[8]) {
  const uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    x[2 * j] = __uint_as_float(words[j] << 16);
    x[2 * j + 1] = __uint_as_float(words[j] & 0xffff0000U);
  }
}

// Rows of q as f16 under a power of two each. Four threads take a row, each every fourth pair of pieces of 8 numbers.
// `Eight`: 8 numbers as they lie in memory. kKeep: they are read once and kept in registers, else twice.
template <class Eight, bool kKeep>
__device__ inline void load_q_as(const Params& p, Shared& s, const BlockInfo& info, const Place& place) {
  constexpr int kEach = kDim / 8 / 4;
  const int heads = static_cast<int>(p.call.heads);
  const int row = (place.warpgroup * 4 + place.thread / 32) * 8 + place.lane / 4;
  const int folded = min(info.rows.begin + row, info.rows.end - 1);
  const Eight* from = static_cast<const Eight*>(p.call.q.data) +
                      (info.row_begin + folded / heads) * (p.call.q.stride / 8) + folded % heads * (kDim / 8) +
                      2 * (place.lane % 4);
  Eight kept[kKeep ? kEach : 1];
  float largest = 0;
  if constexpr (kKeep) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) kept[i] = from[i / 2 * 8 + i % 2];
  }
#pragma unroll(kKeep ? kEach : 2)
  for (int i = 0; i < kEach; ++i) {
    float x[8];
    if constexpr (kKeep) {
      unpack(kept[i], x);
    } else {
      unpack(from[i / 2 * 8 + i % 2], x);
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) largest = fmaxf(largest, fabsf(x[j]));
  }
  largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, 2));
  // The largest number becomes one of [16, 32); 2^(biased - 131) of it is taken off.
  const int biased = static_cast<int>(__float_as_uint(largest) >> 23);
  const bool plain = biased < 24 || biased > 250;  // zeros, numbers next to zero, infinities
  const float factor = plain ? 1.0F : __uint_as_float(static_cast<uint32_t>(131 + 127 - biased) << 23);
  const float back = plain ? 1.0F : __uint_as_float(static_cast<uint32_t>(biased - 4) << 23);
  const bool used = info.rows.begin + row < info.rows.end;
  const uint32_t to = kQ + swizzled_16(row, 2 * (place.lane % 4));
#pragma unroll(kKeep ? kEach : 2)
  for (int i = 0; i < kEach; ++i) {
    float x[8];
    if constexpr (kKeep) {
      unpack(kept[i], x);
    } else {
      unpack(from[i / 2 * 8 + i % 2], x);
    }
    uint32_t h[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) h[j] = used ? pack_half(x[2 * j] * factor, x[2 * j + 1] * factor) : 0;
    store_shared_16((to ^ (i % 2 * 16)) + i / 2 * kTileBytes, h[0], h[1], h[2], h[3]);
  }
  if (place.lane % 4 == 0) s.row_scale[row] = p.log2_scale * back;
}

__device__ void load_q(const Params& p, Shared& s, const BlockInfo& info, const Place& place) {
  if (p.call.q.dtype == DType::kF32) {
    load_q_as<Float8, false>(p, s, info, place);
  } else {
    load_q_as<uint4, true>(p, s, info, place);
  }
  fence_async_proxy();
}

// The running state of a thread's two rows.
struct RowState {
  float scale[2];    // log2 units per unit of a score
  float largest[2];  // over all pages so far
  float sum[2];      // this thread's columns of its warpgroup's own pages
};

// S = Q K^T of the page that comes into a buffer, committed.
__device__ inline void start_scores(float (&scores)[32], Shared& s, int buffer, uint32_t parity) {
  constexpr uint32_t kQDescriptor = tile_descriptor(kQ);
  const uint32_t b = tile_descriptor(page_buffer(buffer));
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    wait_part(&s.full[buffer][part], parity);
    wgmma_fence();
#pragma unroll
    for (int step = 4 * part * kPartTiles; step < 4 * (part + 1) * kPartTiles; ++step) {
      const uint32_t bytes = step / 4 * kTileBytes + step % 4 * 32;
      wgmma_m64n64k16_ss(scores, advance(kQDescriptor, bytes), advance(b, bytes), step > 0);
    }
  }
  wgmma_commit();
}

// The descriptor of this warpgroup's half of a page's values.
__device__ inline uint32_t value_descriptor(uint32_t k, int warpgroup) {
  return tile_descriptor(k + warpgroup * (kHalf / 64) * kTileBytes, kTileBytes);
}

// O += P V with the probabilities in registers (this warpgroup's own page), committed.
__device__ inline void start_own_values(float (&out)[128], const uint32_t (&probabilities)[4][4], uint32_t values) {
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    wgmma_m64n256k16_rs(out, probabilities[step], advance(values, step * 2048), true);
  }
  wgmma_commit();
}

// O += P V with the probabilities that the other warpgroup left in the page's rope tile, committed.
__device__ inline void start_other_values(float (&out)[128], uint32_t k, uint32_t values) {
  const uint32_t a = tile_descriptor(k + kRopeTile * kTileBytes);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    wgmma_m64n256k16_ss(out, advance(a, step * 32), advance(values, step * 2048), true);
  }
  wgmma_commit();
}

// Maxima seldom move after the first pages. No product may be under way.
__device__ inline void rescale_output(float (&out)[128], const float (&factor)[2]) {
  if (!__any_sync(~0U, factor[0] != 1.0F || factor[1] != 1.0F)) return;
#pragma unroll
  for (int j = 0; j < 128; ++j) out[j] *= factor[j / 2 % 2];
}

// Positions behind a row's own do not count. `seen`: how many of this page's positions each of the two rows sees.
__device__ inline void mask_scores(float (&scores)[32], const int (&seen)[2], int column) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (8 * j + column + e % 2 >= seen[e / 2]) scores[4 * j + e] = kMinusInfinity;
    }
  }
}

// Softmax of one page against the running maxima: probabilities, what the outputs so far are to be multiplied by, and
// the new state.
__device__ inline void softmax(const float (&scores)[32], RowState& state, uint32_t (&probabilities)[4][4],
                               float (&rescale)[2]) {
  float offset[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float largest = kMinusInfinity;
#pragma unroll
    for (int j = 0; j < 8; ++j) largest = fmaxf(largest, fmaxf(scores[4 * j + 2 * r], scores[4 * j + 2 * r + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, 2));
    largest = fmaxf(largest, state.largest[r]);
    // A row that has seen nothing yet stays as it is.
    const bool nothing = largest == kMinusInfinity;
    rescale[r] = nothing ? 1.0F : exp2_fast((state.largest[r] - largest) * state.scale[r]);
    offset[r] = nothing ? 0.0F : -largest * state.scale[r];
    state.largest[r] = largest;
  }
  float sums[2] = {0, 0};
#pragma unroll
  for (int step = 0; step < 4; ++step) {
#pragma unroll
    for (int part = 0; part < 4; ++part) {  // columns 0..7 and 8..15 of 16, upper and lower row each
      const int r = part % 2;
      const int from = 4 * (2 * step + part / 2) + 2 * r;
      const float low = exp2_fast(fmaf(scores[from], state.scale[r], offset[r]));
      const float high = exp2_fast(fmaf(scores[from + 1], state.scale[r], offset[r]));
      sums[r] += low + high;
      probabilities[step][part] = pack_half(low, high);
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) state.sum[r] = state.sum[r] * rescale[r] + sums[r];
}

// For the other warpgroup: the probabilities into the rope tile, maxima and factors.
__device__ inline void publish(Shared& s, const Place& place, uint32_t k, const uint32_t (&probabilities)[4][4],
                               const RowState& state, const float (&rescale)[2]) {
  // Lane l gives the address of row l % 8 of the matrix l / 8: upper, lower rows of columns 0..7, then of 8..15.
  const int row = place.row - place.lane / 4 + place.lane % 16;
  const uint32_t first = k + kRopeTile * kTileBytes + swizzled_16(row, place.lane / 16);
#pragma unroll
  for (int step = 0; step < 4; ++step) stmatrix_4(first ^ (step << 5), probabilities[step]);
  if (place.lane % 4 == 0) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      s.largest[place.row + 8 * r] = state.largest[r];
      s.rescale[place.warpgroup][place.row + 8 * r] = rescale[r];
    }
  }
  fence_async_proxy();
}

// What the other warpgroup published with its page.
__device__ inline void take_over(const Shared& s, const Place& place, RowState& state, float (&rescale)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    state.largest[r] = s.largest[place.row + 8 * r];
    rescale[r] = s.rescale[1 - place.warpgroup][place.row + 8 * r];
    state.sum[r] *= rescale[r];
  }
}

__device__ inline void release_page(int buffer) {
  named_barrier_arrive(kEmptyBarrier + buffer, kThreads);
}

// The pages of an item, in registers that all threads of a warp hold alike.
struct Span {
  int first_page;
  int page_count;
};

// Which positions of a page the thread's rows see, when not all of them do.
struct Sight {
  int position[2];  // of the two rows
  int whole_pages;  // pages that every row of the block sees wholly

  __device__ bool partial(int page) const { return page >= whole_pages; }
  __device__ void mask(float (&scores)[32], int page, int column) const {
    const int seen[2] = {position[0] + 1 - page * kPage, position[1] + 1 - page * kPage};
    mask_scores(scores, seen, column);
  }
};

// Warpgroup 0: scores and softmax of pages 0, 2, ..., the first half of the outputs.
__device__ inline void run_even(Shared& s, const Span& span, const Place& place, const Sight& sight, RowState& state,
                                float (&out)[128], Phases& phases) {
  float scores[32];
  start_scores(scores, s, 0, phases.next(0));
  wgmma_wait<0>();
  for (int page = 0;; page += 2) {
    wgmma_read_fence(scores);
    if (sight.partial(span.first_page + page)) sight.mask(scores, span.first_page + page, place.column);
    uint32_t probabilities[4][4];
    float rescale[2];
    softmax(scores, state, probabilities, rescale);
    named_barrier_sync(kOwnBarrier, 128);  // all four warps are done with the rope tile
    publish(s, place, page_buffer(0), probabilities, state, rescale);
    mbarrier_arrive(&s.published[0]);
    rescale_output(out, rescale);
    start_own_values(out, probabilities, value_descriptor(page_buffer(0), 0));
    wgmma_wait<0>();
    wgmma_read_fence(out);
    release_page(0);
    if (page + 1 >= span.page_count) return;

    mbarrier_wait(&s.published[1], phases.next(3));
    take_over(s, place, state, rescale);
    rescale_output(out, rescale);
    start_other_values(out, page_buffer(1), value_descriptor(page_buffer(1), 0));
    wgmma_wait<0>();
    wgmma_read_fence(out);
    release_page(1);
    if (page + 2 >= span.page_count) return;
    start_scores(scores, s, 0, phases.next(0));
    wgmma_wait<0>();
  }
}

// Warpgroup 1: scores and softmax of pages 1, 3, ..., the second half of the outputs.
__device__ inline void run_odd(Shared& s, const Span& span, const Place& place, const Sight& sight, RowState& state,
                               float (&out)[128], Phases& phases) {
  float rescale[2];
  for (int page = 1; page < span.page_count; page += 2) {
    float scores[32];
    start_scores(scores, s, 1, phases.next(1));
    mbarrier_wait(&s.published[0], phases.next(2));
    take_over(s, place, state, rescale);
    wgmma_wait<0>();
    wgmma_read_fence(scores);
    rescale_output(out, rescale);
    start_other_values(out, page_buffer(0), value_descriptor(page_buffer(0), 1));
    if (sight.partial(span.first_page + page)) sight.mask(scores, span.first_page + page, place.column);
    uint32_t probabilities[4][4];
    softmax(scores, state, probabilities, rescale);
    named_barrier_sync(kOwnBarrier + 1, 128);
    publish(s, place, page_buffer(1), probabilities, state, rescale);
    mbarrier_arrive(&s.published[1]);
    wgmma_wait<0>();
    wgmma_read_fence(out);
    release_page(0);
    rescale_output(out, rescale);
    start_own_values(out, probabilities, value_descriptor(page_buffer(1), 1));
    wgmma_wait<0>();
    wgmma_read_fence(out);
    release_page(1);
  }
  if (span.page_count % 2 == 0) return;
  mbarrier_wait(&s.published[0], phases.next(2));
  take_over(s, place, state, rescale);
  rescale_output(out, rescale);
  start_other_values(out, page_buffer(0), value_descriptor(page_buffer(0), 1));
  wgmma_wait<0>();
  wgmma_read_fence(out);
  release_page(0);
}

// The item's outputs over its own sum, in f16, and each row's share.
__device__ inline void write_partial(const Params& p, Shared& s, Phases& phases, const Item& item, const Place& place,
                                     const RowState& state, const float (&out)[128]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = state.sum[r];
    sum += __shfl_xor_sync(~0U, sum, 1);
    sum += __shfl_xor_sync(~0U, sum, 2);
    if (place.lane % 4 == 0) s.sums[place.warpgroup][place.row + 8 * r] = sum;
  }
  math_barrier(s, phases);
  const int64_t slot = int64_t{item.block} * kMaxSplits + item.split;
  float inverse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = place.row + 8 * r;
    const float sum = s.sums[0][row] + s.sums[1][row];
    inverse[r] = sum == 0 ? 0.0F : 1.0F / sum;
    if (place.warpgroup == 0 && place.lane % 4 == 0) {
      p.shares[slot * kRowBlock + row] = {.largest = state.largest[r] * state.scale[r], .sum = sum};
    }
  }
  uint4* to = p.partials + slot * kChunks * kMathThreads + place.warpgroup * 128 + place.thread;
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {  // row half, group of four times 8 columns
    const int r = chunk / 8;
    const int j = chunk % 8 * 4;
    uint32_t h[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      h[i] = pack_half(out[4 * (j + i) + 2 * r] * inverse[r], out[4 * (j + i) + 2 * r + 1] * inverse[r]);
    }
    __stcg(to + chunk * kMathThreads, make_uint4(h[0], h[1], h[2], h[3]));
  }
  if (place.warpgroup == 0 && place.thread == 0 && item.split == 0) p.infos[item.block] = item.info;
}

__device__ void run_items(const Params& p, Shared& s, const Place& place, Phases& phases, int& loaded_block,
                          bool timed) {
  const int heads = static_cast<int>(p.call.heads);
  for (int i = 0; i < s.list.count; ++i) {
    const Item& item = s.list.items[i];
    const BlockInfo& info = item.info;
    RowState state;
    if (item.block != loaded_block) {
      math_barrier(s, phases);  // nobody reads the old rows any more
      load_q(p, s, info, place);
      loaded_block = item.block;
    }
    math_barrier(s, phases);
    Sight sight;
    sight.whole_pages = (info.first_position + info.rows.begin / heads + 1) / kPage;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = place.row + 8 * r;
      sight.position[r] = info.first_position + min(info.rows.begin + row, info.rows.end - 1) / heads;
      state.scale[r] = s.row_scale[row];
      state.largest[r] = kMinusInfinity;
      state.sum[r] = 0;
    }
    const Span span{.first_page = __shfl_sync(~0U, item.first_page, 0),
                    .page_count = __shfl_sync(~0U, item.page_count, 0)};
    float out[128];
#pragma unroll
    for (int j = 0; j < 128; ++j) out[j] = 0;
    if (timed && i == 0) s.stages.first_scores = clock64();
    if (place.warpgroup == 0) {
      run_even(s, span, place, sight, state, out, phases);
    } else {
      run_odd(s, span, place, sight, state, out, phases);
    }
    write_partial(p, s, phases, item, place, state, out);
  }
}

}  // namespace strobe::kernel::cuda::sm90::mla
