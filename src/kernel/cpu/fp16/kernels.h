// The kernels that use AVX512's half-precision arithmetic; all others of that table are those of avx512_vnni.
#pragma once

#include "kernel/args.h"

namespace strobe {
class WorkerPool;
}

namespace strobe::kernel::avx512_fp16 {

// attention.cc. Keys and values in e4m3: other stores are for the AVX512 build.
void mla_attention(WorkerPool& pool, const MlaAttention& call);
void gqa_attention(WorkerPool& pool, const GqaAttention& call);

}  // namespace strobe::kernel::avx512_fp16
