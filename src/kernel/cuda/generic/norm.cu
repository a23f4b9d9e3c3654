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

__device__ float add_squares(const float4& x, float sum) {
  return fmaf(x.w, x.w, fmaf(x.z, x.z, fmaf(x.y, x.y, fmaf(x.x, x.x, sum))));
}

constexpr int kPieces = 4;  // that a thread keeps in registers

// kThreads: of one group. Each thread has every kThreads-th piece of four numbers.
template <int kThreads>
__global__ void __launch_bounds__(kThreads == 32 ? 32 * kWarpsOfSmall : kThreads)
    rms_norm_kernel(RmsNorm call, bool aligned) {
  constexpr int kWarps = kThreads / 32;
  __shared__ float sums[kWarps];
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  const auto read_weight = [&](int64_t column) {
    return read_4_guarded(call.weight, DType::kF32, 0, column, call.dim, aligned);
  };
  float4 weights[kPieces];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) weights[i] = read_weight(4 * thread + i * 4 * kThreads);
  wait_for_launch_ahead();
  let_next_launch_begin();
  const int64_t index = kThreads == 32 ? int64_t{blockIdx.x} * kWarpsOfSmall + threadIdx.x / 32 : int64_t{blockIdx.x};
  if (index >= call.rows * call.groups) return;
  const int64_t row = index / call.groups;
  const int64_t first = index % call.groups * call.dim;
  const int64_t x_start = row * call.x.stride + first;
  const int64_t y_start = row * call.y.stride + first;
  const auto read = [&](int64_t column) {
    return read_4_guarded(call.x.data, call.x.dtype, x_start, column, call.dim, aligned);
  };

  constexpr int kStep = 4 * kThreads;
  float4 x[kPieces];
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int64_t column = 4 * thread + i * kStep;
    x[i] = column < call.dim ? read(column) : float4{0, 0, 0, 0};
  }
#pragma unroll
  for (int i = 0; i < kPieces; ++i) squares = add_squares(x[i], squares);
  for (int64_t column = 4 * thread + kPieces * kStep; column < call.dim; column += kStep) {
    squares = add_squares(read(column), squares);
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
  const auto write = [&](int64_t column, const float4& v, const float4& w) {
    const float4 y = {v.x * inverse * w.x, v.y * inverse * w.y, v.z * inverse * w.z, v.w * inverse * w.w};
    write_4_guarded(call.y.data, call.y.dtype, y_start, column, call.dim, aligned, y);
  };
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int64_t column = 4 * thread + i * kStep;
    if (column < call.dim) write(column, x[i], weights[i]);
  }
  for (int64_t column = 4 * thread + kPieces * kStep; column < call.dim; column += kStep) {
    write(column, read(column), read_weight(column));
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
