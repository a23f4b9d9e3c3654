#include "tool/assembly.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/stopwatch.h"
#include "engine/plain_stepper.h"
#include "load/tensor_source.h"
#include "model/families.h"
#include "spec/dflash_stepper.h"
#include "tool/draft_cost.h"

namespace strobe::tool {
namespace {

void set_up_device(System& system, const WrapKernels& wrap) {
  system.pool = std::make_unique<WorkerPool>(system.options.threads);
  if (system.device.kind == DeviceKind::kCuda) {
    system.device_kernels = kernel::open_cuda_device(
        system.device.index,
        {.graphs = !system.options.disable_cuda_graph, .cublaslt = system.options.enable_cublaslt_prefill});
  } else {
    system.device_kernels = std::make_unique<kernel::HostKernels>(*system.pool, *system.cpu_table);
  }
  if (wrap) system.device_kernels = wrap(std::move(system.device_kernels));
  kernel::Kernels& kernels = *system.device_kernels;
  kernels.reserve(system.limits);
  system.workspace = std::make_unique<ops::Workspace>(kernels.memory());
  // On the CPU, memory that is never touched costs nothing, and touched memory should be near its thread: it grows.
  if (system.device.kind != DeviceKind::kCpu) system.workspace->reserve(system.workspace_bytes);
  system.exec = std::make_unique<ops::Exec>(kernels, *system.workspace);
  system.arena = std::make_unique<ops::WeightArena>(system.forms, kernels.memory());
}

// A plan can do with the names of an index; weights need the files. Opening says which one is missing.
Result<void> need_shards(const Checkpoint& checkpoint) {
  if (checkpoint.named().empty()) return {};
  STROBE_TRY(Checkpoint::open(checkpoint.folder()));
  return {};
}

Result<void> load_target(System& system) {
  const ModelConfig& config = system.config;
  STROBE_TRY(need_shards(*system.checkpoint));
  STROBE_ASSIGN(auto source, TensorSource::open(system.checkpoint, target_name_rules(config), config.quant));
  STROBE_ASSIGN(system.weights, model::load_target_weights(system.recipe, source, *system.arena));
  STROBE_TRY(source.finish());
  log_info("target: {}", source.summary_line());
  for (const auto& note : source.summary().notes) log_warning("{}", note);
  system.rope = model::make_rope_table(system.recipe.rope, system.context_tokens, *system.arena);
  return {};
}

Result<void> load_draft(System& system) {
  model::Recipe recipe = system.draft_recipe;
  STROBE_TRY(need_shards(*system.draft_checkpoint));
  STROBE_ASSIGN(auto source, TensorSource::open(system.draft_checkpoint, draft_name_rules(), {}));
  STROBE_ASSIGN(model::DraftWeights weights,
                model::load_draft_weights(recipe, system.draft_config->features(), source, *system.arena));
  STROBE_TRY(source.finish());
  log_info("draft: {}", source.summary_line());
  const ops::RopeTable rope = model::make_rope_table(recipe.rope, system.context_tokens, *system.arena);
  system.draft =
      std::make_unique<model::DflashDraft>(std::move(recipe), std::move(weights), rope, system.weights.embedding,
                                           system.weights.head, static_cast<int32_t>(system.mask_token));
  return {};
}

void make_caches(System& system) {
  const int32_t page_size = system.options.page_size;
  Memory& memory = system.device_kernels->memory();
  const auto all_pages = static_cast<int32_t>(system.memory.pages) + 1;  // page 0 takes padding
  system.pages = std::make_unique<cache::PagePool>(all_pages, page_size);
  system.target_store =
      std::make_unique<cache::KvStore>(system.target_kv, all_pages, page_size, system.weights.kv_scales, memory);
  if (system.speculates()) {
    system.draft_store =
        std::make_unique<cache::KvStore>(system.draft_kv, all_pages, page_size, std::vector<float>{}, memory);
  }
}

// Requests that decode together when a drafted step's cost is measured for many.
constexpr int32_t kCrowd = 8;

void find_draft_cost(System& system) {
  if (system.draft_cost) return;
  const StepCosts costs = measure_step_costs(system);
  const double cost = believed_cost(costs, system.stepper->max_block_tokens());
  system.draft_cost = cost;
  if (costs.plain_ms == 0) return system.decide("least accept length", "none", "the context is too short for a block");
  std::string crowded;
  const int32_t crowd = std::min(kCrowd, system.options.max_running_requests);
  const StepCosts together = crowd > 1 ? measure_step_costs(system, crowd) : StepCosts{};
  if (together.plain_ms > 0) {
    // Where a block's rows share more, they cost no less in company.
    system.crowded_draft_cost = std::max(cost, believed_cost(together, system.stepper->max_block_tokens()));
    system.crowd = crowd;
    crowded = fmt::format(" ({:.2f} with {} requests: {:.2f} and {:.2f} ms)", *system.crowded_draft_cost, crowd,
                          together.drafted_ms, together.plain_ms);
  }
  system.decide(
      "least accept length", fmt::format("{:.2f}", cost),
      fmt::format("a step with a draft took {:.2f} ms at start, a plain one {:.2f}{}{}; texts whose drafted "
                  "steps give fewer tokens are decoded plainly, but for tries",
                  costs.drafted_ms, costs.plain_ms,
                  cost < costs.ratio() ? ", so the machine was busy: a block's tokens at most count" : "", crowded));
}

}  // namespace

void make_stepper(System& system, spec::AcceptRule rule) {
  const EngineOptions& o = system.options;
  engine::TargetModel target{
      .recipe = &system.recipe, .weights = &system.weights, .rope = system.rope, .store = system.target_store.get()};
  const bool recorded = system.device_kernels->records();
  if (!system.speculates()) {
    system.stepper =
        std::make_unique<engine::PlainStepper>(*system.exec, std::move(target), o.page_size, system.max_rows, recorded);
    return;
  }
  target.capture_layers = system.draft_config->target_layer_ids;
  system.stepper =
      std::make_unique<spec::DflashStepper>(*system.exec, std::move(target), *system.draft, *system.draft_store,
                                            spec::DflashOptions{.block_tokens = o.speculative_num_draft_tokens,
                                                                .window_tokens = o.speculative_draft_window_size,
                                                                .page_size = o.page_size,
                                                                .max_rows = system.max_rows,
                                                                .recorded = recorded,
                                                                .rule = rule});
}

Result<std::unique_ptr<System>> assemble(const EngineOptions& options, const WrapKernels& wrap) {
  Stopwatch watch;
  // All that can be refused is refused before weights are read: that may take minutes.
  STROBE_ASSIGN(Plan plan, make_plan(options));
  auto owned = std::make_unique<System>(std::move(plan));
  System& system = *owned;
  for (const std::string& line : system.memory.table()) log_info("memory: {}", line);
  set_up_device(system, wrap);
  STROBE_TRY(load_target(system));
  if (system.speculates()) STROBE_TRY(load_draft(system));
  make_caches(system);
  make_stepper(system);
  if (system.speculates()) find_draft_cost(system);
  log_info("assembled in {:.0f} ms, weights {}", watch.lap_ms(), engine::bytes_text(system.arena->bytes()));
  return owned;
}

void start_scheduler(System& system) {
  const double cost = system.draft_cost.value_or(0);
  schedule::SchedulerOptions options{.max_running_requests = system.options.max_running_requests,
                                     .max_queued_requests = system.options.max_queued_requests,
                                     .max_context_tokens = static_cast<int32_t>(system.context_tokens),
                                     .vocab = static_cast<int32_t>(system.config.vocab_size),
                                     .prefix_cache = !system.options.disable_radix_cache,
                                     .chunk_tokens = system.options.chunked_prefill_size,
                                     .draft_cost = {cost, system.crowded_draft_cost.value_or(cost), system.crowd}};
  for (const int64_t id : system.config.eos_ids) options.eos_ids.push_back(static_cast<int32_t>(id));
  options.trace = &system.trace;
  system.scheduler =
      std::make_unique<schedule::Scheduler>(*system.stepper, *system.pages, *system.tokenizer, std::move(options));
}

}  // namespace strobe::tool
