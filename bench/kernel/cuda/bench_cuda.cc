// Times the CUDA kernels (graph replay, cold L2, medians) and says how near each is to what the GPU can do.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/failure.h"
#include "families.h"
#include "graph_timer.h"
#include "kernel/cuda/device_memory.h"
#include "report.h"

namespace strobe::bench {
namespace {

using kernel::cuda::check;

// The H200's dense 16-bit matrix product, 8192^3 on random numbers through PyTorch.
constexpr double kMatrixTflops = 793;

// Not through a graph: there, copies go to the copy engines, which are slower.
double measure_copy_gb_s() {
  constexpr size_t kBytes = size_t{2} << 30;
  const kernel::cuda::DeviceMemory from(kBytes);
  const kernel::cuda::DeviceMemory to(kBytes);
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  float best_ms = 1e9F;
  for (int i = 0; i < 6; ++i) {
    check(cudaEventRecord(begin), "cudaEventRecord");
    check(cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice), "cudaMemcpyAsync");
    check(cudaEventRecord(end), "cudaEventRecord");
    check(cudaEventSynchronize(end), "the copy");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    best_ms = std::min(best_ms, ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return 2.0 * static_cast<double>(kBytes) / static_cast<double>(best_ms) / 1e6;
}

int run(int argc, char** argv) {
  CLI::App app("Times the CUDA kernels");
  std::string filter;
  std::string out;
  app.add_option("--filter", filter, "only cases whose name contains this");
  app.add_option("--out", out, "JSON file to write");
  CLI11_PARSE(app, argc, argv);
  std::string command;
  for (int i = 0; i < argc; ++i) command += (i == 0 ? "" : " ") + std::string(argv[i]);

  const double copy_gb_s = measure_copy_gb_s();
  fmt::print("device copy {:.0f} GB/s (read and written)\n", copy_gb_s);
  Report report(copy_gb_s, kMatrixTflops);
  bench_mla(report, filter);
  bench_prompt(report, filter);
  bench_nvfp4_moe(report, filter);
  bench_generic(report, filter);
  if (!out.empty()) {
    std::ofstream file(out);
    file << report.json(command).dump(1) << "\n";
    if (!file) fail("--out {}: cannot be written", out);
  }
  return 0;
}

}  // namespace
}  // namespace strobe::bench

int main(int argc, char** argv) {
  try {
    return strobe::bench::run(argc, argv);
  } catch (const strobe::Failure& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return 1;
  }
}
