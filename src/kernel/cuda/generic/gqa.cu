// A cluster of four blocks of threads has 32 (heads of 64 numbers) or 16 (128) folded rows of one request, folded row
// f being head f % G of row f / G of the G heads that share keys. Position block b, 32 positions counted from position
// 0, belongs to block b % 4 of the cluster and there to warp b / 4 % 8. Warps merge in ascending order, then blocks.
//
// Keys and values go from memory straight into the registers where they are operands. A warp multiplies
//   scores [16 rows, 8 positions] += q [16, 16 numbers] k^T: a lane has 8 neighbouring numbers of a row or key
//   sums [16 rows, 8 numbers]    += p [16, 16 positions] v: number i of every 8 is column i of the product's
//                                   operand, so that a lane has 8 neighbouring numbers of four values
//
// A row's bytes depend on no other row of its tile: what a row does not see adds exact zeros to it, and values that are
// not finite and seen by a part of the rows only are multiplied row by row.
#include <cooperative_groups.h>

#include <algorithm>

#include "kernel/cuda/generic/attention_rows.cuh"
#include "kernel/cuda/generic/gqa.cuh"
#include "kernel/cuda/generic/launch.cuh"
#include "kernel/cuda/generic/numbers.cuh"

namespace strobe::kernel::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kCluster = 4;
constexpr int kBlock = 32;  // positions
constexpr float kNothing = -__builtin_huge_valf();
constexpr float kLog2E = 1.4426950408889634F;

template <int kDim>
struct Shape {
  static constexpr int kMTiles = 128 / kDim;  // of 16 folded rows
  static constexpr int kRows = 16 * kMTiles;
  static constexpr int kHalves = kDim / 32;  // 32 numbers of a query or key: two products
  static constexpr int kNTiles = kDim / 8;   // of 8 numbers of a value
};

// Partial results, in shared memory.
template <int kDim>
struct Partials {
  static constexpr int kRows = Shape<kDim>::kRows;
  static constexpr int kStride = kDim + 4;
  float sums[kWarps][kRows][kStride];
  float highest[kWarps][kRows];
  float total[kWarps][kRows];
  // Of the whole block; sums are in sums[0].
  float block_highest[kRows];
  float block_total[kRows];
};

struct Tile {
  int request = -1;
  int first = 0;  // folded row
};

// Tile number `index` of the call, counted over requests; request -1 behind the last.
__device__ Tile find_tile(const AttentionRequest* requests, int count, int heads, int rows_per_tile, int index) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int before = 0;
  for (int base = 0; base < count; base += 32) {
    const int rows = base + lane < count ? requests[base + lane].row_count : 0;
    const int tiles = (rows * heads + rows_per_tile - 1) / rows_per_tile;
    int end = tiles;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(~0U, end, distance);
      if (lane >= distance) end += other;
    }
    const uint32_t behind = __ballot_sync(~0U, before + end > index);
    if (behind != 0) {
      const int owner = __ffs(static_cast<int>(behind)) - 1;
      const int begin = before + __shfl_sync(~0U, end - tiles, owner);
      return {.request = base + owner, .first = (index - begin) * rows_per_tile};
    }
    before += __shfl_sync(~0U, end, 31);
  }
  return {};
}

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

