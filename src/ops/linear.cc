#include <array>

#include "base/check.h"
#include "ops/ops.h"
#include "ops/rows.h"

namespace strobe::ops {

kernel::GemmProblem to_problem(const Linear& linear) {
  Dims dims("linear");
  dims.check("x", linear.x, {"tokens", "in"}).check("y", linear.y, {"tokens", "out"});
  STROBE_CHECK(dims["in"] == linear.weight.in && dims["out"] == linear.weight.out,
               "linear: weight [{}, {}], x {}, y {}", linear.weight.out, linear.weight.in, linear.x.shape(),
               linear.y.shape());
  return {.x = rows_of(linear.x), .weight = linear.weight, .y = rows_of(linear.y), .rows = dims["tokens"]};
}

void linear(Exec& exec, const Linear& problem) {
  linear(exec, std::span(&problem, 1));
}

void linear(Exec& exec, std::span<const Linear> problems) {
  auto* list = exec.products(static_cast<int64_t>(problems.size()));
  for (size_t i = 0; i < problems.size(); ++i) list[i] = to_problem(problems[i]);
  exec.kernels().gemm({list, static_cast<int64_t>(problems.size())});
}

void linear_add(Exec& exec, const Linear& problem) {
  kernel::GemmProblem one = to_problem(problem);
  STROBE_CHECK(one.y.dtype == DType::kF32, "linear_add: y is {}", to_string(one.y.dtype));
  one.accumulate = true;
  exec.kernels().gemm({&one, 1});
}

void linear_heads(Exec& exec, const Tensor& x, std::span<const QuantTensor> weights, const Tensor& y) {
  Dims dims("linear_heads");
  dims.check("x", x, {"tokens", "heads", "in"}).check("y", y, {"tokens", "heads", "out"});
  const int64_t heads = dims["heads"];
  STROBE_CHECK(heads == static_cast<int64_t>(weights.size()), "linear_heads: {} heads, {} weights", heads,
               weights.size());
  auto* list = exec.products(heads);
  for (int64_t h = 0; h < heads; ++h) {
    const QuantTensor& weight = weights[static_cast<size_t>(h)];
    STROBE_CHECK(weight.in == dims["in"] && weight.out == dims["out"],
                 "linear_heads: weight {} is [{}, {}], x {}, y {}", h, weight.out, weight.in, x.shape(), y.shape());
    list[h] = {.x = rows_of(x.slice(1, h, h + 1)),
               .weight = weight,
               .y = rows_of(y.slice(1, h, h + 1)),
               .rows = dims["tokens"]};
  }
  exec.kernels().gemm({list, heads});
}

}  // namespace strobe::ops
