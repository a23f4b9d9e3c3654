// What dense_gemm.cc tells its kernels.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "kernel/cuda/sm90/dense_gemm.h"

namespace strobe::kernel::cuda::sm90 {

// Problems of one shape, whose operands lie at equal distances.
struct DenseParams {
  CUtensorMap weights;
  CUtensorMap x;
  Rows y;              // of the first problem
  int64_t y_step = 0;  // numbers from one problem's y to the next one's
  int32_t out = 0;
  int32_t blocks = 0;  // of 64 columns
  int32_t rows = 0;
  int32_t count = 0;
  int32_t slices = 1;
  int32_t stages = 1;
  bool one_x = false;  // all problems have the same x
  bool accumulate = false;
  bool y_aligned = false;  // write_4_guarded's
};
void launch_dense(const DenseParams& params, const DenseTiling& tiling, cudaStream_t stream);

}  // namespace strobe::kernel::cuda::sm90