__device__ uint32_t& word(uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}
__device__ bool not_finite(uint32_t pair) {
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
        const float shrink = most == kNothing ? 1.0F : exp2f(highest[m][i] - most);
        highest[m][i] = most;
        float added = 0;
#pragma unroll
        for (int n = 0; n < kBlock / 8; ++n) {
#pragma unroll
          for (int c = 2 * i; c < 2 * i + 2; ++c) {
            const float weight = scores[m][n][c] == kNothing ? 0.0F : exp2f(scores[m][n][c] - most);
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

template <int kDim, bool kE4m3>
__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(32 * kWarps, 1)
    gqa_kernel(const __grid_constant__ GqaAttention call, bool q_aligned) {
  using S = Shape<kDim>;
  using P = Partials<kDim>;
  extern __shared__ __align__(16) uint8_t memory[];
  P& partials = *reinterpret_cast<P*>(memory);
  wait_for_predecessor();
  let_successor_start();
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const int rank = static_cast<int>(cluster.block_rank());
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int group = static_cast<int>(blockIdx.y);
  const int heads = static_cast<int>(call.heads / call.kv_heads);
  const Tile tile = find_tile(call.requests, static_cast<int>(call.request_count), heads, S::kRows,
                              static_cast<int>(blockIdx.x) / kCluster);
  if (tile.request < 0) return;  // the whole cluster
  const AttentionRequest request = call.requests[tile.request];
  const int first_visible = call.first_visible == nullptr ? 0 : call.first_visible[tile.request];
  const int count = min(S::kRows, request.row_count * heads - tile.first);
  const int first_row = tile.first / heads;
  const int last_row = (tile.first + count - 1) / heads;
  const Visible of_first = visible_to(request, first_row, first_visible, call.causal, call.window);
  const Visible of_last = visible_to(request, last_row, first_visible, call.causal, call.window);
  const Visible any{.first = of_first.first, .last = of_last.last};
  const Visible all{.first = of_last.first, .last = of_first.last};

  Worker<kDim, kE4m3> worker{.call = call, .g = thread % 32 / 4, .t = thread % 4, .group = group, .heads = heads};
  worker.scale = call.scale * (kE4m3 ? call.k.scale : 1.0F) * kLog2E;
  worker.begin(request, tile, first_visible, q_aligned);
  constexpr int kSplits = kCluster * kWarps;
  const int split = rank + kCluster * warp;
  for (int block = any.first / kBlock / kSplits * kSplits + split; block * kBlock < any.last; block += kSplits) {
    const int base = block * kBlock;
    if (base + kBlock <= any.first) continue;
    const int mine = base + thread % 32;
    const bool stored = mine >= any.first && mine < any.last;
    const int slot = stored ? static_cast<int>(slot_of(request.pages, call.k.page_size, mine)) : -1;
    float scores[S::kMTiles][kBlock / 8][4];
    worker.score(scores, base, slot);
    worker.weigh(scores);
    uint32_t weights[S::kMTiles][kBlock / 16][4];
#pragma unroll
    for (int m = 0; m < S::kMTiles; ++m) {
#pragma unroll
      for (int s = 0; s < kBlock / 16; ++s) {
        weights[m][s][0] = float_bf16x2(scores[m][2 * s][0], scores[m][2 * s][1]);
        weights[m][s][1] = float_bf16x2(scores[m][2 * s][2], scores[m][2 * s][3]);
        weights[m][s][2] = float_bf16x2(scores[m][2 * s + 1][0], scores[m][2 * s + 1][1]);
        weights[m][s][3] = float_bf16x2(scores[m][2 * s + 1][2], scores[m][2 * s + 1][3]);
      }
    }
    const bool alike = max(base, any.first) >= all.first && min(base + kBlock, any.last) <= all.last;
    if (alike || worker.values_finite()) {
      worker.add_values(weights);
      continue;
    }
    for (int row = first_row; row <= last_row; ++row) {
      worker.add_values_of_row(weights, base, row, visible_to(request, row, first_visible, call.causal, call.window));
    }
  }

  // This warp's results.
#pragma unroll
  for (int m = 0; m < S::kMTiles; ++m) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = 16 * m + 8 * i + worker.g;
      float total = worker.total[m][i];
      total += __shfl_xor_sync(~0U, total, 1);
      total += __shfl_xor_sync(~0U, total, 2);
      if (worker.t == 0) {
        partials.highest[warp][row] = worker.highest[m][i];
        partials.total[warp][row] = total;
      }
#pragma unroll
      for (int n = 0; n < S::kNTiles; n += 4) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const auto& sums = worker.sums[m];
          *reinterpret_cast<float4*>(&partials.sums[warp][row][n / 8 * 64 + 16 * worker.t + 8 * c + n % 8]) = {
              sums[n][2 * i + c], sums[n + 1][2 * i + c], sums[n + 2][2 * i + c], sums[n + 3][2 * i + c]};
        }
      }
    }
  }
  __syncthreads();

  // The block's: each number is read and replaced by one thread.
  for (int i = thread; i < S::kRows * kDim; i += 32 * kWarps) {
    const int row = i / kDim;
    const int c = i % kDim;
    float most = kNothing;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) most = fmaxf(most, partials.highest[w][row]);
    float sum = 0;
    float total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float own = partials.highest[w][row];
      const float factor = own == kNothing ? 0.0F : exp2f(own - most);
      sum += partials.sums[w][row][c] * factor;
      total += partials.total[w][row] * factor;
    }
    partials.sums[0][row][c] = sum;
    if (c == 0) {
      partials.block_highest[row] = most;
      partials.block_total[row] = total;
    }
  }
  cluster.sync();

  // The cluster's: each block finishes a part of the numbers.
  const P* blocks[kCluster];
