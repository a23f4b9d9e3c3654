// Where there is no tile unit: the names, so that the program links. best_cpu_isa never chooses them there.
#include "base/check.h"
#include "kernel/cpu/amx/kernels.h"

namespace strobe::kernel::amx {

void gemm(WorkerPool&, const Gemm&) {
  check_failed(__FILE__, __LINE__, "this build has AMX kernels", "");
}

void mla_attention(WorkerPool&, const MlaAttention&) {
  check_failed(__FILE__, __LINE__, "this build has AMX kernels", "");
}

void gqa_attention(WorkerPool&, const GqaAttention&) {
  check_failed(__FILE__, __LINE__, "this build has AMX kernels", "");
}

}  // namespace strobe::kernel::amx
