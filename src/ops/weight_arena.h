// WeightArena: where a model's weights live. Each matrix is written once, in the form that the device's kernels read.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/exec.h"
#include "tensor/buffer.h"
#include "tensor/quant_tensor.h"

namespace strobe::ops {

class WeightArena {
 public:
  explicit WeightArena(const kernel::CpuKernels& cpu) : cpu_(cpu) {}
  // One for plans: it only counts. Data of what it is given and of what it gives is nullptr.
  static WeightArena counting(const kernel::CpuKernels& cpu);
  [[nodiscard]] bool counts_only() const { return counts_only_; }

  // Packs a row-major matrix for products (ops::linear).
  QuantTensor pack(const QuantTensor& weight);
  // Copies a row-major matrix as it is (embedding tables).
  QuantTensor copy(const QuantTensor& weight);
  // Copies numbers (norm weights, tables).
  Tensor copy(const Tensor& tensor);

  // All bytes handed out so far.
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  // Blocks this large are backed by huge pages and shared by many small matrices.
  static constexpr int64_t kBlockBytes = int64_t{32} << 20;
  void* take(int64_t bytes);

  const kernel::CpuKernels& cpu_;
  bool counts_only_ = false;
  std::vector<Buffer> blocks_;
  int64_t used_in_last_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace strobe::ops
