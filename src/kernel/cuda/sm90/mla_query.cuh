// MLA decode: queries to f16 in shared memory.
#pragma once

#include "kernel/cuda/sm90/mla_shared.cuh"
#include "kernel/cuda/sm90/wgmma.cuh"

namespace strobe::kernel::cuda::sm90::mla {

// Which of the 64 rows and columns a thread of a warpgroup holds (wgmma.cuh).
struct Place {
  int warpgroup;
  int warp;  // of the warpgroup
  int thread;
  int lane;
  int row;     // and row + 8
  int column;  // within 8
};

// Of a thread, read anew: what follows from it takes registers, which are scarce, only where it is used.
__device__ inline Place place_here() {
  int index = 0;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  const int lane = index % 32;
  const int warpgroup = __shfl_sync(~0U, index / 128, 0);
  const int warp = __shfl_sync(~0U, index / 32 % 4, 0);
  return {.warpgroup = warpgroup,
          .warp = warp,
          .thread = index % 128,
          .lane = lane,
          .row = warp * 16 + lane / 4,
          .column = lane % 4 * 2};
}

// 8 numbers of q.
struct Float8 {
  float4 low, high;
};
__device__ inline void unpack(const Float8& packed, float* x) {
  x[0] = packed.low.x, x[1] = packed.low.y, x[2] = packed.low.z, x[3] = packed.low.w;
  x[4] = packed.high.x, x[5] = packed.high.y, x[6] = packed.high.z, x[7] = packed.high.w;
}
__device__ inline void unpack(const uint4& packed, float* x) {
  const uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    x[2 * j] = __uint_as_float(words[j] << 16);
    x[2 * j + 1] = __uint_as_float(words[j] & 0xffff0000U);
  }
}

// The bits of the largest magnitude: as whole numbers they have the order of the numbers. Of bf16 two at a time.
struct Largest {
  uint32_t single = 0;
  uint32_t pair = 0;
  __device__ void add(const Float8& packed) {
    float x[8];
    unpack(packed, x);
#pragma unroll
    for (const float value : x) single = max(single, __float_as_uint(value) & 0x7fffffffU);
  }
  __device__ void add(const uint4& packed) {
    pair = __vmaxu2(__vmaxu2(pair, packed.x & 0x7fff7fffU), packed.y & 0x7fff7fffU);
    pair = __vmaxu2(__vmaxu2(pair, packed.z & 0x7fff7fffU), packed.w & 0x7fff7fffU);
  }
  [[nodiscard]] __device__ uint32_t bits() const {
    return max(single, max(pair << 16, pair & 0xffff0000U));
  }
};

__device__ inline void store_shared_16(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// 16 numbers of a row under a power of two, in the order in which widen_keys (mla_math.cuh) has those of keys: 0, 1, 4,
// 5, 8, 9, 12, 13, then the others.
__device__ inline void store_q(uint32_t to, const float (&x)[16], float factor, bool used) {
#pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    uint32_t h[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int from = 4 * j + 2 * piece;
      h[j] = used ? pack_half(x[from] * factor, x[from + 1] * factor) : 0;
    }
    store_shared_16(to ^ (piece * 16), h[0], h[1], h[2], h[3]);
  }
}

// Of a thread's row of q: four threads take a row, each every fourth 16 numbers.
struct QueryRow {
  int row;           // of the block's 64
  const void* from;  // the row's first number
  bool used;         // else it is zeros
};
__device__ inline QueryRow query_row(const Params& p, const BlockInfo& info, int row) {
  const int folded = min(info.rows.begin + row, info.rows.end - 1);
  const int token = p.heads.quotient(folded);
  const int64_t at = (info.row_begin + token) * p.call.q.stride + (folded - token * p.heads.value) * kDim;
  const int bytes = p.call.q.dtype == DType::kF32 ? 4 : 2;
  return {.row = row,
          .from = static_cast<const unsigned char*>(p.call.q.data) + at * bytes,
          .used = info.rows.begin + row < info.rows.end};
}

// A row as f16 under a power of two. `read(tile, half)`: 8 numbers as they lie in memory, the first or the second of a
// thread's 16 of a tile. kUnrolled: there are registers for all of them.
template <bool kUnrolled, class Read>
__device__ inline void convert_q(Shared& s, const QueryRow& q, int quarter, const Read& read) {
  const uint32_t to = kQ + swizzled_16(q.row, 2 * quarter);
  const auto store = [&](int tile, float factor) {
    float x[16];
    unpack(read(tile, 0), x);
    unpack(read(tile, 1), x + 8);
    store_q(to + tile * kTileBytes, x, factor, q.used);
  };
  Largest largest;
#pragma unroll(kUnrolled ? kTiles : 1)
  for (int tile = 0; tile < kTiles; ++tile) {
    largest.add(read(tile, 0));
    largest.add(read(tile, 1));
  }
  uint32_t bits = largest.bits();
  bits = max(bits, __shfl_xor_sync(~0U, bits, 1));
  bits = max(bits, __shfl_xor_sync(~0U, bits, 2));
  // Numbers that f16 has room for stay as they are. Else the row's largest becomes one of [16, 32), and its scores are
  // multiplied by what was taken off.
  const int biased = static_cast<int>(bits >> 23);
  const bool plain = (biased >= 127 - 8 && biased <= 127 + 14) || biased < 24 || biased > 250;  // or zeros, infinities
  const float factor = plain ? 1.0F : __uint_as_float(static_cast<uint32_t>(131 + 127 - biased) << 23);
#pragma unroll(kUnrolled ? kTiles : 1)
  for (int tile = 0; tile < kTiles; ++tile) store(tile, factor);
  if (quarter == 0) {
    s.score_factors[q.row] = plain ? 1.0F : __uint_as_float(static_cast<uint32_t>(biased - 4) << 23);
    if (!plain) s.plain = false;
  }
  fence_async_proxy();
}

// f32 numbers are read twice, bf16 ones are kept in registers.
__device__ inline void load_q(const Params& p, Shared& s, const BlockInfo& info, const Place& place) {
  const QueryRow q = query_row(p, info, (place.warpgroup * 4 + place.warp) * 8 + place.lane / 4);
  const int quarter = place.lane % 4;
  if (p.call.q.dtype == DType::kF32) {
    const auto* from = static_cast<const Float8*>(q.from) + 2 * quarter;
    convert_q<false>(s, q, quarter, [&](int tile, int half) { return from[tile * 8 + half]; });
  } else {
    const auto* from = static_cast<const uint4*>(q.from) + 2 * quarter;
    uint4 kept[kTiles][2];
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) kept[i / 2][i % 2] = from[i / 2 * 8 + i % 2];
    convert_q<true>(s, q, quarter, [&](int tile, int half) { return kept[tile][half]; });
  }
}

}  // namespace strobe::kernel::cuda::sm90::mla
