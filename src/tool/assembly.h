// Assembly: from options to a running system. The only place where all rooms meet.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/result.h"
#include "base/trace.h"
#include "base/worker_pool.h"
#include "cache/kv_store.h"
#include "cache/page_pool.h"
#include "engine/step.h"
#include "model/dflash_draft.h"
#include "ops/exec.h"
#include "schedule/scheduler.h"
#include "spec/acceptance.h"
#include "tool/options.h"
#include "tool/plan.h"

namespace strobe::tool {

// A plan, carried out. Members are in the order of construction; each may borrow from those before it.
struct System : Plan {
  explicit System(Plan plan) : Plan(std::move(plan)) {}

  std::unique_ptr<WorkerPool> pool;
  std::unique_ptr<kernel::Kernels> device_kernels;
  std::unique_ptr<ops::Workspace> workspace;
  std::unique_ptr<ops::Exec> exec;
  std::unique_ptr<ops::WeightArena> arena;
  model::TargetWeights weights;
  ops::RopeTable rope;
  std::unique_ptr<model::DflashDraft> draft;
  std::unique_ptr<cache::PagePool> pages;
  std::unique_ptr<cache::KvStore> target_store;
  std::unique_ptr<cache::KvStore> draft_store;
  std::unique_ptr<engine::Stepper> stepper;
  TraceRecorder trace;
  std::unique_ptr<schedule::Scheduler> scheduler;
};

// Puts something around the device's kernels: a clock, say.
using WrapKernels = std::function<std::unique_ptr<kernel::Kernels>(std::unique_ptr<kernel::Kernels>)>;

// Everything but the scheduler, logged step by step. Errors name flag, file, tensor or field.
Result<std::unique_ptr<System>> assemble(const EngineOptions& options, const WrapKernels& wrap = {});
// Part of assemble(). Called once more behind it, puts a stepper with another rule in the place of the first.
void make_stepper(System& system, spec::AcceptRule rule = spec::accept);
// Starts the scheduler's thread.
void start_scheduler(System& system);

}  // namespace strobe::tool
