#include "harness.h"

namespace strobe::kernel {

std::vector<const CpuKernels*> tables_here() {
  std::vector<const CpuKernels*> tables = {&ref_kernels()};
  for (const CpuIsa isa : kCpuIsas) {
    if (isa <= best_cpu_isa()) tables.push_back(&cpu_kernels(isa));
  }
  return tables;
}

}  // namespace strobe::kernel
