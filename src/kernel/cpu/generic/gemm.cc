#include "kernel/cpu/generic/kernels.h"
#include "kernel/cpu/generic/vector_gemm.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

void gemm(WorkerPool& pool, const Gemm& call) {
  run_gemm(pool, call, [](int) { return UnitMultiplier(); });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
