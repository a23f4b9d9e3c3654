// What one warp computes of grouped-query attention.
#pragma once

#include "kernel/cuda/generic/gqa_tile.cuh"
#include "kernel/cuda/generic/numbers.cuh"

namespace strobe::kernel::cuda::gqa_detail {

// Eight stored numbers as bf16.
template <bool kE4m3>
__device__ uint4 load_8(const void* data, int64_t index) {
  if constexpr (kE4m3) {
    const uint2 codes = *reinterpret_cast<const uint2*>(static_cast<const uint8_t*>(data) + index);
    const auto pair = [](uint32_t two) {
      const float2 v = e4m3x2_floats(static_cast<uint16_t>(two));
      return float_bf16x2(v.x, v.y);
    };
    return {pair(codes.x), pair(codes.x >> 16), pair(codes.y), pair(codes.y >> 16)};
  } else {
    return *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(data) + index);
  }
}

__device__ inline uint32_t& word(uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}
__device__ inline bool not_finite(uint32_t pair) {
  return (pair & 0x7f80U) == 0x7f80U || (pair & 0x7f800000U) == 0x7f800000U;
}

// One warp's work on one tile.
template <int kDim, bool kE4m3>
struct Worker {
  using S = Shape<kDim>;

  const GqaAttention& call;
  int g;
  int t;
  int group;
  int heads;  // of the group
  uint4 q[S::kMTiles][S::kHalves][2];
  Visible seen[S::kMTiles][2];  // of rows g and g + 8
  int row_of[S::kMTiles][2];    // which row of the request
  float sums[S::kMTiles][S::kNTiles][4] = {};
  float highest[S::kMTiles][2];
  float total[S::kMTiles][2] = {};
  uint4 values[kBlock / 16][4][S::kHalves / 2];  // positions 2t, 2t + 1, 2t + 8, 2t + 9 of 16; numbers 8g ... and 64 on

