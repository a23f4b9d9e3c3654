#include "kernel/cuda/launch.h"

#include "base/failure.h"

namespace strobe::kernel::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  fail("CUDA: {}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

void use_device(int index) {
  thread_local int used = -1;
  if (used == index) return;
  check(cudaSetDevice(index), "cudaSetDevice");
  used = index;
}

void check_launch(const char* kernel) {
  check(cudaGetLastError(), kernel);
}

void allow_shared_memory(const void* kernel, int bytes, const char* name) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), name);
}

}  // namespace strobe::kernel::cuda
