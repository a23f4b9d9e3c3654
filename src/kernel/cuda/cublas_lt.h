// Matrix products of many rows through cuBLASLt, which is found at run time (nothing links to it): the yardstick of the
// benchmark, and --enable-cublaslt-prefill. Its sums run in an order of its own that changes with the number of rows,
// so a row's result depends on how many others are in the call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "kernel/args.h"

namespace strobe::kernel::cuda {

class CublasLt {
 public:
  // What it wants of the device's memory beside operands, aligned to 256 bytes.
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

  // Error: there is no libcublasLt.so.13 on this machine, or it refuses to start.
  static Result<std::unique_ptr<CublasLt>> open();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // bf16 weight and x, x's rows in their own order, rows on 16 bytes.
  [[nodiscard]] static bool takes(const GemmProblem& problem);
  // Queues the product. Throws a Failure when cuBLASLt has nothing for it.
  void gemm(const GemmProblem& problem, void* workspace, cudaStream_t stream);

 private:
  struct Library;
  struct Plans;
  explicit CublasLt(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
  std::unique_ptr<Plans> plans_;
};

}  // namespace strobe::kernel::cuda
