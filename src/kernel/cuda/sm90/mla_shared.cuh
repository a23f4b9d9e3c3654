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
constexpr int kHalf = kLatent / 2;     // numbers of the output that one warpgroup owns
constexpr int kOutTiles = kHalf / 64;  // of 64 numbers x 64 rows
// Pages lie in shared memory as halves of 32 positions, e4m3 as stored, in a ring of slots. A slot holds 9 tiles of [32
// positions, 64 numbers]; of a position's 4 pieces of 16 numbers, piece c lies in place c ^ (position / 2 % 4): eight
// positions' pieces c touch all banks, and so do two whole positions.
constexpr int kSlots = 7;
constexpr int kSlotPositions = 32;
constexpr int kSlotTileBytes = kSlotPositions * 64;
constexpr int kSlotBytes = kTiles * kSlotTileBytes;
constexpr int kThreads = 384;  // warpgroups 0 and 1 multiply, the third brings pages
constexpr int kMathThreads = 256;
constexpr int kMathWarps = kMathThreads / 32;
constexpr int kLoadThreads = 128;
constexpr int kMathRegisters = 240;
constexpr int kLoadRegisters = 24;
static_assert(2 * kMathRegisters + kLoadRegisters <= 3 * 168);  // 168: what 384 threads start with
constexpr int kListItems = 32;
constexpr int kChunks = 16;  // a partial result is 16 chunks of 16 bytes for each of 256 threads
constexpr int64_t kPartialBytes = int64_t{kChunks} * kMathThreads * 16;
constexpr float kLog2e = 1.4426950408889634F;
constexpr float kMinusInfinity = -INFINITY;
// How far (log2) a score may lie above its row's reference before the reference moves: probabilities up to 2^6 keep
// the precision of f16, and outputs need no new scale.
constexpr float kHeadroom = 6;

constexpr unsigned kTurn = 256;

// Named barriers.
constexpr int kListBarrier = 4;  // nobody needs the list any more
constexpr int kOwnBarrier = 5;   // and 6: a warpgroup of its own
constexpr int kQueriesBarrier = 7;
constexpr int kListedBarrier = 8;  // the list is there
constexpr int kBeginBarrier = 9;   // the first list of a call of one request is, for those that multiply
constexpr int kLoadBarrier = 10;   // for those that bring pages

// A row's share of softmax in one split: its reference (log2 units) and the sum of 2^(score - reference).
struct Share {
  float reference;
  float sum;
};

// What a row's numbers so far and the next split's are multiplied by when they are folded, twice each.
struct FoldWeights {
  __half2 kept, added;
};

// Where the merge finds what belongs to a row block.
struct BlockInfo {
  int row_begin;
  int first_position;
  RowBlock rows;
};

struct Params {
  MlaAttention call;
  Divisor heads;     // call.heads
  Divisor grid;      // blocks of threads
  float log2_scale;  // softmax scale * K scale * log2(e)
  uint4* partials;   // [row block * 16 + split][chunk][thread]; of splits folded together at the first one's
  Share* shares;     // [row block * 16 + split][row], likewise
  BlockInfo* infos;  // [row block]
  unsigned* turn;    // goes up by kTurn with every call, in as many steps as there are blocks of threads
  unsigned* ready;   // [2][row block], the calls take turns: 16 in the lower half when all splits are written; above a
                     // bit for each partial result that there is
  int64_t block_capacity;
  MlaStages* stages;
};

// One split of one row block.
struct Item {
  const int32_t* pages;  // of the split's first
  int page_count;
  int first_page;
  int seen;   // positions of the split's first page and what follows that the last row sees
  int block;  // row block of the call
  int split;
  int slot;         // where its partial result belongs: its own, or into what its group's first splits left in theirs
  bool continues;   // the item before is the split before of the same row block
  unsigned signal;  // what this item adds to ready[block]
  BlockInfo info;
};

