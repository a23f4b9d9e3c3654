// Launches that may overlap their predecessor's end, and the two instructions that kernels launched so use.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernel/cuda/launch.h"

namespace strobe::kernel::cuda {

// Until the kernels before this one in the stream are done and their writes seen. Every kernel of this folder calls it
// in at least one block, before it touches what others write.
__device__ inline void wait_for_predecessor() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// The next kernel of the stream may be brought onto the GPU; it waits there as above.
__device__ inline void let_successor_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

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
