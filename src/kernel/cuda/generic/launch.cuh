// Launches that may overlap their predecessor's end. Every kernel of this folder calls wait_for_launch_ahead in at least
// one block, before it touches what others write, and then let_next_launch_begin.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernel/cuda/launch.h"
#include "kernel/cuda/ptx.cuh"

namespace strobe::kernel::cuda {

template <class... Params, class... Args>
void launch(const char* name, void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, const Args&... args) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, Params(args)...), name);
}

inline unsigned blocks_for(int64_t items, int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

}  // namespace strobe::kernel::cuda
