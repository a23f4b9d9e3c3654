// Moments on a CUDA stream: events by number.
#pragma once

#include <cuda_runtime_api.h>

#include <array>

#include "kernel/kernels.h"

namespace strobe::kernel::cuda {

class Marks {
 public:
  explicit Marks(cudaStream_t stream);
  ~Marks();
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  // Kernels::mark, Kernels::ms_between.
  void note(int index);
  [[nodiscard]] double ms_between(int first, int second) const;

 private:
  cudaStream_t stream_;
  std::array<cudaEvent_t, Kernels::kMarks> events_{};
};

}  // namespace strobe::kernel::cuda
