// Where tests of operations run: on the CPU's reference kernels, and on a GPU where there is one.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernel/cuda_device.h"
#include "ops/ops.h"

namespace strobe::ops {

inline std::vector<DeviceKind> gpus_here() {
  return kernel::find_cuda_device(0).ok() ? std::vector{DeviceKind::kCuda} : std::vector<DeviceKind>{};
}

inline std::vector<DeviceKind> devices_here() {
  std::vector<DeviceKind> list = gpus_here();
  list.insert(list.begin(), DeviceKind::kCpu);
  return list;
}

inline std::string device_name(const testing::TestParamInfo<DeviceKind>& info) {
  return info.param == DeviceKind::kCuda ? "cuda" : "cpu";
}

// A device with its workspace.
struct Place {
  Place(WorkerPool& pool, DeviceKind kind) {
    if (kind == DeviceKind::kCuda) {
      kernels = kernel::open_cuda_device(0);
    } else {
      kernels = std::make_unique<kernel::HostKernels>(pool, kernel::ref_kernels());
    }
    workspace = std::make_unique<Workspace>(kernels->memory());
    exec = std::make_unique<Exec>(*kernels, *workspace);
  }
  std::unique_ptr<kernel::Kernels> kernels;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<Exec> exec;
};

}  // namespace strobe::ops
