// The routed experts of one layer on sm_90: y[t] (+)= sum over k of weights[t, k] * down_e(silu(gate_e(x[t])) *
// up_e(x[t])), e = ids[t, k], weights in NVFP4, activations bf16, products exact, sums f32.
//
// Contract: as in kernel/args.h. A row's bytes depend on that row alone. Columns are summed in four interleaved chains
// of blocks of 64 (a chain is one warp's) which are added in order; the intermediate is rounded to bf16 once; experts
// are added in the order of k.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernel/cuda/sm90/nvfp4_moe_params.h"
#include "tensor/dtype.h"

namespace strobe::kernel::cuda {

struct MoeShape {
  int experts = 0;  // at most kMaxExperts
  int hidden = 0;   // multiple of 64
  int inter = 0;    // multiple of 64
  int top_k = 0;
};

// Packed by nvfp4_pack.h, an expert after the other, all in device memory.
struct MoeWeights {
  const uint8_t* gate_up = nullptr;    // [experts] of nvfp4_packed_bytes(2 inter, hidden)
  const uint8_t* down = nullptr;       // [experts] of nvfp4_packed_bytes(hidden, inter)
  const float* gate_scales = nullptr;  // [experts] global scales
  const float* up_scales = nullptr;    // [experts]
  const float* down_scales = nullptr;  // [experts]
};

struct MoeCall {
  MoeShape shape;
  MoeWeights weights;
  const Bf16* x = nullptr;  // [tokens, hidden], rows x_stride apart; both multiples of 8 elements
  int64_t x_stride = 0;
  const int32_t* ids = nullptr;       // [tokens, top_k], each in [0, experts)
  const float* id_weights = nullptr;  // [tokens, top_k]
  void* y = nullptr;                  // [tokens, hidden], rows y_stride apart
  DType y_dtype = DType::kBf16;       // or f32
  int64_t y_stride = 0;
  bool accumulate = false;       // y += (then f32)
  int tokens = 0;                // at most kMaxMoePairs / top_k
  uint8_t* workspace = nullptr;  // moe_workspace_bytes, aligned to 256, contents irrelevant
};

// (token, choice) pairs of one call.
inline constexpr int kMaxMoePairs = 32768;

[[nodiscard]] int64_t moe_workspace_bytes(const MoeShape& shape, int tokens);

// Tilings are for tests and benches; callers take the one chosen here.
[[nodiscard]] bool fits(const MoeTiling& tiling, const MoeShape& shape);
[[nodiscard]] MoeTiling choose_moe_tiling(const MoeShape& shape, int tokens);

// Two launches: the grouping of tokens by expert, then all matrix products. Nothing for zero tokens.
void nvfp4_moe(const MoeCall& call, const MoeTiling& tiling, cudaStream_t stream);

}  // namespace strobe::kernel::cuda
