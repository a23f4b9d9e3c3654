// The CUDA kernels that every model needs: one function a family of kernel/args.h, for all its shapes and types. They
// run on Hopper and later GPUs; a folder of an architecture has faster ones for single families.
//
// What is different from kernel/args.h:
// - Every pointer is one of device memory, but Gemm::problems, which is an array of the host.
// - AttentionRequest, first_visible and page lists are read on the device: they may change between replays of a CUDA
//   graph that holds the launch. MlaAttention::rows and GqaAttention::rows must be given; they and `request_count`
//   size the grid, and requests without rows cost nothing.
// - A weight is row-major f32, bf16 or NVFP4. Against bf16 and NVFP4 weights an f32 x is rounded to bf16 first.
//
// Nothing here allocates, waits for the device or reads its memory on the host: every launch can be captured. Kernels
// are launched so that one may start while the one before it in the stream still runs (programmatic dependent launch);
// it reads nothing but weights (of matrix products and norms) and writes nothing before that one is done. Weights must
// therefore not be written by a kernel right before: load them by copies, or synchronise once after loading.
//
// Rows that start on 16 bytes are faster; where they start does not change a bit of the result.
#pragma once

#include <cuda_runtime_api.h>

#include "kernel/args.h"

namespace strobe::kernel::cuda {

void gemm(const Gemm& call, cudaStream_t stream);                      // generic/gemm.cu
void rms_norm(const RmsNorm& call, cudaStream_t stream);               // generic/norm.cu
void rope(const Rope& call, cudaStream_t stream);                      // generic/elementwise.cu
void silu_mul(const SiluMul& call, cudaStream_t stream);               // generic/elementwise.cu
void embed(const Embed& call, cudaStream_t stream);                    // generic/elementwise.cu
void copy(const Copy& call, cudaStream_t stream);                      // generic/elementwise.cu
void store_rows(const StoreRows& call, cudaStream_t stream);           // generic/elementwise.cu
void load_rows(const LoadRows& call, cudaStream_t stream);             // generic/elementwise.cu
void combine(const Combine& call, cudaStream_t stream);                // generic/elementwise.cu
void route(const Route& call, cudaStream_t stream);                    // generic/route.cu
void group_by_expert(const GroupByExpert& call, cudaStream_t stream);  // generic/route.cu
void mla_attention(const MlaAttention& call, cudaStream_t stream);     // generic/attention.cu
void gqa_attention(const GqaAttention& call, cudaStream_t stream);     // generic/attention.cu, generic/gqa.cu
void argmax(const Argmax& call, cudaStream_t stream);                  // generic/argmax.cu
void draw_tokens(const DrawTokens& call, cudaStream_t stream);         // generic/draw.cu

}  // namespace strobe::kernel::cuda
