// RMS norm: a warp, or a block of threads, has a row's group of numbers. How many threads share it follows from `dim`.
#include "kernel/cuda/generic.h"
#include "kernel/cuda/generic/launch.cuh"
#include "kernel/cuda/generic/numbers.cuh"

namespace strobe::kernel::cuda {
namespace {

constexpr int kWarpsOfSmall = 4;  // groups per block where a warp has one

__device__ float sum_of_warp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0U, value, distance);
  return value;
}

// kThreads: of one group. Each thread has every kThreads-th piece of four numbers.
template <int kThreads>
__global__ void __launch_bounds__(kThreads == 32 ? 32 * kWarpsOfSmall : kThreads)
    rms_norm_kernel(RmsNorm call, bool aligned) {
  constexpr int kWarps = kThreads / 32;
  __shared__ float sums[kWarps];
  wait_for_predecessor();
  let_successor_start();
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  const int64_t index = kThreads == 32 ? int64_t{blockIdx.x} * kWarpsOfSmall + threadIdx.x / 32 : int64_t{blockIdx.x};
  if (index >= call.rows * call.groups) return;
  const int64_t row = index / call.groups;
  const int64_t first = index % call.groups * call.dim;
  const int64_t x_start = row * call.x.stride + first;
  const int64_t y_start = row * call.y.stride + first;
  const auto read = [&](int64_t column) {
    return read_4_guarded(call.x.data, call.x.dtype, x_start, column, call.dim, aligned);
  };

  float squares = 0;
  for (int64_t column = 4 * thread; column < call.dim; column += 4 * kThreads) {
    const float4 x = read(column);
    squares = fmaf(x.x, x.x, squares);
    squares = fmaf(x.y, x.y, squares);
    squares = fmaf(x.z, x.z, squares);
    squares = fmaf(x.w, x.w, squares);
  }
  squares = sum_of_warp(squares);
  if constexpr (kWarps > 1) {
    if (thread % 32 == 0) sums[thread / 32] = squares;
    __syncthreads();
    squares = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) squares += sums[w];
  }
  const float inverse = 1.0F / sqrtf(squares / static_cast<float>(call.dim) + call.epsilon);

  // y may be x: a thread writes where only it has read.
  for (int64_t column = 4 * thread; column < call.dim; column += 4 * kThreads) {
    const float4 x = read(column);
    const float4 w = read_4_guarded(call.weight, DType::kF32, 0, column, call.dim, aligned);
    const float4 y = {x.x * inverse * w.x, x.y * inverse * w.y, x.z * inverse * w.z, x.w * inverse * w.w};
    write_4_guarded(call.y.data, call.y.dtype, y_start, column, call.dim, aligned, y);
  }
}

}  // namespace

void rms_norm(const RmsNorm& call, cudaStream_t stream) {
  const int64_t count = call.rows * call.groups;
  if (count == 0) return;
  const bool aligned =
      vectors_of_4(call.x) && vectors_of_4(call.y) && vectors_of(4, call.weight, DType::kF32, 4) && call.dim % 4 == 0;
  if (call.dim <= 512) {
    launch("rms_norm", rms_norm_kernel<32>, blocks_for(count, kWarpsOfSmall), 32 * kWarpsOfSmall, 0, stream, call,
           aligned);
  } else if (call.dim <= 2048) {
    launch("rms_norm", rms_norm_kernel<128>, blocks_for(count, 1), 128, 0, stream, call, aligned);
  } else {
    launch("rms_norm", rms_norm_kernel<512>, blocks_for(count, 1), 512, 0, stream, call, aligned);
  }
}

}  // namespace strobe::kernel::cuda
