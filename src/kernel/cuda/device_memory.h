// DeviceMemory: device memory with an owner, for tests, benches and whoever plans memory. Kernels never allocate.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "kernel/cuda/launch.h"

namespace strobe::kernel::cuda {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Uninitialised, aligned to 256 bytes.
  explicit DeviceMemory(size_t bytes) : bytes_(bytes) {
    if (bytes > 0) check(cudaMalloc(&data_, bytes), "cudaMalloc");
  }
  template <class T>
  explicit DeviceMemory(const std::vector<T>& values) : DeviceMemory(values.size() * sizeof(T)) {
    upload(values.data(), bytes_);
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() { cudaFree(data_); }

  [[nodiscard]] void* data() const { return data_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }
  [[nodiscard]] size_t bytes() const { return bytes_; }

  // All of these wait until the copy is done.
  void fill(int byte) {
    if (bytes_ > 0) check(cudaMemset(data_, byte, bytes_), "cudaMemset");
    check(cudaStreamSynchronize(nullptr), "cudaMemset");  // which only begins it
  }
  void upload(const void* from, size_t bytes) {
    if (bytes > 0) check(cudaMemcpy(data_, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
  }
  void download(void* to, size_t bytes) const {
    if (bytes > 0) check(cudaMemcpy(to, data_, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy from the device");
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace strobe::kernel::cuda
