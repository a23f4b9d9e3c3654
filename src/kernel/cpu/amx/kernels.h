// The kernels that use the tile unit; for all others the AMX table takes the AVX512 build's. See kernel/args.h for what
// each computes. The process must have permission for tile data (best_cpu_isa asks for it).
#pragma once

#include "kernel/args.h"

namespace strobe {
class WorkerPool;
}

namespace strobe::kernel::amx {

void gemm(WorkerPool& pool, const Gemm& call);                   // gemm.cc
void mla_attention(WorkerPool& pool, const MlaAttention& call);  // attention.cc
void gqa_attention(WorkerPool& pool, const GqaAttention& call);  // attention.cc

}  // namespace strobe::kernel::amx
