// Which experts a token goes to: a warp a row. And the pairs of tokens and experts, sorted by expert.
#include "kernel/cuda/generic.h"
#include "kernel/cuda/generic/launch.cuh"
#include "kernel/cuda/generic/order.cuh"

namespace strobe::kernel::cuda {
namespace {

constexpr float kLowest = -__builtin_huge_valf();

// Sets the keys of all experts to 0 whose group is not among the best. `choices`: of all experts.
__device__ void close_groups(const Route& call, const float* choices, float* merits, uint32_t* keys) {
  const int lane = static_cast<int>(threadIdx.x);
  const int groups = static_cast<int>(call.groups);
  const int size = static_cast<int>(call.experts / call.groups);
  for (int g = lane; g < groups; g += 32) {
    float first = kLowest;
    float second = kLowest;
    for (int e = g * size; e < (g + 1) * size; ++e) {
      const float c = choices[e];
      if (c > first) {
        second = first;
        first = c;
      } else if (c > second) {
        second = c;
      }
    }
    merits[g] = size > 1 ? first + second : first;
  }
  __syncwarp();
  for (int g = lane; g < groups; g += 32) {
    int better = 0;
    for (int other = 0; other < groups; ++other) {
      if (merits[other] > merits[g] || (merits[other] == merits[g] && other < g)) ++better;
    }
    if (better < call.top_groups) continue;
    for (int e = g * size; e < (g + 1) * size; ++e) keys[e] = 0;
  }
  __syncwarp();
}

__global__ void __launch_bounds__(32) route_kernel(Route call) {
  __shared__ float scores[kMaxExperts];
  __shared__ float choices[kMaxExperts];
  __shared__ float merits[kMaxExperts];
  __shared__ uint32_t keys[kMaxExperts];
  wait_for_launch_ahead();
  let_next_launch_begin();
  const int lane = static_cast<int>(threadIdx.x);
  const int experts = static_cast<int>(call.experts);
  const float* logits = call.logits + blockIdx.x * call.experts;
  for (int e = lane; e < experts; e += 32) {
    const float score = 1.0F / (1.0F + expf(-logits[e]));
    const float choice = score + (call.bias == nullptr ? 0.0F : call.bias[e]);
    scores[e] = score;
    choices[e] = choice != choice ? kLowest : choice;
    keys[e] = order_key(choices[e]);
  }
  __syncwarp();
  if (call.groups > 1) close_groups(call, choices, merits, keys);

  // Each lane knows its best expert; only the winner's lane looks for its next one.
  uint32_t best_key = 0;
  int best = experts;
  const auto find_best = [&] {
    best_key = 0;
    best = experts;
    for (int e = lane; e < experts; e += 32) {
      if (keys[e] > best_key) {
        best_key = keys[e];
        best = e;
      }
    }
  };
  find_best();
  float sum = 0;
  const int64_t start = blockIdx.x * call.top_k;
  for (int64_t k = 0; k < call.top_k; ++k) {
    const uint32_t key = __reduce_max_sync(~0U, best_key);
    const int winner = __reduce_min_sync(~0U, best_key == key ? best : experts);
    sum += scores[winner];
    if (winner == best) {
      call.ids[start + k] = winner;
      keys[winner] = 0;
      find_best();
    }
    if (lane == 0) merits[k] = scores[winner];
  }
  __syncwarp();
  const float divisor = call.normalise ? sum + 1e-20F : 1.0F;
  for (int64_t k = lane; k < call.top_k; k += 32) call.weights[start + k] = merits[k] / divisor * call.scale;
}

constexpr int kGroupThreads = 1024;
static_assert(kMaxExperts <= kGroupThreads);

// One block: lists are short. Pairs of one expert come in any order.
__global__ void __launch_bounds__(kGroupThreads) group_kernel(GroupByExpert call) {
  __shared__ int32_t next[kMaxExperts];
  __shared__ int32_t of_warps[kGroupThreads / 32];
  wait_for_launch_ahead();
  let_next_launch_begin();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const auto pairs = static_cast<int>(call.rows * call.top_k);
  if (thread < kMaxExperts) next[thread] = 0;
  __syncthreads();
  for (int i = thread; i < pairs; i += kGroupThreads) atomicAdd(&next[call.ids[i]], 1);
  __syncthreads();
  const int count = thread < call.experts ? next[thread] : 0;
  int sum = count;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(~0U, sum, distance);
    if (lane >= distance) sum += other;
  }
  if (lane == 31) of_warps[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; ++w) sum += of_warps[w];
  if (thread < call.experts) {
    next[thread] = sum - count;
    call.begin[thread + 1] = sum;
    if (thread == 0) call.begin[0] = 0;
  }
  __syncthreads();
  for (int i = thread; i < pairs; i += kGroupThreads) {
    const int place = atomicAdd(&next[call.ids[i]], 1);
    call.slots[i] = place;
    call.tokens[place] = i / static_cast<int>(call.top_k);
  }
}

}  // namespace

void group_by_expert(const GroupByExpert& call, cudaStream_t stream) {
  launch("group_by_expert", group_kernel, 1, kGroupThreads, 0, stream, call);
}

void route(const Route& call, cudaStream_t stream) {
  if (call.rows == 0) return;
  launch("route", route_kernel, static_cast<unsigned>(call.rows), 32, 0, stream, call);
}

}  // namespace strobe::kernel::cuda
