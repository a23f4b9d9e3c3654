// MLA decode: how partial results become one. The splits of a row form groups of kGroup; those of a group are folded in
// the order of positions, each time rounded to what is stored, and then the groups are merged. A block of threads that
// has a group from its first split on folds as it goes; what others wrote one by one is folded by the merge in the same
// way, to the bit.
#pragma once

#include "kernel/cuda/sm90/mla_shared.cuh"

namespace strobe::kernel::cuda::sm90::mla {

__device__ inline float reciprocal(float x) {
  float y = 0;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// `so_far` becomes the share of both. A row that sees nothing of the next split stays as it is. Rounding is spelled
// out: else the compiler may join a product and a sum.
__device__ inline FoldWeights fold_shares(Share& so_far, const Share& next) {
  if (next.sum == 0) return {__float2half2_rn(1), __float2half2_rn(0)};
  const float reference = fmaxf(so_far.reference, next.reference);
  const float kept = __fmul_rn(exp2_fast(so_far.reference - reference), so_far.sum);
  const float added = __fmul_rn(exp2_fast(next.reference - reference), next.sum);
  so_far = {.reference = reference, .sum = __fadd_rn(kept, added)};
  const float inverse = reciprocal(so_far.sum);
  return {__float2half2_rn(__fmul_rn(kept, inverse)), __float2half2_rn(__fmul_rn(added, inverse))};
}

__device__ inline __half2 as_half2(uint32_t word) {
  return reinterpret_cast<const __half2&>(word);
}

// Two numbers of a row.
__device__ inline uint32_t fold_numbers(const FoldWeights& weights, uint32_t so_far, uint32_t next) {
  const __half2 both = __hfma2(weights.added, as_half2(next), __hmul2_rn(weights.kept, as_half2(so_far)));
  return reinterpret_cast<const uint32_t&>(both);
}

__device__ inline uint4 fold_numbers(const FoldWeights& weights, const uint4& so_far, const uint4& next) {
  return make_uint4(fold_numbers(weights, so_far.x, next.x), fold_numbers(weights, so_far.y, next.y),
                    fold_numbers(weights, so_far.z, next.z), fold_numbers(weights, so_far.w, next.w));
}

}  // namespace strobe::kernel::cuda::sm90::mla
