// MLA decode: constants, what lies in shared memory, and what all roles of a block of threads use.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernel/cuda/ptx.cuh"
#include "kernel/cuda/sm90/mla_decode.h"
#include "kernel/cuda/sm90/mla_work.cuh"

namespace strobe::kernel::cuda::sm90::mla {

constexpr int kLatent = kMlaLatent;
constexpr int kDim = kMlaLatent + kMlaRope;
constexpr int kTiles = kDim / 64;  // of 64 rows x 64 numbers in f16
constexpr int kTileBytes = 64 * 128;
constexpr int kPageTileBytes = kTiles * kTileBytes;
constexpr int kParts = 3;
constexpr int kPartTiles = kTiles / kParts;
constexpr int kRopeTile = kTiles - 1;  // holds the probabilities once the scores are computed
constexpr int kHalf = kLatent / 2;     // numbers of the output that one warpgroup owns
constexpr int kThreads = 384;          // warpgroups 0 and 1 multiply, 2 brings pages
constexpr int kLoadThreads = 128;
constexpr int kMathThreads = 256;
constexpr int kMathRegisters = 200;
constexpr int kLoadRegisters = 104;
static_assert(2 * kMathRegisters + kLoadRegisters <= 3 * 168);  // 168: what 384 threads start with
constexpr int kListItems = 32;
constexpr int kListPages = 896;  // of all items of a list; more than a split of 900,000 positions has
constexpr int kChunks = 16;      // a partial result is 16 chunks of 16 bytes for each of 256 threads
constexpr int64_t kPartialBytes = int64_t{kChunks} * kMathThreads * 16;
constexpr float kLog2e = 1.4426950408889634F;
constexpr float kMinusInfinity = -INFINITY;

// Named barriers.
constexpr int kListBarrier = 4;
constexpr int kLoadBarrier = 7;
constexpr int kEmptyBarrier = 8;  // and 9: a page buffer may be filled again
constexpr int kOwnBarrier = 5;    // and 6: a warpgroup of its own

// A row's share of softmax in one split: the largest score (log2 units) and the sum of 2^(score - largest).
struct Share {
  float largest;
  float sum;
};

// Where the merge finds what belongs to a row block.
struct BlockInfo {
  int row_begin;
  int first_position;
  RowBlock rows;
};

struct Params {
  MlaAttention call;
  float log2_scale;  // softmax scale * K scale * log2(e)
  uint4* partials;   // [row block * 16 + split][chunk][thread]
  Share* shares;     // [row block * 16 + split][row]
  BlockInfo* infos;  // [row block]
  unsigned* ready;   // [row block]: 16 in the lower half when all its splits are written, then their count above
  unsigned* merged;  // [row block]: chunks merged; both are zero between calls
  int64_t block_capacity;
  MlaStages* stages;
};

// One split of one row block.
struct Item {
  const int32_t* pages;  // of the split's first
  int page_count;
  int first_page;
  int first_ref;  // of its pages in the list
  int seen;       // positions of the split's first page and what follows that the last row sees
  int block;      // row block of the call
  int split;
  unsigned signal;  // what this item adds to ready[block]
  BlockInfo info;
};

// A page as the loaders need it.
struct PageRef {
  int32_t id;
  int16_t seen;    // positions that the last row sees, 1 to 64: the rest counts as zeros and is not read
  int16_t buffer;  // pages of an item take turns
};

struct List {
  Item items[kListItems];
  PageRef refs[kListPages];
  int page_count;
  bool more;  // items are left for another list
  int count;
  int total_blocks;
};

// Where this block of threads stands in the call's items.
struct Cursor {
  int request;
  int item;        // within the request
  int block_base;  // row blocks of the requests before
  int cost;        // of everything before the item
  int cost_end;
  int total_blocks;
};

struct Shared {
  unsigned char q[kPageTileBytes];
  unsigned char k[2][kPageTileBytes];
  uint64_t full[2][kParts];  // a page comes in parts, so that its scores start before it is whole
  uint64_t together;         // the two math warpgroups
  uint64_t published[2];     // by each of the two math warpgroups: its page's probabilities, maxima and factors
  float largest[64];         // running, of the last page whose softmax is done
  float rescale[2][64];      // of the outputs so far, by the even and the odd page
  float sums[2][64];
  float row_scale[64];  // log2_scale over the power of two of the row's q
  List list;
  Cursor cursor;
  MlaStages stages;
};
static_assert(sizeof(BlockInfo) == 16);
static_assert(sizeof(Shared) <= 232448);

// Where the tiles lie in shared memory, as constants: descriptors are then immediates and take no registers. The first
// KiB belongs to the system; the kernel checks it.
constexpr uint32_t kSharedBase = 1024;
constexpr uint32_t kQ = kSharedBase + offsetof(Shared, q);
constexpr uint32_t kK = kSharedBase + offsetof(Shared, k);
__host__ __device__ constexpr uint32_t page_buffer(int index) {
  return kK + index * kPageTileBytes;
}

__device__ inline float exp2_fast(float x) {
  float y = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline uint32_t pack_half(float low, float high) {
  uint32_t both = 0;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

// A part of a page is in its buffer: its f16 numbers were written by ordinary stores and are read by the tensor cores.
// The fence between the two is the reader's: in the writers it would wait for the loads of the next page, too.
__device__ inline void wait_part(uint64_t* full, uint32_t parity) {
  mbarrier_wait(full, parity);
  fence_async_proxy();
}

// The parity of the phase that is next waited for: of a page buffer (0, 1), of what a warpgroup publishes (2, 3), of
// the two of them together (4).
struct Phases {
  uint32_t bits = 0;
  __device__ uint32_t next(int which) {
    const uint32_t parity = bits >> which & 1;
    bits ^= 1U << which;
    return parity;
  }
};

}  // namespace strobe::kernel::cuda::sm90::mla
