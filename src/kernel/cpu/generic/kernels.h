// The kernels of one instruction set. What each computes is said at its struct in kernel/args.h.
#pragma once

#include "kernel/args.h"

namespace strobe {
class WorkerPool;
}

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

void gemm(WorkerPool& pool, const Gemm& call);                   // gemm.cc
void rms_norm(WorkerPool& pool, const RmsNorm& call);            // norm.cc
void rope(WorkerPool& pool, const Rope& call);                   // rope.cc
void silu_mul(WorkerPool& pool, const SiluMul& call);            // elementwise.cc
void embed(WorkerPool& pool, const Embed& call);                 // elementwise.cc
void copy(WorkerPool& pool, const Copy& call);                   // elementwise.cc
void route(WorkerPool& pool, const Route& call);                 // route.cc
void combine(WorkerPool& pool, const Combine& call);             // route.cc
void store_rows(WorkerPool& pool, const StoreRows& call);        // store.cc
void load_rows(WorkerPool& pool, const LoadRows& call);          // store.cc
void mla_attention(WorkerPool& pool, const MlaAttention& call);  // attention.cc
void gqa_attention(WorkerPool& pool, const GqaAttention& call);  // attention.cc
void argmax(WorkerPool& pool, const Argmax& call);               // argmax.cc

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
