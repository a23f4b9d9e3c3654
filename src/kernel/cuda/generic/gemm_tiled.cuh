// Matrix products for many rows, bf16 and aligned: a block of threads has 64 rows of the weight and 64 tokens, which
// pass through shared memory; a warp has 32 of each. A sum's order is the same as in gemm_narrow: one class after the
// other.
#pragma once

#include "kernel/cuda/generic/gemm_problem.cuh"
#include "kernel/cuda/generic/launch.cuh"
#include "kernel/cuda/ptx.cuh"

namespace strobe::kernel::cuda {

constexpr int kWideTile = 64;
constexpr int kWideThreads = 128;
constexpr int kWideStages = 3;

__device__ inline void copy_16_async(void* to, const void* from, bool valid) {  // zeros where not valid
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}

// The chunks in the order of their classes.
struct ChunkOrder {
  int chunks;
  int classes;
  int chunk = 0;
  int current = 0;

  __device__ bool done() const { return chunk >= chunks; }
  // Whether `chunk` was the last of its class.
  __device__ bool advance() {
    chunk += classes;
    if (chunk < chunks) return false;
    ++current;
    chunk = current < classes ? current : chunks;
    return true;
  }
};

template <int kProblems>
__global__ void __launch_bounds__(kWideThreads) gemm_tiled(const __grid_constant__ DeviceProblems<kProblems> problems) {
  // Rows of 64 numbers; the 16-byte piece i of row r lies in place i ^ (r % 2 * 4), so that eight lanes, which read
  // four pieces of two rows, touch every bank once.
  __shared__ __align__(128) uint16_t tiles[kWideStages][2][kWideTile][kChunk];
  const DeviceProblem& p = problems.problem[blockIdx.z];
  const int row0 = static_cast<int>(blockIdx.x) * kWideTile;
  const int token0 = static_cast<int>(blockIdx.y) * kWideTile;
  if (row0 >= p.out || token0 >= p.rows) return;
  wait_for_launch_ahead();
  let_next_launch_begin();
  const RowRange rows = rows_of(p);
  if (token0 >= rows.count) return;
  const int thread = static_cast<int>(threadIdx.x);
  const int g = thread % 32 / 4;
  const int t = thread % 4;
  const int warp_row = thread / 64 * 32;
  const int warp_token = thread / 32 % 2 * 32;

  // This thread loads piece thread % 8 of rows thread / 8 + 16 i of both tiles.
  constexpr int kLoads = kWideTile / 16;
  const int piece = thread % 8;
  const uint16_t* weight_rows[kLoads];
  const uint16_t* x_rows[kLoads];
  bool row_valid[kLoads];
  bool token_valid[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int row = row0 + thread / 8 + 16 * i;
    const int token = token0 + thread / 8 + 16 * i;
    row_valid[i] = row < p.out;
    token_valid[i] = token < rows.count;
    const int64_t place = rows.begin + token;
    const int64_t source = !token_valid[i] ? 0 : p.x_rows == nullptr ? place : p.x_rows[place];
    weight_rows[i] = static_cast<const uint16_t*>(p.weight) + int64_t{row_valid[i] ? row : 0} * p.in;
    x_rows[i] = static_cast<const uint16_t*>(p.x.data) + source * p.x.stride;
  }
  const auto load = [&](int stage, int chunk) {
    const int column = chunk * kChunk + 8 * piece;
    const bool inside = column < p.in;
    const int offset = inside ? column : 0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int row = thread / 8 + 16 * i;
      const int place = 8 * (piece ^ (row % 2 * 4));
      copy_16_async(&tiles[stage][0][row][place], weight_rows[i] + offset, inside && row_valid[i]);
      copy_16_async(&tiles[stage][1][row][place], x_rows[i] + offset, inside && token_valid[i]);
    }
  };
  const auto read = [&](int stage, int which, int row, int piece_of_row) {
    return *reinterpret_cast<const uint4*>(&tiles[stage][which][row][8 * (piece_of_row ^ (row % 2 * 4))]);
  };

  const int chunks = chunks_of(p.in);
  const int classes = classes_of(p.in);
  ChunkOrder coming{.chunks = chunks, .classes = classes};
  for (int stage = 0; stage < kWideStages - 1; ++stage) {
    if (!coming.done()) load(stage, coming.chunk);
    coming.advance();
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  float totals[2][4][4] = {};
  float sums[2][4][4] = {};
  ChunkOrder now{.chunks = chunks, .classes = classes};
  for (int stage = 0; !now.done(); stage = (stage + 1) % kWideStages) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kWideStages - 2) : "memory");
    __syncthreads();
    if (!coming.done()) load((stage + kWideStages - 1) % kWideStages, coming.chunk);
    coming.advance();
    asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint4 x[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) x[j] = read(stage, 1, warp_token + 8 * j + g, 4 * half + t);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const uint4 low = read(stage, 0, warp_row + 16 * m + g, 4 * half + t);
        const uint4 high = read(stage, 0, warp_row + 16 * m + g + 8, 4 * half + t);
#pragma unroll
        for (int j = 0; j < 4; ++j) multiply_32_columns(sums[m][j], low, high, x[j]);
      }
    }
    if (!now.advance()) continue;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      totals[i / 16][i / 4 % 4][i % 4] += sums[i / 16][i / 4 % 4][i % 4];
      sums[i / 16][i / 4 % 4][i % 4] = 0;
    }
  }

#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const int row = row0 + warp_row + i / 16 * 16 + i % 4 / 2 * 8 + g;
    const int token = token0 + warp_token + i / 4 % 4 * 8 + 2 * t + i % 2;
    if (row < p.out && token < rows.count) finish(p, rows.begin + token, row, totals[i / 16][i / 4 % 4][i % 4]);
  }
}

}  // namespace strobe::kernel::cuda
