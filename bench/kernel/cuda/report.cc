#include "report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <utility>

#include "kernel/cuda/launch.h"

namespace strobe::bench {

void Report::add(const std::string& name, const GraphTiming& timing, const Work& work, nlohmann::json facts) {
  const double memory_us = work.bytes / copy_gb_s_ / 1e3;
  const double compute_us = work.flops / tflop_s_ / 1e6;
  const double floor_us = std::max(memory_us, compute_us);
  fmt::print("{:44} {:9.2f} us (best {:9.2f})  floor {:8.2f} us ({})  {:3.0f}% of it  {}\n", name, timing.median_us,
             timing.best_us, floor_us, memory_us > compute_us ? "bytes" : "flops", 100 * floor_us / timing.median_us,
             facts.empty() ? "" : facts.dump());
  std::fflush(stdout);
  cases_.push_back({{"name", name},
                    {"median_us", timing.median_us},
                    {"best_us", timing.best_us},
                    {"bytes", work.bytes},
                    {"flops", work.flops},
                    {"memory_us", memory_us},
                    {"compute_us", compute_us},
                    {"share_of_floor", floor_us / timing.median_us},
                    {"facts", std::move(facts)}});
}

nlohmann::json Report::json(const std::string& command) const {
  cudaDeviceProp device{};
  kernel::cuda::check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  int driver = 0;
  kernel::cuda::check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  return {{"date", fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)))},
          {"machine",
           {{"gpu", device.name},
            {"multiprocessors", device.multiProcessorCount},
            {"l2_bytes", device.l2CacheSize},
            {"memory_bytes", device.totalGlobalMem},
            {"driver_cuda", driver},
            {"runtime_cuda", CUDART_VERSION}}},
          {"ceilings", {{"copy_gb_s", copy_gb_s_}, {"tflop_s", tflop_s_}}},
          {"method", "one CUDA graph over operand sets outside L2, median of its replays"},
          {"command", command},
          {"cases", cases_}};
}

}  // namespace strobe::bench
