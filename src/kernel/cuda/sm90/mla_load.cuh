// MLA decode: a warpgroup brings pages into the ring in shared memory, as they are stored.
#pragma once

#include "kernel/cuda/sm90/mla_shared.cuh"

namespace strobe::kernel::cuda::sm90::mla {

constexpr int kPrefetchPages = 4;  // how far ahead of the ring pages are asked for in L2

// Asks for an eighth of a page in L2: eight row blocks of a request, which walk through its pages together, bring it
// all.
__device__ inline void prefetch_eighth(const unsigned char* page, int eighth) {
  constexpr int kBytes = kPage * kDim / 8;
  bulk_prefetch(page + eighth * kBytes, kBytes);
}

// Half a page into the next slot: a thread brings one piece of all 9 tiles of a position. Positions that no row sees
// become zeros: what is stored there may be anything, and 0 * NaN is NaN.
__device__ inline void bring_half(const unsigned char* half, bool seen, Shared& s, HalfPage to_fill, int thread) {
  const int position = thread / 4;
  const int piece = thread % 4;
  const uint32_t slot = to_fill.slot;
  mbarrier_wait(&s.empty[slot], to_fill.parity ^ 1);
  const uint32_t to = kSlotsAt + slot * kSlotBytes + slot_piece(position, piece);
  const unsigned char* from = half + position * kDim + piece * 16;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) copy_16(to + tile * kSlotTileBytes, from + tile * 64, seen);
  mbarrier_arrive_when_copied(&s.full[slot]);
}

// Written for few registers: what can be read again is not kept. `alone`: the first page has the memory for itself
// until the queries are there.
__device__ void load_items(const Params& p, Shared& s, HalfPage& to_fill, int thread, bool& alone) {
  for (int i = 0; i < s.list.count; ++i) {
    const Item& item = s.list.items[i];
    int32_t ids = 0;  // 32 page ids, one a lane
#pragma unroll 1
    for (int page = 0; page < item.page_count; ++page) {
      const int lane = thread % 32;
      if (page % 32 == 0) ids = page + lane < item.page_count ? __ldg(item.pages + page + lane) : 0;
      const int ahead = page % 32 + kPrefetchPages;
      const int id_ahead = __shfl_sync(~0U, ids, ahead % 32);
      const auto* store = static_cast<const unsigned char*>(p.call.store.data);
      if (thread == 0 && ahead < 32 && page + kPrefetchPages < item.page_count) {
        prefetch_eighth(store + static_cast<int64_t>(id_ahead) * (kPage * kDim), item.block % 8);
      }
      const unsigned char* from = store + static_cast<int64_t>(__shfl_sync(~0U, ids, page % 32)) * (kPage * kDim);
#pragma unroll 1
      for (int half = 0; half < kPage; half += kSlotPositions) {
        bring_half(from + half * kDim, page * kPage + half + thread / 4 < item.seen, s, to_fill, thread);
        to_fill = to_fill.after(1);
      }
      if (alone) named_barrier_sync(kQueriesBarrier, kThreads);
      alone = false;
    }
  }
}

}  // namespace strobe::kernel::cuda::sm90::mla
