// The worker pool and per-thread scratch memory as plain functions: files that are compiled for one instruction set
// must not instantiate other rooms' templates (generic/simd.h says why).
#pragma once

#include <cstdint>

#include "kernel/args.h"

namespace strobe {
class WorkerPool;
}

namespace strobe::kernel {

[[nodiscard]] int workers_of(WorkerPool& pool);

// Runs task(context, worker, workers, next) on the calling thread and on those workers that come in time
// (WorkerPool::share).
void share_with_workers(WorkerPool& pool, void (*task)(void* context, int worker, int workers, int64_t* next) noexcept,
                        void* context);

// Scratch memory of the calling thread, 64-byte aligned, kScratchBytes long, contents undefined. A kernel owns it for
// the length of its work on that thread; nothing in it survives a call. Thread-local and of fixed size: kernels never
// allocate.
inline constexpr int64_t kScratchBytes = 1 << 20;
[[nodiscard]] std::byte* thread_scratch();

// Aborts with the names and values unless value <= limit: bounds of fixed-size scratch.
void check_limit(const char* name, int64_t value, int64_t limit);

}  // namespace strobe::kernel
