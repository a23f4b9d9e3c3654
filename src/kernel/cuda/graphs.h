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

 private:
  // So many are kept; then all are dropped, and recorded again as they come.
  static constexpr size_t kMostGraphs = 128;
  [[nodiscard]] cudaGraphExec_t record(const std::function<void()>& work);
  void drop();

  cudaStream_t stream_;
  std::unordered_map<uint64_t, cudaGraphExec_t> graphs_;  // nullptr: seen once
};

}  // namespace strobe::kernel::cuda
