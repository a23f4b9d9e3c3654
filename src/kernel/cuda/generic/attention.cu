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

// The softmax of one head so far, over the positions of one warp.
struct Running {
  float highest = kNothing;
  float total = 0;
};

// Adds a lane's score (kNothing where its position is not seen). Returns its weight; `shrink`: what earlier sums are to
// be multiplied by.
__device__ float add_scores(Running& running, float score, float* shrink) {
  const float highest = fmaxf(running.highest, largest_of_warp(score));
  *shrink = highest == kNothing ? 1.0F : exp2f(running.highest - highest);
  const float weight = score == kNothing ? 0.0F : exp2f(score - highest);
  running.highest = highest;
  running.total = running.total * *shrink + sum_of_warp(weight);
  return weight;
}

// kPieces: of 128 numbers in a value.
template <int kPieces>
__global__ void __launch_bounds__(32 * kWarps) any_attention_kernel(const __grid_constant__ AnyAttention call) {
  __shared__ __align__(16) float queries[kHeads][kMaxAttentionKeyDim];
  __shared__ __align__(16) float sums[kWarps][128 * kPieces];
  __shared__ Running runnings[kHeads][kWarps];
  wait_for_predecessor();
  let_successor_start();
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

  const int key_room = (call.key_dim + 127) / 128 * 128;
  for (int i = static_cast<int>(threadIdx.x); i < kHeads * key_room; i += 32 * kWarps) {
    const int h = i / key_room;
    const int c = i % key_room;
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
    const int slot = visible ? static_cast<int>(slot_of(request.pages, call.k.page_size, mine)) : 0;
    float scores[kHeads] = {kNothing, kNothing, kNothing, kNothing};
    const int begin = max(seen.first - base, 0);
    const int end = min(seen.last - base, kBlock);
#pragma unroll 2
    for (int i = begin; i < end; ++i) {
      const int64_t start = int64_t{__shfl_sync(~0U, slot, i)} * call.k.dim + int64_t{group} * call.key_dim;
      float dots[kHeads] = {};
      for (int c = 4 * lane; c < call.key_dim; c += 128) {
        const float4 key = read_4_guarded(call.k.data, call.k.dtype, start, c, call.key_dim, call.aligned);
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          dots[h] = dot_4(*reinterpret_cast<const float4*>(&queries[h][c]), key, dots[h]);
        }
      }
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float score = sum_of_warp(dots[h]) * call.scale;
        if (lane == i) scores[h] = score;
      }
    }
    float weights[kHeads];
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float shrink;
      weights[h] = add_scores(running[h], visible ? scores[h] : kNothing, &shrink);
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        acc[h][i] = {acc[h][i].x * shrink, acc[h][i].y * shrink, acc[h][i].z * shrink, acc[h][i].w * shrink};
      }
    }
#pragma unroll 2
    for (int i = begin; i < end; ++i) {
      const int64_t start = int64_t{__shfl_sync(~0U, slot, i)} * call.v.dim + int64_t{group} * call.value_dim;
      float weight[kHeads];
#pragma unroll
      for (int h = 0; h < kHeads; ++h) weight[h] = __shfl_sync(~0U, weights[h], i);
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        const int c = 128 * piece + 4 * lane;
        if (c >= call.value_dim) continue;
        const float4 v = read_4_guarded(call.v.data, call.v.dtype, start, c, call.value_dim, call.aligned);
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          float4& a = acc[h][piece];
          a = {fmaf(weight[h], v.x, a.x), fmaf(weight[h], v.y, a.y), fmaf(weight[h], v.z, a.z),
               fmaf(weight[h], v.w, a.w)};
        }
      }
    }
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
      factors[w] = own == kNothing ? 0.0F : exp2f(own - highest);
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

void any_attention(const AnyAttention& call, int64_t rows, cudaStream_t stream) {
  if (rows == 0 || call.request_count == 0) return;
  const dim3 grid(static_cast<unsigned>(rows),
                  static_cast<unsigned>(call.groups) * blocks_for(call.heads_per_group, kHeads));
  if (call.value_dim <= 128) {
    launch("attention", any_attention_kernel<1>, grid, 32 * kWarps, 0, stream, call);
  } else if (call.value_dim <= 256) {
    launch("attention", any_attention_kernel<2>, grid, 32 * kWarps, 0, stream, call);
  } else {
    launch("attention", any_attention_kernel<4>, grid, 32 * kWarps, 0, stream, call);
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
  any_attention({.q = call.q,
                 .k = call.k,
                 .v = call.v,
                 .requests = call.requests,
                 .first_visible = call.first_visible,
                 .request_count = call.request_count,
                 .out = call.out,
                 .key_dim = static_cast<int>(call.head_dim),
                 .value_dim = static_cast<int>(call.head_dim),
                 .groups = static_cast<int>(call.kv_heads),
                 .heads_per_group = static_cast<int>(call.heads / call.kv_heads),
                 .scale = call.scale * scale_of(call.k) * kLog2E,
                 .value_scale = scale_of(call.v),
                 .causal = call.causal,
                 .window = call.window,
                 .aligned = vectors_of_4(call.k) && vectors_of_4(call.v) && call.head_dim % 4 == 0},
                call.rows, stream);
}

}  // namespace strobe::kernel::cuda
