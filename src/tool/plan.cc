#include "tool/plan.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "base/cpu_features.h"
#include "base/log.h"
#include "engine/backends.h"
#include "engine/block_rows.h"
#include "engine/step.h"
#include "model/decoder.h"
#include "model/families.h"
#include "model/mla_expansion.h"
#include "model/weights.h"
#include "model/workspace_plan.h"
#include "ops/weight_arena.h"
#include "spec/draft_kv_dtype.h"
#include "tool/check_options.h"

namespace strobe::tool {
namespace {

constexpr int32_t kDefaultRunningDflash = 48;  // as SGLang sets it for DFLASH
constexpr int32_t kDefaultRunningPlain = 64;
constexpr int64_t kWorkspaceGaps = 64 << 10;  // between the pieces of a workspace
constexpr int64_t kLargestDefaultTokens = int64_t{1} << 20;
// Keys and values that are expanded at once: on a CPU so much a thread, which stays in its own cache.
constexpr int64_t kExpandedBytesOfThread = int64_t{1} << 20;
constexpr int64_t kExpandedBytesOnGpu = int64_t{512} << 20;

// What a lower room says about the value of a flag.
Error blame(const char* flag, const Error& fault) {
  return error("{}: {}", flag, fault.message);
}

// ---- the device ----

Result<void> choose_cpu(Plan& plan, const std::string& why) {
  EngineOptions& o = plan.options;
  const auto table = kernel::find_cpu_kernels(o.cpu_isa);
  if (!table.ok()) return error("--cpu-isa {}", table.error().message);
  plan.cpu_table = *table;
  const bool asked = o.cpu_isa != "auto";
  o.cpu_isa = plan.kernels = plan.cpu_table->name;
  plan.forms = kernel::weight_forms(*plan.cpu_table);
  plan.alignment = host_memory().alignment();
  plan.decide("device", "cpu", why);
  plan.decide("kernels", fmt::format("cpu {}, {} threads", o.cpu_isa, o.threads),
              asked ? "as asked" : "the best of " + cpu_name());
  return {};
}

void choose_cuda(Plan& plan, const kernel::CudaDeviceInfo& info, const std::string& why) {
  plan.device = {DeviceKind::kCuda, plan.options.base_gpu_id};
  plan.kernels = info.kernels;
  plan.forms = kernel::cuda_weight_forms();
  plan.alignment = kernel::kCudaAlignment;
  plan.device_free_bytes = info.free_bytes;
  plan.decide("device", fmt::format("{}, {}", to_string(plan.device), info.name), why);
  plan.decide("kernels", fmt::format("cuda {}", plan.kernels), "what this GPU runs");
}

Result<void> choose_device(Plan& plan) {
  EngineOptions& o = plan.options;
  const std::string asked = o.device;
  if (o.threads == 0) o.threads = static_cast<int32_t>(std::max(1U, std::thread::hardware_concurrency()));
  o.device = "cpu";
  if (asked == "cpu") return choose_cpu(plan, "as --device says");
  if (asked == "auto" && (!kernel::built_with_cuda() || o.cpu_isa != "auto")) {
    return choose_cpu(plan, o.cpu_isa != "auto" ? "--cpu-isa names its kernels" : "this program has no CUDA kernels");
  }
  const auto info = kernel::find_cuda_device(o.base_gpu_id);
  if (!info.ok() && asked == "cuda") return blame("--device cuda", info.error());
  if (!info.ok()) return choose_cpu(plan, info.error().message);
  o.device = "cuda";
  choose_cuda(plan, *info, asked == "cuda" ? "as --device says" : "there is one");
  return {};
}

// Matrix products of prompts.
Result<void> choose_prefill_products(Plan& plan) {
  if (!plan.options.enable_cublaslt_prefill) return {};
  if (plan.device.kind != DeviceKind::kCuda) {
    return error("--enable-cublaslt-prefill: the device is {}; accepted: with --device cuda", to_string(plan.device));
  }
  const auto found = kernel::find_cublaslt();
  if (!found.ok()) return blame("--enable-cublaslt-prefill", found.error());
  plan.decide("prefill products", "cuBLASLt from 256 rows on",
              "as --enable-cublaslt-prefill says; texts are no longer the same for every batch and chunk");
  return {};
}

// ---- the target ----

Result<void> read_target(Plan& plan) {
  EngineOptions& o = plan.options;
  STROBE_ASSIGN(plan.config, load_model_config(o.model_path));
  const ModelConfig& config = plan.config;
  for (const auto& warning : config.warnings) plan.warn(warning);
  if (std::ranges::find(config.architectures, "DFlashDraftModel") != config.architectures.end()) {
    return error(
        "--model-path {}: its config.json is that of a DFlash draft; accepted: the target's folder (the draft's goes "
        "to "
        "--speculative-draft-model-path)",
        o.model_path);
  }
  if (o.quantization == "modelopt_fp4" && config.quant.algo != QuantAlgo::kNvfp4) {
    return error("--quantization modelopt_fp4: {} declares no NVFP4 weights; accepted: auto, unquant", o.model_path);
  }
  if (o.quantization == "unquant" && config.quant.algo != QuantAlgo::kNone) {
    return error("--quantization unquant: {} declares {} weights; accepted: auto, modelopt_fp4", o.model_path,
                 to_string(config.quant.algo));
  }
  if (o.context_length > config.max_positions) {
    return error("--context-length {}: the model's max_position_embeddings is {}", o.context_length,
                 config.max_positions);
  }
  plan.context_tokens = o.context_length > 0 ? o.context_length : config.max_positions;
  if (plan.context_tokens < 2) {
    return error("{}/config.json: max_position_embeddings {}: a prompt and an answer need at least 2 positions",
                 o.model_path, config.max_positions);
  }
  STROBE_ASSIGN(plan.recipe, model::target_recipe(config));
  return {};
}

// The form of latent attention in prompts.
Result<void> choose_mla_prefill(Plan& plan) {
  if (!plan.options.enable_expanded_mla_prefill) return {};
  int64_t rows = 0;
  for (const model::LayerRecipe& layer : plan.recipe.layers) {
    const auto* mla = std::get_if<model::MlaRecipe>(&layer.attention);
    if (mla == nullptr) continue;
    const int64_t from = model::expansion_pays_from(*mla);
    if (from == 0) {
      return error(
          "--enable-expanded-mla-prefill: keys of {} + {} numbers and values of {} a head are not less than a latent "
          "of {}, or more than kernels take; accepted: with models whose latent attention (MLA) gains by it, as "
          "DeepSeek-V3 and Kimi-K2",
          mla->nope, mla->rope, mla->v, mla->latent);
    }
    rows = std::max(rows, from);
  }
  if (rows == 0) {
    return error(
        "--enable-expanded-mla-prefill: {} has no latent attention (MLA); accepted: with models that have it, as "
        "DeepSeek-V3 and Kimi-K2",
        plan.options.model_path);
  }
  // Blocks of drafts never are.
  rows = std::max<int64_t>(rows, engine::kMaxBlockTokens + 1);
  const bool cpu = plan.device.kind == DeviceKind::kCpu;
  plan.recipe.expansion = {.min_rows = rows,
                           .kv_bytes = cpu ? plan.options.threads * kExpandedBytesOfThread : kExpandedBytesOnGpu};
  plan.decide("prefill MLA", fmt::format("expanded from {} rows of a prompt in a step on", rows),
              "as --enable-expanded-mla-prefill says; texts are no longer the same for every batch and chunk");
  if (plan.options.chunked_prefill_size < rows) {
    plan.warn(
        fmt::format("--enable-expanded-mla-prefill has no effect: --chunked-prefill-size {} is less than the {} "
                    "rows from which it pays",
                    plan.options.chunked_prefill_size, rows));
  }
  return {};
}

Result<void> read_tokenizer(Plan& plan) {
  const EngineOptions& o = plan.options;
  STROBE_ASSIGN(plan.tokenizer, Tokenizer::load(o.tokenizer_folder()));
  if (plan.tokenizer->vocab_size() > plan.config.vocab_size) {
    return error("{}: the tokenizer has {} tokens, the model {}", o.tokenizer_folder(), plan.tokenizer->vocab_size(),
                 plan.config.vocab_size);
  }
  return {};
}

Result<DType> target_kv_dtype(Plan& plan) {
  const std::string& flag = plan.options.kv_cache_dtype;
  const bool declared = plan.config.quant.kv == KvScheme::kFp8;
  if (flag == "auto") {
    const DType dtype = declared ? DType::kE4m3 : DType::kBf16;
    plan.decide("KV cache", std::string(to_string(dtype)),
                declared ? fmt::format("{} declares an fp8 KV cache", plan.config.quant.source)
                         : "the checkpoint declares no fp8 KV cache");
    return dtype;
  }
  STROBE_ASSIGN(const DType dtype, parse_dtype(flag));
  plan.decide("KV cache", std::string(to_string(dtype)), "as --kv-cache-dtype says");
  return dtype;
}

// The reference kernels keep an unquantised cache in f32, so that nothing is rounded that the maths does not round.
DType stored_as(const Plan& plan, DType dtype) {
  return dtype == DType::kBf16 && plan.forms.activation == DType::kF32 ? DType::kF32 : dtype;
}

// An attention backend that a flag asked for, for one role.
struct AskedBackend {
  engine::BackendRole role;
  const char* flag;
  const std::string& name;
};

Result<void> choose_target_backends(Plan& plan, DType kv_dtype) {
  const EngineOptions& o = plan.options;
  using enum engine::BackendRole;
  const auto or_common = [&](engine::BackendRole role, const char* flag, const std::string& own) {
    return own.empty() ? AskedBackend{role, "--attention-backend", o.attention_backend} : AskedBackend{role, flag, own};
  };
  const AskedBackend prefill = or_common(kPrefill, "--prefill-attention-backend", o.prefill_attention_backend);
  const AskedBackend decode = or_common(kDecode, "--decode-attention-backend", o.decode_attention_backend);
  const AskedBackend& verifier = o.speculative_attention_mode == "decode" ? decode : prefill;
  for (const AskedBackend& asked : {prefill, decode, AskedBackend{kVerify, verifier.flag, verifier.name}}) {
    if (asked.role == kVerify && !plan.speculates()) continue;
    const auto decision = engine::resolve_backend({.name = asked.name,
                                                   .role = asked.role,
                                                   .mla = plan.config.mla.has_value(),
                                                   .device = plan.device,
                                                   .kv_dtype = kv_dtype,
                                                   .page_size = o.page_size,
                                                   .strict = o.strict_backends});
    if (!decision.ok()) return blame(asked.flag, decision.error());
    plan.decide(fmt::format("{} attention", to_string(asked.role)), decision->kernel, decision->reason);
    if (asked.role == kVerify && plan.recipe.recurrent() && !decision->backend.commits_recurrent_state) {
      return error("{} {}: it cannot commit the recurrent states of a hybrid model after a verify pass", asked.flag,
                   asked.name);
    }
  }
  return {};
}

// Experts and NVFP4 products: one kernel of ours, whatever the name.
Result<void> choose_product_kernel(Plan& plan, const char* flag, const std::string& name, const char* what) {
  const bool ours = name == "auto" || name == "strobe";
  if (!ours && plan.options.strict_backends) {
    return error("{} {}: it does not exist on {}; without --strict-backends, Strobe's matrix products do its job", flag,
                 name, to_string(plan.device));
  }
  plan.decide(what, fmt::format("{} matrix products", plan.kernels),
              ours ? (name == "auto" ? "the default" : "as asked")
                   : fmt::format("Strobe's kernel does the job of '{}' on {}", name, to_string(plan.device)));
  return {};
}

// ---- the draft ----

Result<void> read_draft(Plan& plan) {
  EngineOptions& o = plan.options;
  DraftOptions draft_options;
  if (o.speculative_draft_rope_amplitude > 0) draft_options.rope_amplitude = o.speculative_draft_rope_amplitude;
  STROBE_ASSIGN(plan.draft_config,
                load_draft_config(o.speculative_draft_model_path, plan.config.layers, draft_options));
  const DraftConfig& draft = *plan.draft_config;
  STROBE_ASSIGN(const auto warnings, check_draft_against_target(draft, plan.config));
  for (const auto& warning : warnings) plan.warn("draft: " + warning);

  STROBE_ASSIGN(const BlockSize block,
                resolve_block_size(draft, o.speculative_num_draft_tokens == 0
                                              ? std::nullopt
                                              : std::optional<int64_t>(o.speculative_num_draft_tokens)));
  if (!block.warning.empty()) plan.warn("draft: " + block.warning);
  if (block.tokens > engine::kMaxBlockTokens) {
    return error("draft config.json: block_size {}: accepted: 2 to {}", block.tokens, engine::kMaxBlockTokens);
  }
  const bool asked = o.speculative_num_draft_tokens != 0;
  o.speculative_num_draft_tokens = static_cast<int32_t>(block.tokens);
  if (o.speculative_draft_window_size > 0 && o.speculative_draft_window_size < block.tokens) {
    return error("--speculative-draft-window-size {}: it must hold a block of {} tokens",
                 o.speculative_draft_window_size, block.tokens);
  }
  plan.decide("draft tokens", std::to_string(block.tokens),
              asked ? "as --speculative-num-draft-tokens says" : "the draft's block_size");

  STROBE_ASSIGN(plan.mask_token,
                resolve_mask_token(draft, plan.config.vocab_size,
                                   {.find_token = [&](std::string_view token) -> std::optional<int64_t> {
                                      return plan.tokenizer ? plan.tokenizer->token_id(token) : std::nullopt;
                                    },
                                    .tokenizer_size = plan.tokenizer ? plan.tokenizer->vocab_size() : 0}));
  STROBE_ASSIGN(plan.draft_recipe, model::draft_recipe(draft, plan.config));
  plan.decide("mask token", std::to_string(plan.mask_token),
              draft.mask_token_id ? "the draft's mask_token_id"
                                  : "by the name of the draft's mask_token, or the first free id");
  plan.decide("draft rope amplitude", fmt::format("{:.5f}", draft.rope_amplitude),
              draft_options.rope_amplitude ? "as --speculative-draft-rope-amplitude says" : "by the Hugging Face rule");
  return {};
}

Result<DType> draft_kv_dtype(Plan& plan, DType target_kv) {
  const EngineOptions& o = plan.options;
  const auto backend = engine::resolve_backend({.name = o.speculative_draft_attention_backend,
                                                .role = engine::BackendRole::kDraft,
                                                .mla = false,
                                                .device = plan.device,
                                                .page_size = o.page_size,
                                                .strict = o.strict_backends});
  if (!backend.ok()) return blame("--speculative-draft-attention-backend", backend.error());
  plan.decide("draft attention", backend->kernel, backend->reason);
  spec::DraftKvInputs inputs{.target_kv = target_kv,
                             .model = DType::kBf16,
                             .backend = std::string(backend->backend.name),
                             .backend_needs_equal_types = backend->backend.k_type_equals_q_type};
  if (o.speculative_draft_kv_cache_dtype != "auto") {
    STROBE_ASSIGN(inputs.flag, parse_dtype(o.speculative_draft_kv_cache_dtype));
  }
  const auto decision = spec::resolve_draft_kv_dtype(inputs);
  plan.decide("draft KV cache", std::string(to_string(decision.dtype)), decision.reason);
  return decision.dtype;
}

// What is not given is measured at the end of the assembly.
Result<void> plan_draft_cost(Plan& plan, const PlanMode& mode) {
  const std::string& given = plan.options.speculative_min_accept_length;
  STROBE_ASSIGN(plan.draft_cost, parse_min_accept_length(given));
  if (plan.draft_cost) {
    plan.decide("least accept length", plan.draft_cost == 0 ? "none" : given,
                "as --speculative-min-accept-length says");
  } else if (mode.inspection) {
    plan.decide("least accept length", "measured", "at start: what a step with a draft costs in plain steps");
  }
  return {};
}

Result<void> plan_draft(Plan& plan, const PlanMode& mode, DType target_kv) {
  STROBE_TRY(plan_draft_cost(plan, mode));
  STROBE_TRY(read_draft(plan));
  STROBE_ASSIGN(const DType dtype, draft_kv_dtype(plan, target_kv));
  plan.draft_kv = model::kv_geometry(plan.draft_recipe, stored_as(plan, dtype));
  return {};
}

// ---- weights and memory ----

// The GPU's free memory; or the machine's memory, or what the control group of a container allows of it.
int64_t memory_limit_bytes(const Plan& plan) {
  if (plan.device.kind == DeviceKind::kCuda) return plan.device_free_bytes;
  struct sysinfo info {};
  sysinfo(&info);
  const auto machine = static_cast<int64_t>(info.totalram) * info.mem_unit;
  int64_t group = 0;
  std::ifstream limit("/sys/fs/cgroup/memory.max");  // "max" when there is none, which is no number
  return limit >> group && group > 0 ? std::min(machine, group) : machine;
}

// Names, shapes and sizes of all tensors, without their numbers.
Result<engine::MemoryItem> plan_target_weights(Plan& plan) {
  STROBE_ASSIGN(Checkpoint checkpoint, Checkpoint::open_for_plan(plan.options.model_path));
  plan.checkpoint = std::make_shared<const Checkpoint>(std::move(checkpoint));
  STROBE_ASSIGN(auto source,
                TensorSource::open_for_plan(plan.checkpoint, target_name_rules(plan.config), plan.config.quant));
  auto arena = ops::WeightArena::counting(plan.forms, plan.alignment);
  STROBE_TRY(model::load_target_weights(plan.recipe, source, arena));
  STROBE_TRY(source.finish());
  (void)model::make_rope_table(plan.recipe.rope, plan.context_tokens, arena);
  plan.target_tensors = source.summary();
  std::string detail = source.summary_line();
  if (plan.recipe.expansion.min_rows > 0) {
    detail +=
        fmt::format("; {} of them to expand prompts", engine::bytes_text(model::expansion_weight_bytes(plan.recipe)));
  }
  return engine::MemoryItem{"target weights", arena.bytes(), detail};
}

Result<engine::MemoryItem> plan_draft_weights(Plan& plan) {
  STROBE_ASSIGN(Checkpoint checkpoint, Checkpoint::open_for_plan(plan.options.speculative_draft_model_path));
  plan.draft_checkpoint = std::make_shared<const Checkpoint>(std::move(checkpoint));
  STROBE_ASSIGN(auto source, TensorSource::open_for_plan(plan.draft_checkpoint, draft_name_rules(), {}));
  auto arena = ops::WeightArena::counting(plan.forms, plan.alignment);
  STROBE_TRY(model::load_draft_weights(plan.draft_recipe, plan.draft_config->features(), source, arena));
  STROBE_TRY(source.finish());
  (void)model::make_rope_table(plan.draft_recipe.rope, plan.context_tokens, arena);
  return engine::MemoryItem{"draft weights", arena.bytes(), source.summary_line()};
}

// Requests of a decode step: where steps are recorded their number is rounded up.
int64_t recorded_requests(const Plan& plan) {
  const int32_t running = plan.options.max_running_requests;
  return plan.device.kind == DeviceKind::kCpu ? running : engine::recorded_sequences(running);
}

kernel::StepLimits step_limits(const Plan& plan) {
  int64_t heads = 0;
  for (const model::LayerRecipe& layer : plan.recipe.layers) {
    if (const auto* mla = std::get_if<model::MlaRecipe>(&layer.attention)) heads = std::max(heads, mla->heads);
  }
  return {.rows = plan.max_rows, .requests = recorded_requests(plan) + 1, .heads = heads};
}

// The workspace, and apart what expanded prompts take of it.
std::vector<engine::MemoryItem> plan_workspace(Plan& plan) {
  const EngineOptions& o = plan.options;
  const int32_t block = plan.speculates() ? o.speculative_num_draft_tokens : 1;
  const int64_t block_rows = recorded_requests(plan) * block;
  const DType activation = plan.forms.activation;
  const model::StepShape shape{.rows = plan.max_rows,
                               .logit_rows = block_rows,
                               .features = plan.speculates() ? plan.draft_config->features() : 0,
                               .keys = plan.context_tokens,
                               .activation = activation};
  const int64_t expansion = model::step_expansion_bytes(plan.recipe, shape);
  int64_t bytes = model::step_workspace_bytes(plan.recipe, shape) - expansion;
  if (plan.speculates()) {  // the draft's context is written while the verify pass's results are there
    bytes += model::step_workspace_bytes(plan.draft_recipe,
                                         {.rows = plan.max_rows, .logit_rows = block_rows, .activation = activation});
  }
  bytes += kWorkspaceGaps;
  plan.workspace_bytes = bytes + expansion;
  std::vector<engine::MemoryItem> items = {
      {"workspace", bytes, fmt::format("steps of {} rows, {} of them with logits", plan.max_rows, block_rows)}};
  if (expansion > 0) {
    items.push_back(
        {"expanded prompts", expansion,
         fmt::format("queries of {} rows, keys and values of {} positions, {} of these at once", plan.max_rows,
                     plan.context_tokens, engine::bytes_text(plan.recipe.expansion.kv_bytes))});
  }
  return items;
}

// Every size of a decode step is recorded when it first comes, once for each way to choose tokens: the most likely
// ones, drawn ones, and with a draft what the host chooses, in two parts that are one step together; with a draft also
// without it, for steps in which nobody has a block.
engine::MemoryItem plan_recordings(const Plan& plan) {
  const int64_t sizes = engine::recorded_sizes(plan.options.max_running_requests);
  const int64_t ways = plan.speculates() ? 6 : 2;
  int64_t kernels = model::step_launches(plan.recipe);
  if (plan.speculates()) kernels += model::step_launches(plan.draft_recipe);
  return {"CUDA graphs", sizes * ways * kernel::cuda_recorded_bytes(kernels),
          fmt::format("{} sizes of steps, {} graphs each of at most {} kernels", sizes, ways, kernels)};
}

std::string kv_detail(const cache::KvGeometry& kv) {
  return fmt::format("{} layers of {} x {} {}", kv.layers, kv.planes, kv.dim, to_string(kv.dtype));
}

// In an inspection a fault is noted and the work goes on.
Result<void> tolerate(Plan& plan, const PlanMode& mode, Result<void> outcome) {
  if (outcome.ok() || !mode.inspection) return outcome;
  plan.faults.push_back(outcome.message());
  return {};
}

void limit_context(Plan& plan, int64_t tokens) {
  if (plan.context_tokens <= tokens) return;
  plan.context_tokens = tokens;
  plan.decide("context", std::to_string(tokens), "the caches hold no more");
}

Result<void> plan_memory(Plan& plan, const PlanMode& mode) {
  EngineOptions& o = plan.options;
  plan.limits = step_limits(plan);
  if (o.max_total_tokens > 0) limit_context(plan, o.max_total_tokens / o.page_size * o.page_size);
  engine::MemoryNeeds needs{
      .limit_bytes = mode.memory_bytes > 0 ? mode.memory_bytes : memory_limit_bytes(plan),
      .fraction = o.mem_fraction_static,
      .page_size = o.page_size,
      .asked_tokens = o.max_total_tokens,
      .useful_tokens = std::min(o.max_running_requests * plan.context_tokens, kLargestDefaultTokens)};
  const auto add = [&](Result<engine::MemoryItem> item) -> Result<void> {
    if (!item) return tolerate(plan, mode, item.error());
    needs.fixed.push_back(std::move(item).value());
    return {};
  };
  STROBE_TRY(add(plan_target_weights(plan)));
  needs.pools.push_back({"target KV cache", plan.target_kv.bytes_per_token(), kv_detail(plan.target_kv)});
  if (plan.speculates() && plan.draft_kv.layers > 0) {
    STROBE_TRY(add(plan_draft_weights(plan)));
    needs.pools.push_back({"draft KV cache", plan.draft_kv.bytes_per_token(), kv_detail(plan.draft_kv)});
  }
  const size_t all_weights = plan.speculates() ? 2 : 1;
  if (needs.fixed.size() < all_weights) {  // an inspection that has noted why
    plan.memory.items = std::move(needs.fixed);
    return {};
  }
  std::ranges::move(plan_workspace(plan), std::back_inserter(needs.fixed));
  if (plan.device.kind == DeviceKind::kCuda) {
    needs.fixed.push_back({"attention partials", kernel::cuda_reserved_bytes(plan.limits),
                           fmt::format("{} rows of {} heads", plan.limits.rows, plan.limits.heads)});
    if (!o.disable_cuda_graph) needs.fixed.push_back(plan_recordings(plan));
    if (o.enable_cublaslt_prefill) {
      needs.fixed.push_back({"cuBLASLt workspace", kernel::cuda_cublaslt_bytes(), "as --enable-cublaslt-prefill asks"});
    }
  }
  plan.memory.items = needs.fixed;  // what an inspection can tell when the rest does not fit
  STROBE_ASSIGN(plan.memory, engine::plan_memory(needs));
  o.max_total_tokens = plan.memory.tokens;
  plan.decide("cache tokens", fmt::format("{} in pages of {}", plan.memory.tokens, o.page_size), plan.memory.reason);
  limit_context(plan, plan.memory.tokens);
  return {};
}

void plan_step_size(Plan& plan) {
  EngineOptions& o = plan.options;
  if (o.max_running_requests == 0) {
    o.max_running_requests = plan.speculates() ? kDefaultRunningDflash : kDefaultRunningPlain;
  }
  // A step holds every running request's block and a chunk of prompts beside them.
  const int32_t block = plan.speculates() ? o.speculative_num_draft_tokens : 1;
  plan.max_rows = o.chunked_prefill_size + static_cast<int32_t>(recorded_requests(plan)) * block;
}

}  // namespace

std::string Plan::decided(const std::string& what) const {
  for (const Decision& decision : decisions) {
    if (decision.what == what) return decision.value;
  }
  return "";
}

void Plan::decide(std::string what, std::string value, std::string reason) {
  log_info("{}: {} ({})", what, value, reason);
  decisions.push_back({std::move(what), std::move(value), std::move(reason)});
}

void Plan::warn(std::string warning) {
  log_warning("{}", warning);
  warnings.push_back(std::move(warning));
}

Result<Plan> make_plan(const EngineOptions& options, const PlanMode& mode) {
  Plan plan;
  plan.options = options;
  STROBE_TRY(check_options(plan.options));
  set_log_level(parse_log_level(plan.options.log_level).value());
  STROBE_TRY(choose_device(plan));
  STROBE_TRY(choose_prefill_products(plan));
  STROBE_TRY(read_target(plan));
  STROBE_TRY(choose_mla_prefill(plan));
  STROBE_TRY(tolerate(plan, mode, read_tokenizer(plan)));
  STROBE_ASSIGN(const DType kv, target_kv_dtype(plan));
  plan.target_kv = model::kv_geometry(plan.recipe, stored_as(plan, kv));
  const auto try_all = [&](Result<void> outcome) { return tolerate(plan, mode, std::move(outcome)); };
  STROBE_TRY(try_all(choose_target_backends(plan, kv)));
  STROBE_TRY(try_all(choose_product_kernel(plan, "--moe-runner-backend", plan.options.moe_runner_backend, "experts")));
  STROBE_TRY(
      try_all(choose_product_kernel(plan, "--fp4-gemm-backend", plan.options.fp4_gemm_backend, "NVFP4 products")));
  if (plan.speculates()) STROBE_TRY(try_all(plan_draft(plan, mode, kv)));
  plan_step_size(plan);
  STROBE_TRY(tolerate(plan, mode, plan_memory(plan, mode)));
  return plan;
}

}  // namespace strobe::tool
