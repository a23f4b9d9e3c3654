// What the tests of the CUDA matrix products share.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "harness.h"
#include "kernel/cuda/device_memory.h"

namespace strobe::kernel {

// Queues a call whose operands lie on the device.
using Product = std::function<void(const Gemm&)>;

std::vector<Bf16> random_bf16(int64_t count, uint64_t seed);

// A device copy of a matrix, gaps between its rows included.
cuda::DeviceMemory upload(const Matrix& matrix);

// A bf16 weight and rows of x, all aligned, so that the number of rows chooses the kernel.
class ProductCase {
 public:
  ProductCase(int64_t out, int64_t in, int64_t rows);
  // y of `rows` rows of x from row `first` on; `gather`: through x_rows.
  [[nodiscard]] std::vector<float> multiply(const Product& product, int64_t first, int64_t rows,
                                            bool gather = false) const;
  // The same bytes for calls of these numbers of rows, from several rows on, as for one call of all rows; and the right
  // ones.
  void expect_one_order(const Product& product, std::initializer_list<int64_t> counts) const;

 private:
  void expect_right(const std::vector<float>& all) const;

  int64_t out_, in_, rows_;
  std::vector<Bf16> host_w_, host_x_;
  cuda::DeviceMemory w_, x_;
};

// Launches overlap their predecessors' ends: products and copies in turn must each see what the one before wrote.
void expect_each_sees_the_one_before(const Product& product);

}  // namespace strobe::kernel
