// Attention of any shape over any store. A block of threads has one row and up to four heads that share keys; a warp
// has every eighth 32 positions, counted from position 0. Sums of warps are merged in ascending order. Positions that
// the row does not see are not read.
#include <algorithm>

#include "kernel/cuda/generic.h"
#include "kernel/cuda/generic/attention_rows.cuh"
#include "kernel/cuda/generic/gqa.cuh"
#include "kernel/cuda/generic/launch.cuh"
#include "kernel/cuda/generic/numbers.cuh"

namespace strobe::kernel::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kHeads = 4;   // of one block
constexpr int kBlock = 32;  // positions: a lane has one in the softmax
constexpr int kGroup = 4;   // positions whose numbers are on their way together
constexpr float kNothing = -__builtin_huge_valf();
constexpr float kLog2E = 1.4426950408889634F;

// Both attentions. MLA: one group of all heads, values are the first `value_dim` numbers of keys.
struct AnyAttention {
  Rows q;
  PagedStore k;
  PagedStore v;
  const AttentionRequest* requests = nullptr;
  const int32_t* first_visible = nullptr;
  int64_t request_count = 0;
  Rows out;
  int key_dim = 0;
  int value_dim = 0;
  int groups = 0;  // of heads that share keys
  int heads_per_group = 0;
  float scale = 1;  // of scores; the scale of k's numbers included
  float value_scale = 1;
  bool causal = true;
  int window = 0;
  bool aligned = false;  // keys and values can be read four numbers at a time
};

// The request that row `row` belongs to, in every thread of the block; -1 for none.
__device__ int find_request(const AnyAttention& call, int row) {
  __shared__ int found;
  if (threadIdx.x == 0) found = -1;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < call.request_count; i += blockDim.x) {
    const int begin = call.requests[i].row_begin;
    if (row >= begin && row - begin < call.requests[i].row_count) found = static_cast<int>(i);
  }
  __syncthreads();
  return found;
}

__device__ float sum_of_warp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0U, value, distance);
  return value;
}
__device__ float largest_of_warp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value = fmaxf(value, __shfl_xor_sync(~0U, value, distance));
  return value;
}
__device__ float dot_4(float4 a, float4 b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

// Adds up 16 numbers over the lanes of a warp: number i in lanes 2 i and 2 i + 1.
__device__ float sum_16_over_lanes(float (&v)[16]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 8; half > 0; half /= 2) {
    const bool upper = (lane & (2 * half)) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float kept = upper ? v[i + half] : v[i];
      const float given = upper ? v[i] : v[i + half];
      v[i] = kept + __shfl_xor_sync(~0U, given, 2 * half);
    }
  }
  return v[0] + __shfl_xor_sync(~0U, v[0], 1);
}

// The softmax of one head so far, over the positions of one warp.
struct Running {
  float highest = kNothing;
  float total = 0;
};

// Adds a lane's score (kNothing where its position is not seen). Returns its weight; `shrink`: what earlier sums are to
// be multiplied by.
__device__ float add_scores(Running& running, float score, float* shrink) {
  const float highest = fmaxf(running.highest, largest_of_warp(score));
  *shrink = highest == kNothing ? 1.0F : exp2_approximate(running.highest - highest);
  const float weight = score == kNothing ? 0.0F : exp2_approximate(score - highest);
  running.highest = highest;
  running.total = running.total * *shrink + sum_of_warp(weight);
  return weight;
}

// How numbers of stores are read: by type in vectors, or one by one.
enum class StoreLoad { kF32, kBf16, kE4m3, kAny };

template <StoreLoad kLoad>
__device__ float4 load_4(const PagedStore& store, int64_t start, int column, int columns) {
  if constexpr (kLoad == StoreLoad::kAny) {
    return read_4_guarded(store.data, store.dtype, start, column, columns, false);
  } else {
    constexpr DType kType = kLoad == StoreLoad::kF32    ? DType::kF32
                            : kLoad == StoreLoad::kBf16 ? DType::kBf16
                                                        : DType::kE4m3;
    return read_4_guarded(store.data, kType, start, column, columns, true);
  }
}

