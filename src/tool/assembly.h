// Assembly: from options to a running system. The only place where all rooms meet.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/worker_pool.h"
#include "cache/kv_store.h"
#include "cache/page_pool.h"
#include "engine/step.h"
#include "load/draft_config.h"
#include "load/model_config.h"
#include "model/dflash_draft.h"
#include "ops/exec.h"
#include "schedule/scheduler.h"
#include "text/tokenizer.h"
#include "tool/options.h"

namespace strobe::tool {

// Why something is as it is: a line for the log, for /server_info and for `strobe inspect`.
struct Decision {
  std::string what;
  std::string value;
  std::string reason;
};

// Members are in the order of construction; each may borrow from those before it.
struct System {
  EngineOptions options;  // with every default resolved
  std::vector<Decision> decisions;
  std::unique_ptr<Tokenizer> tokenizer;
  ModelConfig config;
  std::optional<DraftConfig> draft_config;
  std::unique_ptr<WorkerPool> pool;
  const kernel::CpuKernels* kernels = nullptr;
  std::unique_ptr<ops::Workspace> workspace;
  std::unique_ptr<ops::Exec> exec;
  std::unique_ptr<ops::WeightArena> arena;
  model::Recipe recipe;
  model::TargetWeights weights;
  ops::RopeTable rope;
  std::unique_ptr<model::DflashDraft> draft;
  std::unique_ptr<cache::PagePool> pages;
  std::unique_ptr<cache::KvStore> target_store;
  std::unique_ptr<cache::KvStore> draft_store;
  std::unique_ptr<engine::Stepper> stepper;
  std::unique_ptr<schedule::Scheduler> scheduler;
  int64_t context_tokens = 0;

  // The value of a decision, "" when there is none of that name.
  [[nodiscard]] std::string decided(const std::string& what) const;
};

// Everything but the scheduler, logged step by step. Errors name flag, file, tensor or field.
Result<std::unique_ptr<System>> assemble(const EngineOptions& options);
// Starts the scheduler's thread.
void start_scheduler(System& system);

}  // namespace strobe::tool
