#include "base/failure.h"
#include "kernel/cuda_device.h"

namespace strobe::kernel {
namespace {

constexpr const char* kMissing = "this program was built without CUDA (scripts/build cuda-release builds one with it)";

}  // namespace

bool built_with_cuda() {
  return false;
}

Result<CudaDeviceInfo> find_cuda_device(int) {
  return error("{}", kMissing);
}

WeightForms cuda_weight_forms() {
  fail("{}", kMissing);
}

int64_t cuda_reserved_bytes(const StepLimits&) {
  fail("{}", kMissing);
}

int64_t cuda_recorded_bytes(int64_t) {
  fail("{}", kMissing);
}

int64_t cuda_cublaslt_bytes() {
  fail("{}", kMissing);
}

Result<void> find_cublaslt() {
  return error("{}", kMissing);
}

std::unique_ptr<Kernels> open_cuda_device(int, const CudaOptions&) {
  fail("{}", kMissing);
}

}  // namespace strobe::kernel
