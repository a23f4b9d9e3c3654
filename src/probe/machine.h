// The machine's ceilings, measured before anything else is, and the clock of all measurements.
#pragma once

#include <cstdint>
#include <functional>

#include "base/cpu_features.h"
#include "base/worker_pool.h"
#include "kernel/kernels.h"

namespace strobe::probe {

struct Timing {
  double best_us = 0;
  double median_us = 0;
};

// Runs `call` for about `seconds`, at least 5 times.
Timing time_of(const std::function<void()>& call, double seconds = 0.3);

struct Ceilings {
  double cache_gb_s = 0;   // reading 48 MiB again and again: out of L2, where weights of a small model live
  double memory_gb_s = 0;  // reading 1 GiB
  double gflop_s = 0;      // of the instruction set's best multiply-add; 0: not known
  double dispatch_us = 0;  // a call that does nothing
};

Ceilings measure_cpu_ceilings(WorkerPool& pool, CpuIsa isa);
// Through the device's own copies, read and written bytes counted; it has no call that only multiplies.
Ceilings measure_device_ceilings(kernel::Kernels& kernels);

}  // namespace strobe::probe
