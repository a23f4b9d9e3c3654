#include "kernel/cuda/sm90/dense_gemm.h"

#include <algorithm>

#include "base/check.h"
#include "kernel/cuda/sm90/dense_gemm_params.h"
#include "kernel/cuda/sm90/tensor_map.h"

namespace strobe::kernel::cuda::sm90 {
namespace {

constexpr int64_t kColumns = 64;                // of a block
constexpr int64_t kFullGpu = 100;               // tiles that occupy most of it
constexpr int64_t kMaxProblems = 1024;          // of a launch
constexpr int64_t kMaxStep = int64_t{1} << 38;  // numbers between matrices of a tensor map

int64_t blocks_of(int64_t items, int64_t per_block) {
  return (items + per_block - 1) / per_block;
}

bool on_16_bytes(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0;
}

// The distance from one pointer to another in numbers of `width` bytes, or -1 if there is none that a launch can use.
int64_t step_of(const void* first, const void* second, int64_t width) {
  const int64_t bytes = static_cast<const uint8_t*>(second) - static_cast<const uint8_t*>(first);
  return bytes < 0 || bytes % 16 != 0 || bytes / width > kMaxStep ? -1 : bytes / width;
}

struct Steps {
  int64_t weight = 0, x = 0, y = 0;
  bool operator==(const Steps&) const = default;
  [[nodiscard]] bool usable() const { return weight > 0 && x >= 0 && y >= 0; }
};

Steps steps_between(const GemmProblem& a, const GemmProblem& b) {
  return {.weight = step_of(a.weight.data, b.weight.data, 2),
          .x = step_of(a.x.data, b.x.data, 2),
          .y = step_of(a.y.data, b.y.data, size_bytes(a.y.dtype))};
}

bool alike(const GemmProblem& a, const GemmProblem& b) {
  return a.weight.out == b.weight.out && a.weight.in == b.weight.in && a.rows == b.rows && a.x.stride == b.x.stride &&
         a.y.stride == b.y.stride && a.y.dtype == b.y.dtype && a.accumulate == b.accumulate;
}

// How many problems from the first on one launch takes.
int64_t run_length(const GemmProblem* problems, int64_t count, Steps& steps) {
  steps = {};
  if (count < 2 || !alike(problems[0], problems[1])) return 1;
  const Steps first = steps_between(problems[0], problems[1]);
  if (!first.usable()) return 1;
  steps = first;
  int64_t n = 2;
  while (n < std::min(count, kMaxProblems) && alike(problems[0], problems[n]) &&
         steps_between(problems[n - 1], problems[n]) == steps) {
    ++n;
  }
  return n;
}

void launch_run(const GemmProblem& p, int64_t count, const Steps& steps, const DenseTiling& tiling,
                cudaStream_t stream) {
  const QuantTensor& w = p.weight;
  const bool one_x = count > 1 && steps.x == 0;
  const int64_t blocks = blocks_of(w.in, kColumns);
  const bool vectors = reinterpret_cast<uintptr_t>(p.y.data) % static_cast<uintptr_t>(4 * size_bytes(p.y.dtype)) == 0 &&
                       p.y.stride % 4 == 0 && steps.y % 4 == 0;
  const DenseParams params{
      .weights = tensor_map(
          {.data = w.data, .columns = w.in, .rows = w.out, .count = count, .stride = w.in, .step = steps.weight},
          64 * tiling.groups),
      .x = tensor_map({.data = p.x.data,
                       .columns = w.in,
                       .rows = p.rows,
                       .count = one_x ? 1 : count,
                       .stride = p.x.stride,
                       .step = steps.x},
                      tiling.tokens),
      .y = p.y,
      .y_step = steps.y,
      .out = static_cast<int32_t>(w.out),
      .blocks = static_cast<int32_t>(blocks),
      .rows = static_cast<int32_t>(p.rows),
      .count = static_cast<int32_t>(count),
      .slices = dense_gemm_slices(w.out, w.in),
      .one_x = one_x,
      .accumulate = p.accumulate,
      .y_aligned = vectors};
  launch_dense(params, tiling, stream);
}

void dense_gemm_cut(const Gemm& call, const DenseTiling* tiling, cudaStream_t stream) {
  for (int64_t first = 0; first < call.count;) {
    const GemmProblem& p = call.problems[first];
    STROBE_CHECK(takes_dense(p), "weight [{}, {}] {}, x {}", p.weight.out, p.weight.in, to_string(p.weight.format),
                 to_string(p.x.dtype));
    Steps steps;
    const int64_t count = run_length(call.problems + first, call.count - first, steps);
    if (p.rows > 0) launch_run(p, count, steps, tiling != nullptr ? *tiling : choose_dense_tiling(p, count), stream);
    first += count;
  }
}

}  // namespace

bool takes_dense(const GemmProblem& problem) {
  const QuantTensor& w = problem.weight;
  return w.format == WeightFormat::kBf16 && problem.x.dtype == DType::kBf16 && problem.x_rows == nullptr &&
         problem.range == nullptr && w.in % 8 == 0 && problem.x.stride % 8 == 0 && on_16_bytes(w.data) &&
         on_16_bytes(problem.x.data);
}

DenseTiling choose_dense_tiling(const GemmProblem& problem, int64_t count) {
  for (const DenseTiling& tiling : kDenseTilings) {
    if (tiling.groups == 1 && tiling.tokens >= problem.rows) return tiling;
  }
  const int64_t blocks =
      blocks_of(problem.weight.out, 128) * count * dense_gemm_slices(problem.weight.out, problem.weight.in);
  return {.groups = 2, .tokens = blocks * blocks_of(problem.rows, 256) >= kFullGpu ? 256 : 128};
}

void dense_gemm(const Gemm& call, cudaStream_t stream) {
  dense_gemm_cut(call, nullptr, stream);
}

void dense_gemm(const Gemm& call, const DenseTiling& tiling, cudaStream_t stream) {
  dense_gemm_cut(call, &tiling, stream);
}

}  // namespace strobe::kernel::cuda::sm90
