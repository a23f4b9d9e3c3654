// The memory of one CUDA device; all its work goes through one stream.
#pragma once

#include <cuda_runtime_api.h>

#include "tensor/memory.h"

namespace strobe::kernel::cuda {

class CudaMemory final : public Memory {
 public:
  explicit CudaMemory(int index);
  ~CudaMemory() override;
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  // Makes the device the calling thread's: whoever launches asks for the stream.
  [[nodiscard]] cudaStream_t stream() const;
  void wait();

  [[nodiscard]] Device device() const override { return {DeviceKind::kCuda, index_}; }
  [[nodiscard]] int64_t alignment() const override;
  Buffer allocate(int64_t bytes) override;
  void upload(void* to, const void* from, int64_t bytes) override;
  void download(void* to, const void* from, int64_t bytes) override;
  void fill(void* at, int byte, int64_t bytes) override;

 private:
  int index_;
  cudaStream_t stream_ = nullptr;
  // Uploads and downloads of up to this much go through memory that the device reaches by itself.
  static constexpr int64_t kPinnedBytes = int64_t{4} << 20;
  // Room for so many of them that no upload uses.
  void* free_pinned(int64_t bytes);
  void* pinned_ = nullptr;
  int64_t pinned_used_ = 0;  // by uploads under way
};

}  // namespace strobe::kernel::cuda
