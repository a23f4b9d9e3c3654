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

// The bits of the largest magnitude among 8 numbers and `bits`: as whole numbers they have the order of the numbers. Of
// bf16 two at a time.
__device__ inline uint32_t larger_bits(const Float8& packed, uint32_t bits) {
  float x[8];
  unpack(packed, x);
#pragma unroll
  for (const float value : x) bits = max(bits, __float_as_uint(value) & 0x7fffffffU);
  return bits;
}
__device__ inline uint32_t larger_bits(const uint4& packed, uint32_t bits) {
  bits = __vmaxu2(__vmaxu2(bits, packed.x & 0x7fff7fffU), packed.y & 0x7fff7fffU);
  return __vmaxu2(__vmaxu2(bits, packed.z & 0x7fff7fffU), packed.w & 0x7fff7fffU);
}

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

// Rows of q as f16 under a power of two each. Four threads take a row, each every fourth 16 numbers. `Eight`: 8 numbers
// as they lie in memory. kKeep: they are read once and kept in registers, else twice.
template <class Eight, bool kKeep>
__device__ inline void load_q_as(const Params& p, Shared& s, const BlockInfo& info, const Place& place) {
  const int heads = static_cast<int>(p.call.heads);
  const int row = (place.warpgroup * 4 + place.warp) * 8 + place.lane / 4;
  const int folded = min(info.rows.begin + row, info.rows.end - 1);
  const Eight* from = static_cast<const Eight*>(p.call.q.data) +
                      (info.row_begin + folded / heads) * (p.call.q.stride / 8) + folded % heads * (kDim / 8) +
                      2 * (place.lane % 4);
  Eight kept[kKeep ? kTiles : 1][2];
  const auto read = [&](int tile, float(&x)[16]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if constexpr (kKeep) {
        unpack(kept[tile][half], x + 8 * half);
      } else {
        unpack(from[tile * 8 + half], x + 8 * half);
      }
    }
  };
  if constexpr (kKeep) {
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) kept[i / 2][i % 2] = from[i / 2 * 8 + i % 2];
  }
  const bool used = info.rows.begin + row < info.rows.end;
  const uint32_t to = kQ + swizzled_16(row, 2 * (place.lane % 4));
  const auto store = [&](float factor) {
#pragma unroll(kKeep ? kTiles : 1)
    for (int tile = 0; tile < kTiles; ++tile) {
      float x[16];
      read(tile, x);
      store_q(to + tile * kTileBytes, x, factor, used);
    }
  };
  uint32_t largest_bits = 0;
#pragma unroll(kKeep ? kTiles : 1)
  for (int tile = 0; tile < kTiles; ++tile) {
    if constexpr (kKeep) {
      largest_bits = larger_bits(kept[tile][1], larger_bits(kept[tile][0], largest_bits));
    } else {
      largest_bits = larger_bits(from[tile * 8 + 1], larger_bits(from[tile * 8], largest_bits));
    }
  }
  if constexpr (kKeep) largest_bits = max(largest_bits << 16, largest_bits & 0xffff0000U);
  largest_bits = max(largest_bits, __shfl_xor_sync(~0U, largest_bits, 1));
  largest_bits = max(largest_bits, __shfl_xor_sync(~0U, largest_bits, 2));
  // Numbers that f16 has room for stay as they are. Else the row's largest becomes one of [16, 32), and its scores are
  // multiplied by what was taken off.
  const int biased = static_cast<int>(largest_bits >> 23);
  const bool plain = (biased >= 127 - 8 && biased <= 127 + 14) || biased < 24 || biased > 250;  // or zeros, infinities
  store(plain ? 1.0F : __uint_as_float(static_cast<uint32_t>(131 + 127 - biased) << 23));
  if (place.lane % 4 == 0) {
    s.score_factors[row] = plain ? 1.0F : __uint_as_float(static_cast<uint32_t>(biased - 4) << 23);
    if (!plain) s.plain = false;
  }
}

__device__ void load_q(const Params& p, Shared& s, const BlockInfo& info, const Place& place) {
  if (p.call.q.dtype == DType::kF32) {
    load_q_as<Float8, false>(p, s, info, place);
  } else {
    load_q_as<uint4, true>(p, s, info, place);
  }
  fence_async_proxy();
}

}  // namespace strobe::kernel::cuda::sm90::mla
