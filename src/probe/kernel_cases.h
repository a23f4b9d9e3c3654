// Every kernel on every shape of a model: prepared, timed, and held against the reference.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "probe/machine.h"
#include "probe/model_shapes.h"
#include "probe/operands.h"

namespace strobe::probe {

// A case's operands, ready to run. `run` makes `calls` calls, each on weights and stores of its own.
struct PreparedCase {
  std::function<void()> run;
  int64_t calls = 1;
  double bytes = 0;                            // that one call must read or write at least
  double flops = 0;                            // of one call; a multiply-add counts two. 0: not counted
  std::function<std::vector<float>()> result;  // of the last call
};

struct KernelCase {
  std::string model;
  std::string name;
  int64_t rows = 1;
  bool fits_cache = true;
  std::function<PreparedCase(Operands& operands, int64_t rows)> prepare;
};

[[nodiscard]] std::vector<KernelCase> kernel_cases(const ModelShapes& shapes);

struct KernelResult {
  std::string model;
  std::string name;
  int64_t rows = 0;
  Timing call;  // of one call
  double gb_s = 0, gflop_s = 0;
  double bandwidth_share = 0;  // of Ceilings::cache_gb_s or memory_gb_s
  double compute_share = 0;    // of Ceilings::gflop_s; 0 where that is not known
  double error = 0;            // 2-norm of the difference from the reference over the reference's, at few rows
};

// Runs a case for about `seconds`, and once more beside `reference` with at most 2 rows (what a row gets does not
// depend on how many there are).
KernelResult measure_case(const KernelCase& one, kernel::Kernels& kernels, kernel::Kernels& reference,
                          const Ceilings& ceilings, double seconds);

}  // namespace strobe::probe
