// Exec: where and how the operations of one rank run. The first argument of every op; there is no other context.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/worker_pool.h"
#include "kernel/kernels.h"
#include "ops/workspace.h"
#include "tensor/tensor.h"

namespace strobe::ops {

class Exec {
 public:
  // Borrows both; they must outlive it. The workspace is of the kernels' memory.
  Exec(kernel::Kernels& kernels, Workspace& workspace) : kernels_(&kernels), workspace_(workspace) {}
  // The CPU. Borrows all three.
  Exec(WorkerPool& pool, const kernel::CpuKernels& cpu, Workspace& workspace)
      : host_(std::make_unique<kernel::HostKernels>(pool, cpu)), kernels_(host_.get()), workspace_(workspace) {}

  [[nodiscard]] Device device() const { return kernels_->device(); }
  // Whether the host can read and write what operations read and write.
  [[nodiscard]] bool on_host() const { return device().kind == DeviceKind::kCpu; }
  [[nodiscard]] kernel::Kernels& kernels() const { return *kernels_; }
  [[nodiscard]] Memory& memory() const { return kernels_->memory(); }
  [[nodiscard]] Workspace& workspace() const { return workspace_; }
  // The type of what matrix products read: f32 on the reference, bf16 elsewhere.
  [[nodiscard]] DType activation() const { return kernels_->activation(); }
  // A list of that many products to fill in, on the host; good until it is asked for again.
  [[nodiscard]] kernel::GemmProblem* products(int64_t count) {
    if (static_cast<int64_t>(products_.size()) < count) products_.resize(static_cast<size_t>(count));
    return products_.data();
  }

  // Runs `work`, operations that are the same for every call with this tag but for what lies in memory, recorded where
  // the device records. What they take comes from the workspace as it stands, so a moved workspace is a new recording.
  void run_recorded(uint64_t tag, const std::function<void()>& work);

 private:
  std::unique_ptr<kernel::HostKernels> host_;
  kernel::Kernels* kernels_;
  Workspace& workspace_;
  std::vector<kernel::GemmProblem> products_;
};

}  // namespace strobe::ops
