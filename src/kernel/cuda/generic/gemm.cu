// Matrix products: which kernel takes which problem. Kernels of one weight format give the same bytes.
#include <algorithm>

#include "kernel/cuda/generic.h"
#include "kernel/cuda/generic/gemm_narrow.cuh"
#include "kernel/cuda/generic/gemm_tiled.cuh"

namespace strobe::kernel::cuda {
namespace {

// f32 weights: a warp has a row of the weight, a lane four of every 128 columns; exact products, f32 sums.
constexpr int kF32Warps = 4;
constexpr int kF32Tokens = 8;

template <int kProblems>
__global__ void __launch_bounds__(32 * kF32Warps) gemm_f32(const __grid_constant__ DeviceProblems<kProblems> problems) {
  const DeviceProblem& p = problems.problem[blockIdx.z];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = int64_t{blockIdx.x} * kF32Warps + threadIdx.x / 32;
  const int token0 = static_cast<int>(blockIdx.y) * kF32Tokens;
  wait_for_launch_ahead();
  let_next_launch_begin();
  const RowRange rows = rows_of(p);
  if (row >= p.out || token0 >= rows.count) return;
  int64_t starts[kF32Tokens];
  bool valid[kF32Tokens];
#pragma unroll
  for (int j = 0; j < kF32Tokens; ++j) {
    const int token = token0 + j;
    valid[j] = token < rows.count;
    const int64_t place = rows.begin + token;
    starts[j] = !valid[j] ? 0 : (p.x_rows == nullptr ? place : int64_t{p.x_rows[place]}) * p.x.stride;
  }
  float sums[kF32Tokens] = {};
  for (int column = 4 * lane; column < p.in; column += 128) {
    const float4 w = read_4_guarded(p.weight, DType::kF32, row * p.in, column, p.in, p.weight_aligned);
#pragma unroll
    for (int j = 0; j < kF32Tokens; ++j) {
      if (!valid[j]) continue;
      const float4 x = read_4_guarded(p.x.data, p.x.dtype, starts[j], column, p.in, p.x_aligned);
      sums[j] = fmaf(w.x, x.x, sums[j]);
      sums[j] = fmaf(w.y, x.y, sums[j]);
      sums[j] = fmaf(w.z, x.z, sums[j]);
      sums[j] = fmaf(w.w, x.w, sums[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < kF32Tokens; ++j) {
    float sum = sums[j];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0U, sum, distance);
    if (lane == j && valid[j]) finish(p, rows.begin + token0 + j, row, sum);
  }
}

// Which kernel takes a problem, and with how many warps.
enum class Kernel { kF32, kNarrow, kNarrowAny, kNvfp4, kTiled };
struct Kind {
  Kernel kernel = Kernel::kF32;
  int classes = 0;
  bool operator==(const Kind&) const = default;
};

constexpr int kKinds = 16;  // more than there are: three numbers of classes for three of the kernels
constexpr int64_t kFewRows = 32;
constexpr int64_t kManyTiles = 90;  // nearly as many as the GPU has multiprocessors

Kind kind_of(const GemmProblem& p) {
  const QuantTensor& w = p.weight;
  if (w.format == WeightFormat::kF32) return {Kernel::kF32, 1};
  const int classes = classes_of(w.in);
  if (w.format == WeightFormat::kNvfp4) return {Kernel::kNvfp4, classes};
  const bool fast = vectors_of(8, w.data, DType::kBf16, w.in) && p.x.dtype == DType::kBf16 && vectors_of_8(p.x);
  if (!fast) return {Kernel::kNarrowAny, classes};
  const int64_t tiles = blocks_for(w.out, kWideTile) * int64_t{blocks_for(p.rows, kWideTile)};
  if (p.rows > kFewRows && tiles >= kManyTiles) return {Kernel::kTiled, 1};
  return {Kernel::kNarrow, classes};
}

DeviceProblem device_problem(const GemmProblem& p) {
  const QuantTensor& w = p.weight;
  const bool f32 = w.format == WeightFormat::kF32;
  return {.weight = w.data,
          .scales = static_cast<const uint8_t*>(w.scales),
          .x = p.x,
          .x_rows = p.x_rows,
          .y = p.y,
          .out = static_cast<int32_t>(w.out),
          .in = static_cast<int32_t>(w.in),
          .rows = static_cast<int32_t>(p.rows),
          .range = p.range,
          .global_scale = w.global_scale,
          .accumulate = p.accumulate,
          .x_aligned = f32 ? vectors_of_4(p.x) : vectors_of_8(p.x),
          .weight_aligned = f32 ? vectors_of(4, w.data, DType::kF32, w.in) : vectors_of(8, w.data, DType::kBf16, w.in)};
}

// Problems of one kind, as many as one launch takes.
template <int kProblems>
struct Batch {
  DeviceProblems<kProblems> problems;
  int count = 0;
  int64_t out = 0;   // the most of any
  int64_t rows = 0;  // the most of any

  [[nodiscard]] dim3 grid(int64_t out_tile, int64_t tokens) const {
    return {blocks_for(out, out_tile), blocks_for(rows, tokens), static_cast<unsigned>(count)};
  }

  template <GemmLoad kLoad>
  void launch_narrow(int classes, cudaStream_t stream) const {
    const int threads = 32 * classes;
    if (rows <= 8) {
      launch("gemm", gemm_narrow<kLoad, 1, kProblems>, grid(kOutTile, 8), threads, 0, stream, problems);
    } else if (rows <= 16) {
      launch("gemm", gemm_narrow<kLoad, 2, kProblems>, grid(kOutTile, 16), threads, 0, stream, problems);
    } else {
      launch("gemm", gemm_narrow<kLoad, 4, kProblems>, grid(kOutTile, 32), threads, 0, stream, problems);
    }
  }

  void launch_as(Kind kind, cudaStream_t stream) const {
    switch (kind.kernel) {
      case Kernel::kF32:
        launch("gemm", gemm_f32<kProblems>, grid(kF32Warps, kF32Tokens), 32 * kF32Warps, 0, stream, problems);
        break;
      case Kernel::kNarrow:
        launch_narrow<GemmLoad::kBf16>(kind.classes, stream);
        break;
      case Kernel::kNarrowAny:
        launch_narrow<GemmLoad::kAny>(kind.classes, stream);
        break;
      case Kernel::kNvfp4:
        launch_narrow<GemmLoad::kNvfp4>(kind.classes, stream);
        break;
      case Kernel::kTiled:
        launch("gemm", gemm_tiled<kProblems>, grid(kWideTile, kWideTile), kWideThreads, 0, stream, problems);
        break;
    }
  }
};

// Launches the problems from `first` on that are of its kind and not before it.
template <int kProblems>
void launch_kind(const Gemm& call, int64_t first, cudaStream_t stream) {
  const Kind kind = kind_of(call.problems[first]);
  Batch<kProblems> batch;
  for (int64_t i = first; i < call.count; ++i) {
    const GemmProblem& p = call.problems[i];
    if (p.rows == 0 || kind_of(p) != kind) continue;
    batch.problems.problem[batch.count++] = device_problem(p);
    batch.out = std::max(batch.out, p.weight.out);
    batch.rows = std::max(batch.rows, p.rows);
    if (batch.count < kProblems) continue;
    batch.launch_as(kind, stream);
    batch = {};
  }
  if (batch.count > 0) batch.launch_as(kind, stream);
}

}  // namespace

void gemm(const Gemm& call, cudaStream_t stream) {
  Kind launched[kKinds];
  int kinds = 0;
  for (int64_t first = 0; first < call.count; ++first) {
    if (call.problems[first].rows == 0) continue;
    const Kind kind = kind_of(call.problems[first]);
    if (std::find(launched, launched + kinds, kind) != launched + kinds) continue;
    launched[kinds++] = kind;
    if (call.count <= 8) {
      launch_kind<8>(call, first, stream);
    } else {
      launch_kind<128>(call, first, stream);
    }
  }
}

}  // namespace strobe::kernel::cuda
