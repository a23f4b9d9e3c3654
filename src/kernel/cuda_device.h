// The CUDA devices of this machine. Programs built without CUDA have these functions too: they say so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "kernel/kernels.h"

namespace strobe::kernel {

[[nodiscard]] bool built_with_cuda();

struct CudaDeviceInfo {
  std::string name;         // "NVIDIA H200"
  std::string kernels;      // which of ours it runs: "sm90"
  int64_t total_bytes = 0;  // of its memory
  int64_t free_bytes = 0;
};

// Errors: no CUDA in this program, no driver, no such device, a device that our kernels do not run on.
Result<CudaDeviceInfo> find_cuda_device(int index);

// What plans need to know, device or not.
inline constexpr int64_t kCudaAlignment = 256;  // of its Memory
[[nodiscard]] WeightForms cuda_weight_forms();
// What the kernels take for themselves beside workspaces: partial results of attention.
[[nodiscard]] int64_t cuda_reserved_bytes(const StepLimits& limits);

// What a recording of so many kernels takes of the device's memory, at most.
[[nodiscard]] int64_t cuda_recorded_bytes(int64_t kernels);

struct CudaOptions {
  bool graphs = true;  // run_recorded records
  // Large products that are not recorded go through cuBLASLt: faster, and no longer the same for a row whatever the
  // number of rows.
  bool cublaslt = false;
};
// What the option takes of the device's memory.
[[nodiscard]] int64_t cuda_cublaslt_bytes();
// Error: it is not on this machine.
Result<void> find_cublaslt();
// The device of find_cuda_device. Throws Failure when it cannot be used.
[[nodiscard]] std::unique_ptr<Kernels> open_cuda_device(int index, const CudaOptions& options = {});

}  // namespace strobe::kernel
