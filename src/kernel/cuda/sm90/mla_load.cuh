// MLA decode: e4m3 pages to f16 tiles in shared memory.
#pragma once

#include "kernel/cuda/sm90/mla_shared.cuh"
#include "kernel/cuda/sm90/wgmma.cuh"

namespace strobe::kernel::cuda::sm90::mla {

// A thread takes two positions of a page, 32 apart, and of both the same piece of 16 numbers (of 4) of all 9 tiles.
struct PagePieces {
  uint4 piece[kTiles][2];
};

struct LoadPlace {
  int position;
  int piece;
};

// Where a thread finds its pieces of its two positions.
struct Source {
  const unsigned char* at[2];
};

__device__ inline Source source_of(const void* store, const PageRef& page, const LoadPlace& place) {
  const unsigned char* first =
      static_cast<const unsigned char*>(store) + int64_t{page.id} * (kPage * kDim) + place.piece * 16;
  return {{first + min(place.position, page.seen - 1) * kDim, first + min(place.position + 32, page.seen - 1) * kDim}};
}

__device__ inline void load_piece(uint4& to, const unsigned char* from) {
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to.x), "=r"(to.y), "=r"(to.z), "=r"(to.w)
               : "l"(from));
}

__device__ inline void widen(uint32_t four, uint32_t& low, uint32_t& high) {
  asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, a;\ncvt.rn.f16x2.e4m3x2 %1, b;\n}"
      : "=r"(low), "=r"(high)
      : "r"(four));
}

__device__ inline void store_shared_16(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// Stores the pieces as f16 and loads the next page's in their place: its loads are under way while the rest is stored.
__device__ inline void widen_page(PagePieces& pieces, uint32_t tiles, int seen, const Source& next,
                                  const LoadPlace& place, uint64_t (&full)[kParts]) {
  const uint32_t low = tiles + swizzled_16(place.position, 2 * place.piece);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (place.position + 32 * h < seen) continue;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {  // rare; volatile, so that it stays a branch
      uint4& p = pieces.piece[tile][h];
      asm volatile("mov.u32 %0, 0;\nmov.u32 %1, 0;\nmov.u32 %2, 0;\nmov.u32 %3, 0;"
                   : "=r"(p.x), "=r"(p.y), "=r"(p.z), "=r"(p.w));
    }
  }
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
#pragma unroll
    for (int tile = part * kPartTiles; tile < (part + 1) * kPartTiles; ++tile) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const uint4& p = pieces.piece[tile][h];
        const uint32_t to = low + tile * kTileBytes + h * (32 * 128);
        uint32_t w[8];
        widen(p.x, w[0], w[1]);
        widen(p.y, w[2], w[3]);
        widen(p.z, w[4], w[5]);
        widen(p.w, w[6], w[7]);
        store_shared_16(to, w[0], w[1], w[2], w[3]);
        store_shared_16(to ^ 16, w[4], w[5], w[6], w[7]);
      }
    }
    mbarrier_arrive(&full[part]);
#pragma unroll
    for (int tile = part * kPartTiles; tile < (part + 1) * kPartTiles; ++tile) {
#pragma unroll
      for (int h = 0; h < 2; ++h) load_piece(pieces.piece[tile][h], next.at[h] + tile * 64);
    }
  }
}

// Page ids of all items of the list.
__device__ inline void list_pages(List& list, int warp, int lane) {
  for (int item = warp; item < list.count; item += kLoadThreads / 32) {
    const Item& it = list.items[item];
    for (int i = lane; i < it.page_count; i += 32) {
      list.refs[it.first_ref + i] = {.id = __ldg(it.pages + i),
                                     .seen = static_cast<int16_t>(min(kPage, it.seen - i * kPage)),
                                     .buffer = static_cast<int16_t>(i % 2)};
    }
  }
  named_barrier_sync(kLoadBarrier, kLoadThreads);
}

// Asks for an eighth of a page in L2: eight row blocks of a request, which walk through its pages together, bring it
// all.
__device__ inline void prefetch_eighth(const void* store, const PageRef& page, int eighth) {
  constexpr int kBytes = kPage * kDim / 8;
  bulk_prefetch(static_cast<const unsigned char*>(store) + int64_t{page.id} * (kPage * kDim) + eighth * kBytes, kBytes);
}

__device__ void load_items(const Params& p, Shared& s, int warp, int lane) {
  list_pages(s.list, warp, lane);
  const int count = s.list.page_count;
  if (count == 0) return;
  const LoadPlace place{.position = warp * 8 + lane / 4, .piece = lane % 4};
  PageRef page = s.list.refs[0];
  PageRef next = s.list.refs[min(1, count - 1)];
  PagePieces pieces;
  const Source first = source_of(p.call.store.data, page, place);
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int h = 0; h < 2; ++h) load_piece(pieces.piece[tile][h], first.at[h] + tile * 64);
  }
  const int eighth = s.list.items[0].block % 8;
  const bool prefetches = warp == 0 && lane == 0;
  if (prefetches) prefetch_eighth(p.call.store.data, next, eighth);
  for (int i = 0; i < count; ++i) {
    named_barrier_sync(kEmptyBarrier + page.buffer, kThreads);
    const PageRef after = s.list.refs[min(i + 2, count - 1)];  // the last page is loaded again, for nothing
    if (prefetches) prefetch_eighth(p.call.store.data, after, eighth);
    widen_page(pieces, page_buffer(page.buffer), page.seen, source_of(p.call.store.data, next, place), place,
               s.full[page.buffer]);
    page = next;
    next = after;
  }
}

}  // namespace strobe::kernel::cuda::sm90::mla