struct List {
  Item items[kListItems];
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
  unsigned char q[kTiles * kTileBytes];        // f16, numbers of 16 in the order of load_q
  unsigned char probabilities[2][kTileBytes];  // f16 [position, row], of the even and the odd page
  alignas(128) unsigned char slots[kSlots][kSlotBytes];
  uint64_t full[kSlots];                         // by each load thread: half a page is there
  uint64_t empty[kSlots];                        // by each math warp: it is done with it
  uint64_t together;                             // by each math thread
  uint64_t published[2];                         // by a warpgroup: probabilities and rescale of its page
  uint64_t consumed[2];                          // by the other: it is done with them
  alignas(16) float minus_reference[kRowBlock];  // exponents of 2 are score * log2_scale - reference
  alignas(16) float score_factors[kRowBlock];    // powers of two that were taken off the rows of q
  bool plain;                                    // whether all of them are 1
  int loaded_block;                              // of the call, whose queries and positions are here; -1: none
  alignas(16) float rescale[2][kRowBlock];       // of outputs and sums so far, by the even and the odd page
  alignas(16) float move[2][kRowBlock];          // of a warpgroup's references, on its page
  alignas(16) float largest[2][4][kRowBlock];
  // Of splits that end, which take turns: a warpgroup may write one while the other is at the next.
  alignas(16) float sums[2][kMathWarps][kRowBlock];
  float references[2][kRowBlock];
  // Of a warpgroup: how it writes a split, and what it has folded so far.
  float inverse[2][kRowBlock];
  FoldWeights weights[2][kRowBlock];
  Share so_far[2][kRowBlock];
  alignas(16) int positions[kRowBlock];  // of the rows
  bool moved[2];                         // whether any of rescale is not 1
  List list;
  Cursor cursor;
  int turn;  // of this call: 0 or 1
  MlaStages stages;
};
static_assert(sizeof(BlockInfo) == 16);
static_assert(sizeof(Shared) <= 232448);

// Where operands lie in shared memory, as constants: descriptors are then immediates and take no registers. The first
// KiB belongs to the system; the kernel checks it.
constexpr uint32_t kSharedBase = 1024;
constexpr uint32_t kQ = kSharedBase + offsetof(Shared, q);
constexpr uint32_t kProbabilities = kSharedBase + offsetof(Shared, probabilities);
constexpr uint32_t kSlotsAt = kSharedBase + offsetof(Shared, slots);

// Where the block of threads stands, the first time that it is here.
__device__ inline void stamp(const Params& p, Shared& s, int64_t MlaStages::*stage) {
  if (p.stages != nullptr && threadIdx.x == 0 && s.stages.*stage == 0) s.stages.*stage = clock64();
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

// Where piece `piece` of a position of a slot lies, in its tile.
__device__ inline uint32_t slot_piece(int position, int piece) {
  return position * 64 + ((piece ^ (position / 2 % 4)) << 4);
}

// A half page's slot in the ring, and the parity of the phase in which that is filled.
struct HalfPage {
  uint32_t slot = 0;
  uint32_t parity = 0;
  // The half page `count` (at most a whole ring) behind or before this one.
  __device__ HalfPage after(uint32_t count) const {
    const bool wraps = slot + count >= kSlots;
    return {wraps ? slot + count - kSlots : slot + count, wraps ? parity ^ 1 : parity};
  }
  __device__ HalfPage before(uint32_t count) const {
    const bool wraps = slot < count;
    return {wraps ? slot + kSlots - count : slot - count, wraps ? parity ^ 1 : parity};
  }
  __device__ HalfPage long_after(uint32_t count) const {
    const uint32_t sum = slot + count;
    return {sum % kSlots, (parity + sum / kSlots) % 2};
  }
};

// The parity of the phase that is next waited for of some barriers.
struct Phases {
  uint32_t bits = 0;
  __device__ uint32_t now(int which) const { return bits >> which & 1; }
  __device__ uint32_t next(int which) {
    const uint32_t parity = now(which);
    bits ^= 1U << which;
    return parity;
  }
};

}  // namespace strobe::kernel::cuda::sm90::mla
