// Tensor maps: how Hopper's copy engine finds boxes of a matrix in memory. Made by the driver on the host, given to a
// kernel as a parameter.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace strobe::kernel::cuda::sm90 {

// `count` matrices of bf16 numbers, each [rows, columns], rows `stride` and matrices `step` numbers apart: multiples of
// 8, the first at an address that is a multiple of 16.
struct Bf16Matrices {
  const void* data = nullptr;
  int64_t columns = 0;
  int64_t rows = 0;
  int64_t count = 1;
  int64_t stride = 0;
  int64_t step = 0;
};

// For boxes of 64 columns and `box_rows` (up to 256) rows of one matrix, which come to lie as wgmma.cuh wants its
// operands; zeros where the box leaves the matrix. Coordinates: column, row, matrix. Throws a Failure when the driver
// refuses.
CUtensorMap tensor_map(const Bf16Matrices& matrices, int box_rows);

}  // namespace strobe::kernel::cuda::sm90
