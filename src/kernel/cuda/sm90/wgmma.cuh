// Hopper's warpgroup matrix products (sm_90a), the shapes that are used, as plain PTX.
//
// All 128 threads of a warpgroup call these together. Products are asynchronous: between wgmma_commit and the
// wgmma_wait that covers it, neither the accumulators nor the operands may be touched.
//
// Shared operands are tiles of rows of 64 f16 (128 bytes), rows 128 bytes apart, groups of 8 rows 1024-byte aligned;
// the 16-byte piece c of row r lies in place c ^ (r % 8) (the 128-byte swizzle; swizzled_16 below).
#pragma once

#include <cstdint>

#include "kernel/cuda/ptx.cuh"

namespace strobe::kernel::cuda::sm90 {

// Byte offset of 16-byte piece `piece` (0..7) of row `row` in a tile.
__device__ inline uint32_t swizzled_16(uint32_t row, uint32_t piece) {
  return row * 128 + ((piece ^ (row & 7)) << 4);
}

// The lower word of the descriptor of a shared operand at `address` (of the first number that the product reads); the
// upper word is always the same: groups of 8 rows are 1024 bytes apart, 128-byte swizzle. One word, because arithmetic
// on two costs registers that there are none of.
//   K-major (A and B as stored: rows are m or n, the product sums along a row): the next 16 of k are 32 bytes on
//   MN-major (B transposed: rows are k, a row holds 64 of n): the next 64 of n are `leading_bytes` on, the next 16 of k
//   2048 bytes
__host__ __device__ constexpr uint32_t tile_descriptor(uint32_t address, uint32_t leading_bytes = 16) {
  return (leading_bytes >> 4 << 16) | ((address & 0x3ffff) >> 4);
}

// `descriptor` moved on by `bytes`.
__host__ __device__ constexpr uint32_t advance(uint32_t descriptor, uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

// Before the first product that follows other writes to its accumulators or register operands.
__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most kPending groups of this warpgroup are unfinished.
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// The compiler does not know that a product is asynchronous: after wgmma_wait, this keeps it from reading accumulators
// any earlier.
template <int kCount>
__device__ inline void wgmma_read_fence(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// How many registers each thread of this warpgroup has from here on: fewer, or more (waits until they are free).
template <int kRegisters>
__device__ inline void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void claim_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Accumulators of m64nNk16: thread t of the warpgroup holds, for each group j of 8 columns, d[4j], d[4j + 1] of row
// 16 (t / 32) + t % 32 / 4, columns 8j + t % 4 * 2 + {0, 1}, and d[4j + 2], d[4j + 3] of the row 8 below. The register
// operand A [64, 16] is held likewise: a[0], a[1] of columns 0..7 (upper, lower row), a[2], a[3] of columns 8..15.

// clang-format off
// d (+)= A B: A [64, 16] in registers, B [16, 64] in shared memory, K-major or (kTransposed) MN-major.
template <bool kTransposed>
__device__ inline void wgmma_m64n64k16_rs(float (&d)[32], const uint32_t (&a)[4], uint32_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .b64 db;\n"
      "setp.ne.b32 p, %37, 0;\nmov.b64 db, {%36, 0x40000040};\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, db, p, 1, 1, %38;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(static_cast<int>(accumulate)), "n"(kTransposed ? 1 : 0));
}
// clang-format on

}  // namespace strobe::kernel::cuda::sm90