// kKeyPieces, kPieces: of 128 numbers in a key and in a value.
template <StoreLoad kLoad, int kKeyPieces, int kPieces>
__global__ void __launch_bounds__(32 * kWarps, 1) any_attention_kernel(const __grid_constant__ AnyAttention call) {
  __shared__ __align__(16) float queries[kHeads][128 * kKeyPieces];
  __shared__ __align__(16) float sums[kWarps][128 * kPieces];
  __shared__ __align__(16) float of_positions[kWarps][kHeads][kBlock];  // scores, then weights
  __shared__ Running runnings[kHeads][kWarps];
  wait_for_launch_ahead();
  let_next_launch_begin();
  const int row = static_cast<int>(blockIdx.x);
  const int blocks_per_group = (call.heads_per_group + kHeads - 1) / kHeads;
  const int group = static_cast<int>(blockIdx.y) / blocks_per_group;
  const int head0 = static_cast<int>(blockIdx.y) % blocks_per_group * kHeads;
  const int heads = min(kHeads, call.heads_per_group - head0);
  const int first_head = group * call.heads_per_group + head0;
  const int index = find_request(call, row);
  if (index < 0) return;
  const AttentionRequest request = call.requests[index];
  const int first_visible = call.first_visible == nullptr ? 0 : call.first_visible[index];
  const Visible seen = visible_to(request, row - request.row_begin, first_visible, call.causal, call.window);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;

  for (int i = static_cast<int>(threadIdx.x); i < kHeads * 128 * kKeyPieces; i += 32 * kWarps) {
    const int h = i / (128 * kKeyPieces);
    const int c = i % (128 * kKeyPieces);
    const bool there = h < heads && c < call.key_dim;
    queries[h][c] = there ? get(call.q, row, int64_t{first_head + h} * call.key_dim + c) : 0.0F;
  }
  __syncthreads();

  Running running[kHeads];
  float4 acc[kHeads][kPieces] = {};
  for (int block = seen.first / kBlock / kWarps * kWarps + warp; block * kBlock < seen.last; block += kWarps) {
    const int base = block * kBlock;
    if (base + kBlock <= seen.first) continue;
    const int mine = base + lane;
    const bool visible = mine >= seen.first && mine < seen.last;
    const int slot = visible ? static_cast<int>(slot_of(request.pages, call.k.page_size, mine)) : -1;
    // Groups of four positions: all their numbers are asked for before the first is used.
    for (int i = 0; i < kBlock; i += kGroup) {
      if (base + i + kGroup <= seen.first || base + i >= seen.last) continue;
      float4 keys[kGroup][kKeyPieces];
#pragma unroll
      for (int p = 0; p < kGroup; ++p) {
        const int from = __shfl_sync(~0U, slot, i + p);
#pragma unroll
        for (int piece = 0; piece < kKeyPieces; ++piece) {
          const int c = 128 * piece + 4 * lane;
          keys[p][piece] = {0, 0, 0, 0};
          if (from < 0 || c >= call.key_dim) continue;
          keys[p][piece] = load_4<kLoad>(call.k, from * call.k.dim + group * call.key_dim, c, call.key_dim);
        }
      }
      float dots[kGroup * kHeads] = {};
#pragma unroll
      for (int piece = 0; piece < kKeyPieces; ++piece) {
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          const float4 q = *reinterpret_cast<const float4*>(&queries[h][128 * piece + 4 * lane]);
#pragma unroll
          for (int p = 0; p < kGroup; ++p) {
            dots[p * kHeads + h] = dot_4(q, keys[p][piece], dots[p * kHeads + h]);
          }
        }
      }
      const float score = sum_16_over_lanes(dots) * call.scale;
      if (lane % 2 == 0) of_positions[warp][lane / 2 % kHeads][i + lane / 2 / kHeads] = score;
    }
    __syncwarp();
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float shrink;
      const float weight = add_scores(running[h], visible ? of_positions[warp][h][lane] : kNothing, &shrink);
      __syncwarp();
      of_positions[warp][h][lane] = weight;
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        acc[h][i] = {acc[h][i].x * shrink, acc[h][i].y * shrink, acc[h][i].z * shrink, acc[h][i].w * shrink};
      }
    }
    __syncwarp();
    for (int i = 0; i < kBlock; i += kGroup) {
      if (base + i + kGroup <= seen.first || base + i >= seen.last) continue;
      float4 values[kGroup][kPieces];
#pragma unroll
      for (int p = 0; p < kGroup; ++p) {
        const int from = __shfl_sync(~0U, slot, i + p);
#pragma unroll
        for (int piece = 0; piece < kPieces; ++piece) {
          const int c = 128 * piece + 4 * lane;
          values[p][piece] = {0, 0, 0, 0};
          if (from < 0 || c >= call.value_dim) continue;
          values[p][piece] = load_4<kLoad>(call.v, from * call.v.dim + group * call.value_dim, c, call.value_dim);
        }
      }
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float4 four = *reinterpret_cast<const float4*>(&of_positions[warp][h][i]);
        const float weights[kGroup] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int p = 0; p < kGroup; ++p) {
#pragma unroll
          for (int piece = 0; piece < kPieces; ++piece) {
            const float4 v = values[p][piece];
            float4& a = acc[h][piece];
            a = {fmaf(weights[p], v.x, a.x), fmaf(weights[p], v.y, a.y), fmaf(weights[p], v.z, a.z),
                 fmaf(weights[p], v.w, a.w)};
          }
        }
      }
    }
    __syncwarp();
  }

