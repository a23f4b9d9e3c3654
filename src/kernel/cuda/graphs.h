// Recorded work: CUDA graphs by key.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <unordered_map>

namespace strobe::kernel::cuda {

class Graphs {
 public:
  explicit Graphs(cudaStream_t stream) : stream_(stream) {}
  ~Graphs();
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  // Kernels::run_recorded.
  void run(uint64_t key, const std::function<void()>& work);
  // What a graph of so many kernels takes of the device's memory, at most (measured: tests/kernel/cuda/graphs_test.cc).
  [[nodiscard]] static constexpr int64_t bytes(int64_t kernels) { return kGraphBytes + kernels * kKernelBytes; }
  // Kernels::forget_recorded. None of them may be running.
  void drop();

 private:
  static constexpr int64_t kGraphBytes = int64_t{256} << 10;
  static constexpr int64_t kKernelBytes = int64_t{8} << 10;
  // So many are kept; then all are dropped, and recorded again as they come.
  static constexpr size_t kMostGraphs = 128;
  [[nodiscard]] cudaGraphExec_t record(const std::function<void()>& work);

  cudaStream_t stream_;
  std::unordered_map<uint64_t, cudaGraphExec_t> graphs_;  // nullptr: seen once
};

}  // namespace strobe::kernel::cuda
