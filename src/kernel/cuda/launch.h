// Answers of the CUDA runtime: an error is the environment's fault and becomes a Failure.
#pragma once

#include <cuda_runtime_api.h>

namespace strobe::kernel::cuda {

// Throws a Failure that names `what` (the call or the kernel) and the runtime's own words unless status is success.
void check(cudaError_t status, const char* what);

// Makes `index` the device of the calling thread, if it is not.
void use_device(int index);

// Right after a launch of `kernel`: whether it could be launched. Errors inside a kernel show at a later call.
void check_launch(const char* kernel);

// Lets `kernel` have `bytes` of dynamic shared memory per block (above 48 KiB a kernel must ask).
void allow_shared_memory(const void* kernel, int bytes, const char* name);

}  // namespace strobe::kernel::cuda