#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (h >= heads) break;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) *reinterpret_cast<float4*>(&sums[warp][128 * i + 4 * lane]) = acc[h][i];
    if (lane == 0) runnings[h][warp] = running[h];
    __syncthreads();
    float highest = kNothing;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) highest = fmaxf(highest, runnings[h][w].highest);
    float total = 0;
    float factors[kWarps];
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float own = runnings[h][w].highest;
      factors[w] = own == kNothing ? 0.0F : exp2_approximate(own - highest);
      total += runnings[h][w].total * factors[w];
    }
    const bool nothing = seen.first >= seen.last;
    for (int c = static_cast<int>(threadIdx.x); c < call.value_dim; c += 32 * kWarps) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += sums[w][c] * factors[w];
      const float value = nothing ? 0.0F : sum / total * call.value_scale;
      put(call.out, row, int64_t{first_head + h} * call.value_dim + c, value);
    }
    __syncthreads();
  }
}

template <StoreLoad kLoad>
void launch_any(const AnyAttention& call, dim3 grid, cudaStream_t stream) {
  if (call.key_dim <= 128 && call.value_dim <= 128) {
    launch("attention", any_attention_kernel<kLoad, 1, 1>, grid, 32 * kWarps, 0, stream, call);
  } else if (call.key_dim <= 256 && call.value_dim <= 256) {
    launch("attention", any_attention_kernel<kLoad, 2, 2>, grid, 32 * kWarps, 0, stream, call);
  } else {
    launch("attention", any_attention_kernel<kLoad, 5, 4>, grid, 32 * kWarps, 0, stream, call);
  }
}

void any_attention(const AnyAttention& call, int64_t rows, cudaStream_t stream) {
  static_assert(kMaxAttentionKeyDim <= 5 * 128 && kMaxAttentionValueDim <= 4 * 128);
  if (rows == 0 || call.request_count == 0) return;
  const dim3 grid(static_cast<unsigned>(rows),
                  static_cast<unsigned>(call.groups) * blocks_for(call.heads_per_group, kHeads));
  if (!call.aligned || call.k.dtype != call.v.dtype) {
    launch_any<StoreLoad::kAny>(call, grid, stream);
  } else if (call.k.dtype == DType::kF32) {
    launch_any<StoreLoad::kF32>(call, grid, stream);
  } else if (call.k.dtype == DType::kBf16) {
    launch_any<StoreLoad::kBf16>(call, grid, stream);
  } else {
    launch_any<StoreLoad::kE4m3>(call, grid, stream);
  }
}

float scale_of(const PagedStore& store) {
  return store.dtype == DType::kE4m3 ? store.scale : 1.0F;
}

bool vectors_of_4(const PagedStore& store) {
  return vectors_of(4, store.data, store.dtype, store.dim);
}

}  // namespace

void mla_attention(const MlaAttention& call, cudaStream_t stream) {
  any_attention({.q = call.q,
                 .k = call.store,
                 .v = call.store,
                 .requests = call.requests,
                 .request_count = call.request_count,
                 .out = call.out,
                 .key_dim = static_cast<int>(call.latent + call.rope),
                 .value_dim = static_cast<int>(call.latent),
                 .groups = 1,
                 .heads_per_group = static_cast<int>(call.heads),
                 .scale = call.scale * scale_of(call.store) * kLog2E,
                 .value_scale = scale_of(call.store),
                 .aligned = vectors_of_4(call.store)},
                call.rows, stream);
}

void gqa_attention(const GqaAttention& call, cudaStream_t stream) {
  if (call.rows == 0 || call.request_count == 0) return;
  if (gqa_applies(call)) {
    gqa(call, stream);
    return;
  }
  const int64_t value_dim = value_dim_of(call);
  any_attention({.q = call.q,
                 .k = call.k,
                 .v = call.v,
                 .requests = call.requests,
                 .first_visible = call.first_visible,
                 .request_count = call.request_count,
                 .out = call.out,
                 .key_dim = static_cast<int>(call.head_dim),
                 .value_dim = static_cast<int>(value_dim),
                 .groups = static_cast<int>(call.kv_heads),
                 .heads_per_group = static_cast<int>(call.heads / call.kv_heads),
                 .scale = call.scale * scale_of(call.k) * kLog2E,
                 .value_scale = scale_of(call.v),
                 .causal = call.causal,
                 .window = call.window,
                 .aligned = vectors_of_4(call.k) && vectors_of_4(call.v) && call.head_dim % 4 == 0 &&
                            value_dim % 4 == 0},
                call.rows, stream);
}

}  // namespace strobe::kernel::cuda
