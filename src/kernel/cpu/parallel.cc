#include "kernel/cpu/parallel.h"

#include "base/check.h"
#include "base/worker_pool.h"

namespace strobe::kernel {

int workers_of(WorkerPool& pool) {
  return pool.workers();
}

void share_with_workers(WorkerPool& pool, void (*task)(void* context, int worker, int workers, int64_t* next) noexcept,
                        void* context) {
  pool.share(task, context);
}

std::byte* thread_scratch() {
  alignas(64) static thread_local std::byte scratch[kScratchBytes];
  return scratch;
}

void check_limit(const char* name, int64_t value, int64_t limit) {
  STROBE_CHECK(value <= limit, "{} is {}, the CPU kernels take at most {}", name, value, limit);
}

}  // namespace strobe::kernel