#pragma unroll
  for (int r = 0; r < kCluster; ++r) blocks[r] = cluster.map_shared_rank(&partials, r);
  constexpr int kPart = S::kRows * kDim / kCluster;
  for (int i = rank * kPart + thread; i < (rank + 1) * kPart; i += 32 * kWarps) {
    const int row = i / kDim;
    const int c = i % kDim;
    if (row >= count) break;
    float own[kCluster];
    float most = kNothing;
#pragma unroll
    for (int r = 0; r < kCluster; ++r) {
      own[r] = blocks[r]->block_highest[row];
      most = fmaxf(most, own[r]);
    }
    float sum = 0;
    float total = 0;
#pragma unroll
    for (int r = 0; r < kCluster; ++r) {
      const float factor = own[r] == kNothing ? 0.0F : exp2f(own[r] - most);
      sum += blocks[r]->sums[0][row][c] * factor;
      total += blocks[r]->block_total[row] * factor;
    }
    const int folded = tile.first + row;
    const Visible seen = visible_to(request, folded / heads, first_visible, call.causal, call.window);
    const float value = seen.first < seen.last ? sum / total * (kE4m3 ? call.v.scale : 1.0F) : 0.0F;
    put(call.out, request.row_begin + folded / heads, int64_t{group * heads + folded % heads} * kDim + c, value);
  }
  cluster.sync();  // others may still read from here
}

template <int kDim, bool kE4m3>
void launch_gqa(const GqaAttention& call, cudaStream_t stream) {
  const auto kernel = gqa_kernel<kDim, kE4m3>;
  constexpr int kBytes = sizeof(Partials<kDim>);
  allow_shared_memory(reinterpret_cast<const void*>(kernel), kBytes, "gqa_attention");
  const int64_t heads = call.heads / call.kv_heads;
  // A request's last tile may be partly empty.
  const int64_t tiles = call.rows * heads / Shape<kDim>::kRows + std::min(call.request_count, call.rows);
  const dim3 grid(static_cast<unsigned>(tiles * kCluster), static_cast<unsigned>(call.kv_heads));
  launch("gqa_attention", kernel, grid, 32 * kWarps, kBytes, stream, call, vectors_of_8(call.q));
}

bool fits(const PagedStore& store) {
  const int numbers = store.dtype == DType::kE4m3 ? 16 : 8;
  return store.dtype != DType::kF32 && vectors_of(numbers, store.data, store.dtype, store.dim);
}

}  // namespace

bool gqa_applies(const GqaAttention& call) {
  return (call.head_dim == 64 || call.head_dim == 128) && call.k.dtype == call.v.dtype &&
         call.k.page_size == call.v.page_size && fits(call.k) && fits(call.v);
}

void gqa(const GqaAttention& call, cudaStream_t stream) {
  const bool e4m3 = call.k.dtype == DType::kE4m3;
  if (call.head_dim == 64) {
    e4m3 ? launch_gqa<64, true>(call, stream) : launch_gqa<64, false>(call, stream);
  } else {
    e4m3 ? launch_gqa<128, true>(call, stream) : launch_gqa<128, false>(call, stream);
  }
}

}  // namespace strobe::kernel::cuda
