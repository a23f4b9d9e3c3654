// Matrix products with bf16 weights and bf16 rows on Hopper, for any number of rows: warpgroup products (wgmma),
// operands through the copy engine.
//
// What it must move and do, for R rows of a weight [out, in]: 2 out in bytes of weights, R (2 in + 4 out) of rows, 2 R
// out in operations. On an H200 (4.24 TB/s, 793 TFLOP/s) the weight [7168, 8192] takes 27.7 us from memory and, from
// about 190 rows on, longer to multiply: 606 us for 4,096 rows.
//
// How: y^T = W x^T. 64 rows of the weight are the product's first operand, 8 to 256 rows of x the second. A block of
// threads has a tile of y and one slice of the columns; a warp brings 64 columns a stage into a ring in shared memory,
// one or two warpgroups multiply. Weights that have too few rows to occupy the GPU are cut along their columns, too:
// the blocks of a tile are a cluster, whose sums are added through distributed shared memory.
//
// The order of a sum, which is the same for any number of rows: slice s of dense_gemm_slices(out, in) has the blocks of
// 64 columns from blocks * s / slices on, 16 columns a product, ascending, in one f32 accumulator of the tensor cores;
// the slices' sums are added in ascending order, last what y held. How many rows of x one product has does not change
// an element's value.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernel/args.h"

namespace strobe::kernel::cuda::sm90 {

// The most slices there are: blocks of a cluster.
inline constexpr int kMaxDenseSlices = 8;

// How many slices the columns of a weight fall into.
constexpr int dense_gemm_slices(int64_t out, int64_t in) {
  constexpr int64_t kBlocks = 128;    // of threads that occupy the GPU
  constexpr int64_t kShortest = 512;  // columns
  const int64_t tiles = (out + 63) / 64;
  int slices = 1;
  while (slices < kMaxDenseSlices && tiles * slices * 2 <= kBlocks && in >= slices * 2 * kShortest) slices *= 2;
  return slices;
}

// How the call is cut; results do not depend on it, bit for bit.
struct DenseTiling {
  int groups = 1;  // of 64 rows of the weight, a warpgroup each
  int tokens = 8;  // rows of x
  friend bool operator==(const DenseTiling&, const DenseTiling&) = default;
};
// All there are.
inline constexpr DenseTiling kDenseTilings[] = {{1, 8}, {1, 16}, {1, 32}, {1, 64}, {1, 128}, {2, 128}, {2, 256}};

// Whether dense_gemm takes a problem: bf16 weight and x, rows of both on 16 bytes, neither x_rows nor range. Says
// nothing about the number of rows: those of one weight must all go the same way.
bool takes_dense(const GemmProblem& problem);

// What it is best cut into: for the problems of one call, all like this one.
DenseTiling choose_dense_tiling(const GemmProblem& problem, int64_t count);

// Gemm (args.h) with pointers of device memory. All problems must be ones that it takes. Reads nothing but weights
// before the launch ahead in the stream is over (kernel/cuda/generic.h).
void dense_gemm(const Gemm& call, cudaStream_t stream);
// The same, cut as told.
void dense_gemm(const Gemm& call, const DenseTiling& tiling, cudaStream_t stream);

}  // namespace strobe::kernel::cuda::sm90
