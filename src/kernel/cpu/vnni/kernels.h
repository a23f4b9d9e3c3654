// The kernel that uses AVX512's VNNI and VBMI parts; for all others that table takes the AVX512 build's.
#pragma once

#include "kernel/args.h"

namespace strobe {
class WorkerPool;
}

namespace strobe::kernel::avx512_vnni {

void gemm(WorkerPool& pool, const Gemm& call);  // gemm.cc

}  // namespace strobe::kernel::avx512_vnni
