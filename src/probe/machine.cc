#include "probe/machine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "probe/peak.h"
#include "tensor/buffer.h"

namespace strobe::probe {
namespace {

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

uint64_t read_all(const uint64_t* words, int64_t count) {
  uint64_t sums[16] = {};
  for (int64_t i = 0; i + 16 <= count; i += 16) {
    for (int s = 0; s < 16; ++s) sums[s] ^= words[i + s];
  }
  uint64_t total = 0;
  for (const uint64_t sum : sums) total ^= sum;
  return total;
}

double read_gb_s(WorkerPool& pool, int64_t bytes) {
  const Buffer buffer = Buffer::host(bytes);
  auto* words = static_cast<uint64_t*>(buffer.data());
  std::fill(words, words + bytes / 8, 1);
  std::atomic<uint64_t> sink{0};
  const Timing t = time_of([&] {
    pool.run([&](int worker, int workers) {
      const Range mine = split_range(bytes / 8, worker, workers, 16);
      sink += read_all(words + mine.begin, mine.end - mine.begin);
    });
  });
  return static_cast<double>(bytes) / t.best_us / 1e3;
}

double compute_gflop_s(WorkerPool& pool, CpuIsa isa) {
  constexpr int64_t kRounds = 100'000;
  const auto peak = isa == CpuIsa::kAmx          ? amx::compute_peak
                    : isa == CpuIsa::kAvx512Fp16 ? avx512_fp16::compute_peak
                    : isa >= CpuIsa::kAvx512     ? avx512::compute_peak
                    : isa == CpuIsa::kAvx2       ? avx2::compute_peak
                                                 : portable::compute_peak;
  const Timing t = time_of([&] { pool.run([&](int, int) { peak(kRounds); }); });
  return peak(1) * kRounds * pool.workers() / t.best_us / 1e3;
}

}  // namespace

Timing time_of(const std::function<void()>& call, double seconds) {
  std::vector<double> times;
  const double end = now_us() + seconds * 1e6;
  while (times.size() < 5 || now_us() < end) {
    const double begin = now_us();
    call();
    times.push_back(now_us() - begin);
  }
  std::sort(times.begin(), times.end());
  return {.best_us = times.front(), .median_us = times[times.size() / 2]};
}

Ceilings measure_cpu_ceilings(WorkerPool& pool, CpuIsa isa) {
  Ceilings c;
  c.cache_gb_s = read_gb_s(pool, int64_t{48} << 20);
  c.memory_gb_s = read_gb_s(pool, int64_t{1} << 30);
  c.gflop_s = compute_gflop_s(pool, isa);
  const Timing empty = time_of([&] {
    for (int i = 0; i < 100; ++i) pool.run([](int, int) {});
  });
  c.dispatch_us = empty.median_us / 100;
  return c;
}

Ceilings measure_device_ceilings(kernel::Kernels& kernels) {
  constexpr int64_t kColumns = 4096;
  const auto copy_gb_s = [&](int64_t bytes) {
    const Buffer from = kernels.memory().allocate(bytes), to = kernels.memory().allocate(bytes);
    const kernel::Copy copy{.x = {from.data(), DType::kF32, kColumns},
                            .y = {to.data(), DType::kF32, kColumns},
                            .rows = bytes / 4 / kColumns,
                            .dim = kColumns};
    const Timing t = time_of([&] {
      kernels.copy(copy);
      kernels.wait();
    });
    return 2 * static_cast<double>(bytes) / t.best_us / 1e3;
  };
  Ceilings c;
  c.cache_gb_s = copy_gb_s(int64_t{8} << 20);
  c.memory_gb_s = copy_gb_s(int64_t{512} << 20);
  c.dispatch_us = time_of([&] {
                    kernels.copy({});
                    kernels.wait();
                  }).median_us;
  return c;
}

}  // namespace strobe::probe
