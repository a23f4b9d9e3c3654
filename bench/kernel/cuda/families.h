// The kernel families that the benchmark knows, a file each. Every function checks its kernel's results before it times
// them (a wrong result is a Failure), and skips cases whose name does not contain `filter`.
#pragma once

#include <string>

#include "report.h"

namespace strobe::bench {

// MLA decode and verify: 64 heads over fp8 pages.
void bench_mla(Report& report, const std::string& filter);

// Attention of a prompt's chunk against keys and values of its own.
void bench_prompt(Report& report, const std::string& filter);

// Routed experts in NVFP4: Kimi-K2's layer, 1 to 1024 tokens, every tiling.
void bench_nvfp4_moe(Report& report, const std::string& filter);

// The kernels of every model (kernel/cuda/generic.h); of their results it checks only that they are numbers.
void bench_generic(Report& report, const std::string& filter);

}  // namespace strobe::bench
