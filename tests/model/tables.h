// What this machine can run kernels on: every CPU table that it has, and a GPU if there is one. One loaded model for
// each (loading takes longer than most tests).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "kernel/cuda_device.h"
#include "pocket.h"

namespace strobe::model {

// The slowest first.
inline const std::vector<const Platform*>& platforms_here() {
  static const std::vector<const Platform*> all = [] {
    std::vector<const Platform*> list = {new Platform(kernel::ref_kernels())};
    for (const CpuIsa isa : kCpuIsas) {
      if (isa <= best_cpu_isa()) list.push_back(new Platform(kernel::cpu_kernels(isa)));
    }
    if (kernel::find_cuda_device(0).ok()) list.push_back(new Platform(Platform::cuda()));
    return list;
  }();
  return all;
}

// The same, and recorded steps on the best CPU table and on the GPU.
inline const std::vector<const Platform*>& stepping_platforms_here() {
  static const std::vector<const Platform*> all = [] {
    std::vector<const Platform*> list = platforms_here();
    list.push_back(new Platform(Platform(kernel::cpu_kernels(best_cpu_isa())).with_recording()));
    if (kernel::find_cuda_device(0).ok()) list.push_back(new Platform(Platform::cuda().with_recording()));
    return list;
  }();
  return all;
}

inline Pocket& pocket_for(const Platform& platform) {
  static std::map<const Platform*, std::unique_ptr<Pocket>> loaded;
  auto& pocket = loaded[&platform];
  if (!pocket) pocket = std::make_unique<Pocket>(platform, 2);
  return *pocket;
}

}  // namespace strobe::model
