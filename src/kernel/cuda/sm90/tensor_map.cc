#include "kernel/cuda/sm90/tensor_map.h"

#include <cuda_runtime_api.h>

#include "base/failure.h"
#include "kernel/cuda/launch.h"

namespace strobe::kernel::cuda::sm90 {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// Of the driver, which nothing links to: programs start on machines without one.
Encode find_encode() {
  constexpr int kSince = 12000;  // the driver's version that brought it
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kSince, cudaEnableDefault, &found),
        "cudaGetDriverEntryPointByVersion");
  if (found != cudaDriverEntryPointSuccess) fail("CUDA: the driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<Encode>(function);
}

}  // namespace

CUtensorMap tensor_map(const Bf16Matrices& m, int box_rows) {
  static const Encode encode = find_encode();
  const cuuint64_t dims[3] = {static_cast<cuuint64_t>(m.columns), static_cast<cuuint64_t>(m.rows),
                              static_cast<cuuint64_t>(m.count)};
  const int64_t step = m.count > 1 ? m.step : m.stride;  // nobody asks for a second one, but it must be a number
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(m.stride * 2), static_cast<cuuint64_t>(step * 2)};
  const cuuint32_t box[3] = {64, static_cast<cuuint32_t>(box_rows), 1};
  const cuuint32_t every[3] = {1, 1, 1};
  CUtensorMap map{};
  const CUresult status = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<void*>(m.data), dims, strides,
                                 box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    fail("CUDA: cuTensorMapEncodeTiled refuses {} matrices [{}, {}], rows {} and matrices {} numbers apart (error {})",
         m.count, m.rows, m.columns, m.stride, step, static_cast<int>(status));
  }
  return map;
}

}  // namespace strobe::kernel::cuda::sm90
