// PTX instructions of the mixture-of-experts kernels.
#pragma once

#include <cstdint>

#include "kernel/cuda/ptx.cuh"

namespace strobe::kernel::cuda {

// L2 policies: for what is read once, and for the rest.
__device__ inline uint64_t evict_first_policy() {
  uint64_t policy = 0;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ inline uint64_t evict_normal_policy() {
  uint64_t policy = 0;
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ inline void bulk_load_with_policy(void* to, const void* from, uint32_t bytes, uint64_t* barrier,
                                             uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}

// Orders generic accesses and those of the copy engine to all memory spaces.
__device__ inline void fence_async_proxy_all() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

__device__ inline int load_acquire(const int* from) {
  int value = 0;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

// Adds one; what this thread (and those it synchronised with) wrote before is visible to whoever sees the sum, and the
// other way round.
__device__ inline int increment_acq_rel(int* counter) {
  int before = 0;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

// d += a [16, 16] b [16, 8], bf16 in, f32 sums.
__device__ inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline uint32_t multiply_bf16x2(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

}  // namespace strobe::kernel::cuda
