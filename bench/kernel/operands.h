// Weights, rows and stores full of harmless numbers.
#pragma once

#include <cstdint>
#include <deque>

#include "kernel/cpu_kernels.h"
#include "tensor/buffer.h"

namespace strobe::bench {

class Operands {
 public:
  explicit Operands(const kernel::CpuKernels& kernels) : kernels_(kernels) {}

  // A weight in the table's own format, each in memory of its own.
  QuantTensor weight(WeightFormat format, int64_t out, int64_t in);
  kernel::Rows rows(DType dtype, int64_t rows, int64_t columns);
  float* f32(int64_t count);
  int32_t* i32(int64_t count);
  kernel::PagedStore store(DType dtype, int64_t slots, int64_t dim);

 private:
  Buffer& buffer(int64_t bytes);

  const kernel::CpuKernels& kernels_;
  std::deque<Buffer> buffers_;
  uint64_t seed_ = 1;
};

}  // namespace strobe::bench
