#include "kernel/cuda/cuda_memory.h"

#include <cstring>

#include "base/failure.h"
#include "kernel/cuda/launch.h"
#include "kernel/cuda_device.h"

namespace strobe::kernel::cuda {

CudaMemory::CudaMemory(int index) : index_(index) {
  use_device(index);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaMallocHost(&pinned_, kPinnedBytes), "cudaMallocHost");
}

CudaMemory::~CudaMemory() {
  cudaStreamSynchronize(stream_);
  cudaFreeHost(pinned_);
  cudaStreamDestroy(stream_);
}

cudaStream_t CudaMemory::stream() const {
  use_device(index_);
  return stream_;
}

void CudaMemory::wait() {
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  pinned_used_ = 0;
}

int64_t CudaMemory::alignment() const {
  return kCudaAlignment;
}

Buffer CudaMemory::allocate(int64_t bytes) {
  STROBE_CHECK(bytes >= 0, "bytes = {}", bytes);
  if (bytes == 0) return {};
  use_device(index_);
  void* data = nullptr;
  if (const cudaError_t status = cudaMalloc(&data, static_cast<size_t>(bytes)); status != cudaSuccess) {
    cudaGetLastError();  // it is told here, not at the next call
    fail("cannot allocate {} bytes on {}: {}", bytes, to_string(device()), cudaGetErrorString(status));
  }
  check(cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), stream_), "cudaMemset");
  return Buffer(data, bytes, device(), [](void* memory) { cudaFree(memory); });
}

void* CudaMemory::free_pinned(int64_t bytes) {
  if (pinned_used_ + bytes > kPinnedBytes) wait();
  return static_cast<std::byte*>(pinned_) + pinned_used_;
}

void CudaMemory::upload(void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  const auto count = static_cast<size_t>(bytes);
  if (bytes > kPinnedBytes) {
    check(cudaMemcpyAsync(to, from, count, cudaMemcpyHostToDevice, stream()), "cudaMemcpy to the device");
    wait();
    return;
  }
  void* staged = free_pinned(bytes);
  pinned_used_ += (bytes + alignment() - 1) / alignment() * alignment();
  std::memcpy(staged, from, count);
  check(cudaMemcpyAsync(to, staged, count, cudaMemcpyHostToDevice, stream()), "cudaMemcpy to the device");
}

void CudaMemory::download(void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  const auto count = static_cast<size_t>(bytes);
  if (bytes > kPinnedBytes) {
    check(cudaMemcpyAsync(to, from, count, cudaMemcpyDeviceToHost, stream()), "cudaMemcpy from the device");
    wait();
    return;
  }
  void* staged = free_pinned(bytes);
  check(cudaMemcpyAsync(staged, from, count, cudaMemcpyDeviceToHost, stream()), "cudaMemcpy from the device");
  wait();
  std::memcpy(to, staged, count);
}

void CudaMemory::fill(void* at, int byte, int64_t bytes) {
  if (bytes > 0) check(cudaMemsetAsync(at, byte, static_cast<size_t>(bytes), stream()), "cudaMemset");
}

}  // namespace strobe::kernel::cuda
