// Tensor -> kernel::Rows: the raw form in which kernels take a matrix.
#pragma once

#include "kernel/args.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

namespace strobe::ops {

// The first dimension becomes the rows; the others must lie one after another in memory.
inline kernel::Rows rows_of(const Tensor& tensor) {
  return {tensor.data(), tensor.dtype(), tensor.stride(0)};
}

// The same, for a [tokens, groups, dim] tensor seen as tokens * groups rows of dim: needs one stride for both.
inline kernel::Rows flat_rows_of(const Tensor& tensor) {
  STROBE_CHECK(tensor.shape().rank() == 3 && tensor.stride(0) == tensor.dim(1) * tensor.stride(1),
               "rows of {} are not evenly spaced", tensor.shape());
  return {tensor.data(), tensor.dtype(), tensor.stride(1)};
}

// A product as kernels take it, its shapes checked (linear.cc).
kernel::GemmProblem to_problem(const Linear& linear);

}  // namespace strobe::ops
