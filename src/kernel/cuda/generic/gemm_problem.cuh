// One matrix product as its kernels take it, and the order of its sums, which all kernels of a weight format share.
//
// bf16 and NVFP4: columns fall into chunks of 64. Class c of `classes_of(in)` has the chunks c, c + classes, ... in
// ascending order, two times two tensor-core products of 16 columns each; the sums of the classes are added in
// ascending order. A lane holds eight neighbouring columns of a row, so that the first product of 32 columns takes
// columns 0-3 of every eight, the second columns 4-7.
#pragma once

#include <cstdint>

#include "kernel/cuda/generic/numbers.cuh"

namespace strobe::kernel::cuda {

struct DeviceProblem {
  const void* weight = nullptr;
  const uint8_t* scales = nullptr;  // NVFP4
  Rows x;
  const int32_t* x_rows = nullptr;
  Rows y;
  int32_t out = 0;
  int32_t in = 0;
  int32_t rows = 0;  // with a range: at most
  const int32_t* range = nullptr;
  float global_scale = 1;
  bool accumulate = false;
  bool x_aligned = false;       // read_8_as_bf16's
  bool weight_aligned = false;  // rows of the weight start on 16 bytes
};

// The rows of y that a problem has: [begin, begin + count). After wait_for_launch_ahead.
struct RowRange {
  int begin = 0;
  int count = 0;
};
__device__ inline RowRange rows_of(const DeviceProblem& p) {
  if (p.range == nullptr) return {0, p.rows};
  return {p.range[0], p.range[1] - p.range[0]};
}

template <int kCount>
struct DeviceProblems {
  DeviceProblem problem[kCount];
};

constexpr int kChunk = 64;  // columns
constexpr int kMaxClasses = 16;
constexpr int kOutTile = 16;  // rows of the weight in one tensor-core product

__host__ __device__ constexpr int chunks_of(int64_t in) {
  return static_cast<int>((in + kChunk - 1) / kChunk);
}
__host__ __device__ constexpr int classes_of(int64_t in) {
  return chunks_of(in) <= 4 ? 4 : chunks_of(in) <= 16 ? 8 : kMaxClasses;
}

// y[row, column] from the sum of the classes.
__device__ inline void finish(const DeviceProblem& p, int64_t row, int64_t column, float sum) {
  if (p.accumulate) sum += get(p.y, row, column);
  put(p.y, row, column, sum);
}

// Two products: 32 columns of 16 rows of the weight (`low`: row g, `high`: row g + 8) with those of 8 tokens.
__device__ inline void multiply_32_columns(float (&sums)[4], const uint4& low, const uint4& high, const uint4& x) {
  mma_bf16(sums, low.x, high.x, low.y, high.y, x.x, x.y);
  mma_bf16(sums, low.z, high.z, low.w, high.w, x.z, x.w);
}

}  // namespace strobe::kernel::cuda
