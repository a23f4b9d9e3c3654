// The kernel tables that this machine can run, and one loaded model for each (loading takes longer than most tests).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/cpu_features.h"
#include "kernel/cpu_kernels.h"
#include "pocket.h"

namespace strobe::model {

inline std::vector<const kernel::CpuKernels*> tables_here() {
  std::vector<const kernel::CpuKernels*> tables = {&kernel::ref_kernels()};
  for (const CpuIsa isa : {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAmx}) {
    if (isa <= best_cpu_isa()) tables.push_back(&kernel::cpu_kernels(isa));
  }
  return tables;
}

inline Pocket& pocket_for(const kernel::CpuKernels& kernels) {
  static std::map<const kernel::CpuKernels*, std::unique_ptr<Pocket>> loaded;
  auto& pocket = loaded[&kernels];
  if (!pocket) pocket = std::make_unique<Pocket>(kernels, 2);
  return *pocket;
}

}  // namespace strobe::model