  __device__ void begin(const AttentionRequest& request, const Tile& tile, int first_visible, bool q_aligned) {
    const int count = request.row_count * heads;
#pragma unroll
    for (int m = 0; m < S::kMTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int folded = tile.first + 16 * m + 8 * i + g;
        const int j = folded / heads;
        const int head = group * heads + folded % heads;
        const bool there = folded < count;
        highest[m][i] = kNothing;
        row_of[m][i] = there ? j : -1;
        if (there) seen[m][i] = visible_to(request, j, first_visible, call.causal, call.window);
#pragma unroll
        for (int half = 0; half < S::kHalves; ++half) {
          q[m][half][i] = {};
          if (there) {
            q[m][half][i] = read_8_as_bf16(call.q, request.row_begin + j, int64_t{head} * kDim + 32 * half + 8 * t,
                                           int64_t{head + 1} * kDim, q_aligned);
          }
        }
      }
    }
  }

  __device__ void load_values(int slot) {
#pragma unroll
    for (int s = 0; s < kBlock / 16; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int64_t from = __shfl_sync(~0U, slot, 16 * s + 2 * t + i % 2 + i / 2 * 8);
#pragma unroll
        for (int part = 0; part < S::kHalves / 2; ++part) {
          values[s][i][part] = {};
          if (from >= 0)
            values[s][i][part] = load_8<kE4m3>(call.v.data, from * call.v.dim + group * kDim + 64 * part + 8 * g);
        }
      }
    }
  }

  // Scores of positions [base, base + 32): scores[m][n] is a product's result, positions base + 8n + ...
  __device__ void score(float (&scores)[S::kMTiles][kBlock / 8][4], int base, int slot) {
    uint4 keys[kBlock / 8][S::kHalves];
#pragma unroll
    for (int n = 0; n < kBlock / 8; ++n) {
      const int64_t from = __shfl_sync(~0U, slot, 8 * n + g);
#pragma unroll
      for (int half = 0; half < S::kHalves; ++half) {
        keys[n][half] = {};
        if (from >= 0) keys[n][half] = load_8<kE4m3>(call.k.data, from * call.k.dim + group * kDim + 32 * half + 8 * t);
      }
    }
    if constexpr (S::kValuesEarly) load_values(slot);
#pragma unroll
    for (int n = 0; n < kBlock / 8; ++n) {
#pragma unroll
      for (int m = 0; m < S::kMTiles; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[m][n][i] = 0;
#pragma unroll
        for (int half = 0; half < S::kHalves; ++half) {
          const uint4& low = q[m][half][0];
          const uint4& high = q[m][half][1];
          const uint4& k = keys[n][half];
          mma_bf16(scores[m][n], low.x, high.x, low.y, high.y, k.x, k.y);
          mma_bf16(scores[m][n], low.z, high.z, low.w, high.w, k.z, k.w);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int position = base + 8 * n + 2 * t + i % 2;
          const Visible& v = seen[m][i / 2];
          const bool visible = position >= v.first && position < v.last;
          scores[m][n][i] = visible ? scores[m][n][i] * scale : kNothing;
        }
      }
    }
  }

  // The softmax so far takes the scores in; they become weights.
  __device__ void weigh(float (&scores)[S::kMTiles][kBlock / 8][4]) {
#pragma unroll
    for (int m = 0; m < S::kMTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float most = highest[m][i];
#pragma unroll
        for (int n = 0; n < kBlock / 8; ++n) most = fmaxf(most, fmaxf(scores[m][n][2 * i], scores[m][n][2 * i + 1]));
        most = fmaxf(most, __shfl_xor_sync(~0U, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0U, most, 2));
        const float shrink = most == kNothing ? 1.0F : exp2_approximate(highest[m][i] - most);
        highest[m][i] = most;
        float added = 0;
#pragma unroll
        for (int n = 0; n < kBlock / 8; ++n) {
#pragma unroll
          for (int c = 2 * i; c < 2 * i + 2; ++c) {
            const float weight = scores[m][n][c] == kNothing ? 0.0F : exp2_approximate(scores[m][n][c] - most);
            scores[m][n][c] = weight;
            added += weight;
          }
        }
        total[m][i] = total[m][i] * shrink + added;
#pragma unroll
        for (int n = 0; n < S::kNTiles; ++n) {
          sums[m][n][2 * i] *= shrink;
          sums[m][n][2 * i + 1] *= shrink;
        }
      }
    }
  }

  // sums += weights times values.
  __device__ void add_values(const uint32_t (&weights)[S::kMTiles][kBlock / 16][4]) {
#pragma unroll
    for (int s = 0; s < kBlock / 16; ++s) {
#pragma unroll
      for (int n = 0; n < S::kNTiles; ++n) {
        const uint32_t b0 = value_pair(s, 0, n);
        const uint32_t b1 = value_pair(s, 2, n);
#pragma unroll
        for (int m = 0; m < S::kMTiles; ++m) {
          const uint32_t(&w)[4] = weights[m][s];
          mma_bf16(sums[m][n], w[0], w[1], w[2], w[3], b0, b1);
        }
      }
    }
  }

  // The same for row `row` of the request alone; values that it does not see count as zero.
  __device__ void add_values_of_row(const uint32_t (&weights)[S::kMTiles][kBlock / 16][4], int base, int row,
                                    const Visible& v) {
#pragma unroll
    for (int s = 0; s < kBlock / 16; ++s) {
      uint32_t masks[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int position = base + 16 * s + 2 * t + i % 2 + i / 2 * 8;
        masks[i] = position >= v.first && position < v.last ? ~0U : 0U;
      }
      const uint32_t mask0 = (masks[0] & 0xffffU) | (masks[1] & 0xffff0000U);
      const uint32_t mask1 = (masks[2] & 0xffffU) | (masks[3] & 0xffff0000U);
#pragma unroll
      for (int n = 0; n < S::kNTiles; ++n) {
        const uint32_t b0 = value_pair(s, 0, n) & mask0;
        const uint32_t b1 = value_pair(s, 2, n) & mask1;
#pragma unroll
        for (int m = 0; m < S::kMTiles; ++m) {
          const uint32_t(&w)[4] = weights[m][s];
          float result[4] = {sums[m][n][0], sums[m][n][1], sums[m][n][2], sums[m][n][3]};
          mma_bf16(result, w[0], w[1], w[2], w[3], b0, b1);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (row_of[m][i / 2] == row) sums[m][n][i] = result[i];
          }
        }
      }
    }
  }

  // Number n of every eight, at this lane's positions `i` and `i` + 1 of 16.
  __device__ uint32_t value_pair(int s, int i, int n) {
    const int pair = n % 8 / 2;
    return __byte_perm(word(values[s][i][n / 8], pair), word(values[s][i + 1][n / 8], pair),
                       n % 2 == 0 ? 0x5410 : 0x7632);
  }

  __device__ bool values_finite() {
    bool finite = true;
#pragma unroll
    for (int s = 0; s < kBlock / 16; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int part = 0; part < S::kHalves / 2; ++part) {
#pragma unroll
          for (int w = 0; w < 4; ++w) finite = finite && !not_finite(word(values[s][i][part], w));
        }
      }
    }
    return __all_sync(~0U, finite);
  }

  float scale;
};

}  // namespace strobe::kernel::cuda::gqa_detail
