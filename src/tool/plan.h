// Plan: everything that is settled from flags, configs and file headers, before memory is taken or weights are read:
// what runs, with which kernels and types, why, and how much memory it takes. `strobe inspect` prints it; assemble()
// carries it out.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/kv_store.h"
#include "engine/memory_plan.h"
#include "kernel/cuda_device.h"
#include "load/draft_config.h"
#include "load/model_config.h"
#include "load/safetensors.h"
#include "load/tensor_source.h"
#include "model/recipe.h"
#include "text/tokenizer.h"
#include "tool/options.h"

namespace strobe::tool {

// Why something is as it is: a line for the log, for /server_info and for `strobe inspect`.
struct Decision {
  std::string what;
  std::string value;
  std::string reason;
};

struct Plan {
  EngineOptions options;  // with every default resolved
  std::vector<Decision> decisions;
  std::unique_ptr<Tokenizer> tokenizer;  // may be nullptr in an inspection
  ModelConfig config;
  std::optional<DraftConfig> draft_config;
  Device device;
  const kernel::CpuKernels* cpu_table = nullptr;  // on the CPU
  std::string kernels;                            // their name: amx, ref, sm90, ...
  kernel::WeightForms forms;
  int64_t alignment = 64;         // of weights and workspace
  int64_t device_free_bytes = 0;  // on a GPU
  model::Recipe recipe;
  model::Recipe draft_recipe;
  int64_t mask_token = 0;
  // Of a step with a draft, in plain steps; 0: drafting always pays; none: not measured yet.
  std::optional<double> draft_cost;
  // The same of each of several requests that decode together, where that was measured.
  std::optional<double> crowded_draft_cost;
  int32_t crowd = 1;
  std::shared_ptr<const Checkpoint> checkpoint;
  std::shared_ptr<const Checkpoint> draft_checkpoint;
  cache::KvGeometry target_kv;
  cache::KvGeometry draft_kv;
  int64_t context_tokens = 0;  // of one request: prompt and answer
  int32_t max_rows = 0;        // of a step
  kernel::StepLimits limits;   // of a step, for the kernels
  int64_t workspace_bytes = 0;
  engine::MemoryPlan memory;
  LoadSummary target_tensors;         // as far as they were found
  std::vector<std::string> warnings;  // what runs, but may not be as it was meant
  // Only an inspection goes on after a fault; then it is listed here.
  std::vector<std::string> faults;

  [[nodiscard]] bool speculates() const { return !options.speculative_algorithm.empty(); }
  // The value of a decision, "" when there is none of that name.
  [[nodiscard]] std::string decided(const std::string& what) const;
  void decide(std::string what, std::string value, std::string reason);
  void warn(std::string warning);
};

struct PlanMode {
  // Goes on where it can: a missing tokenizer, shards that are only named by an index, weights that do not fit the
  // model or the memory become faults of the plan.
  bool inspection = false;
  int64_t memory_bytes = 0;  // of the device; 0: this machine's
};

// Decisions and warnings are logged as they are made. Errors name flag, file, tensor or field.
Result<Plan> make_plan(const EngineOptions& options, const PlanMode& mode = {});

}  // namespace strobe::tool
