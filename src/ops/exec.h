// Exec: where and how the operations of one rank run. The first argument of every op; there is no other context.
#pragma once

#include "base/worker_pool.h"
#include "kernel/cpu_kernels.h"
#include "ops/workspace.h"
#include "tensor/tensor.h"

namespace strobe::ops {

class Exec {
 public:
  // Borrows all three; they must outlive it.
  Exec(WorkerPool& pool, const kernel::CpuKernels& cpu, Workspace& workspace)
      : pool_(pool), cpu_(cpu), workspace_(workspace) {}

  [[nodiscard]] Device device() const { return {}; }
  [[nodiscard]] WorkerPool& pool() const { return pool_; }
  [[nodiscard]] const kernel::CpuKernels& cpu() const { return cpu_; }
  [[nodiscard]] Workspace& workspace() const { return workspace_; }
  // The type of what matrix products read: f32 on the reference, bf16 elsewhere.
  [[nodiscard]] DType activation() const { return cpu_.activation; }

 private:
  WorkerPool& pool_;
  const kernel::CpuKernels& cpu_;
  Workspace& workspace_;
};

}  // namespace strobe::ops
