#include "tool/assembly.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/cpu_features.h"
#include "base/log.h"
#include "engine/backends.h"
#include "engine/plain_stepper.h"
#include "engine/stopwatch.h"
#include "load/tensor_source.h"
#include "model/families.h"
#include "spec/dflash_stepper.h"
#include "spec/draft_kv_dtype.h"
#include "tool/check_options.h"

namespace strobe::tool {
namespace {

constexpr int32_t kDefaultRunningDflash = 48;  // as SGLang sets it for DFLASH
constexpr int32_t kDefaultRunningPlain = 64;
constexpr int64_t kLargestDefaultTokens = int64_t{1} << 20;

void decide(System& system, std::string what, std::string value, std::string reason) {
  log_info("{}: {} ({})", what, value, reason);
  system.decisions.push_back({std::move(what), std::move(value), std::move(reason)});
}

bool speculates(const System& system) {
  return !system.options.speculative_algorithm.empty();
}

// What a lower room says about the value of a flag.
Error blame(const char* flag, const Error& fault) {
  return error("{}: {}", flag, fault.message);
}

// What is settled from flags, configs and tokenizer alone, before anything large is read.
struct Settled {
  DType target_kv = DType::kBf16;
  DType draft_kv = DType::kBf16;
  model::Recipe draft_recipe;
  int64_t mask_token = 0;
};

// ---- the device ----

Result<void> set_up_device(System& system) {
  EngineOptions& o = system.options;
  if (o.threads == 0) o.threads = static_cast<int32_t>(std::max(1U, std::thread::hardware_concurrency()));
  if (o.cpu_isa == "ref") {
    system.kernels = &kernel::ref_kernels();
  } else {
    const auto isa = parse_cpu_isa(o.cpu_isa);
    if (!isa.ok()) return blame("--cpu-isa", isa.error());
    system.kernels = &kernel::cpu_kernels(*isa);
  }
  const bool asked = o.cpu_isa != "auto";
  o.cpu_isa = system.kernels->name;
  system.pool = std::make_unique<WorkerPool>(o.threads);
  system.workspace = std::make_unique<ops::Workspace>();
  system.exec = std::make_unique<ops::Exec>(*system.pool, *system.kernels, *system.workspace);
  system.arena = std::make_unique<ops::WeightArena>(*system.kernels);
  o.device = "cpu";
  decide(system, "kernels", fmt::format("cpu {}, {} threads", o.cpu_isa, o.threads),
         asked ? "as asked" : "the best of " + cpu_name());
  return {};
}

// ---- the target ----

Result<std::shared_ptr<const Checkpoint>> open_checkpoint(const std::filesystem::path& folder) {
  STROBE_ASSIGN(Checkpoint checkpoint, Checkpoint::open(folder));
  return std::make_shared<const Checkpoint>(std::move(checkpoint));
}

Result<void> read_target(System& system) {
  EngineOptions& o = system.options;
  STROBE_ASSIGN(system.config, load_model_config(o.model_path));
  const ModelConfig& config = system.config;
  for (const auto& warning : config.warnings) log_warning("{}", warning);
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
  system.context_tokens = o.context_length > 0 ? o.context_length : config.max_positions;
  if (system.context_tokens < 2) {
    return error("{}/config.json: max_position_embeddings {}: a prompt and an answer need at least 2 positions",
                 o.model_path, config.max_positions);
  }
  STROBE_ASSIGN(system.tokenizer, Tokenizer::load(o.tokenizer_folder()));
  if (system.tokenizer->vocab_size() > config.vocab_size) {
    return error("{}: the tokenizer has {} tokens, the model {}", o.tokenizer_folder(), system.tokenizer->vocab_size(),
                 config.vocab_size);
  }
  STROBE_ASSIGN(system.recipe, model::target_recipe(config));
  return {};
}

Result<void> load_target(System& system) {
  const ModelConfig& config = system.config;
  STROBE_ASSIGN(auto checkpoint, open_checkpoint(system.options.model_path));
  STROBE_ASSIGN(auto source, TensorSource::open(std::move(checkpoint), target_name_rules(config), config.quant));
  STROBE_ASSIGN(system.weights, model::load_target_weights(system.recipe, source, *system.arena));
  STROBE_TRY(source.finish());
  log_info("target: {}", source.summary_line());
  for (const auto& note : source.summary().notes) log_warning("{}", note);
  system.rope = model::make_rope_table(system.recipe.rope, system.context_tokens, *system.arena);
  return {};
}

Result<DType> target_kv_dtype(System& system) {
  const std::string& flag = system.options.kv_cache_dtype;
  const bool declared = system.config.quant.kv == KvScheme::kFp8;
  if (flag == "auto") {
    const DType dtype = declared ? DType::kE4m3 : DType::kBf16;
    decide(system, "KV cache", std::string(to_string(dtype)),
           declared ? fmt::format("{} declares an fp8 KV cache", system.config.quant.source)
                    : "the checkpoint declares no fp8 KV cache");
    return dtype;
  }
  STROBE_ASSIGN(const DType dtype, parse_dtype(flag));
  decide(system, "KV cache", std::string(to_string(dtype)), "as --kv-cache-dtype says");
  return dtype;
}

// The reference kernels keep an unquantised cache in f32, so that nothing is rounded that the maths does not round.
DType stored_as(const System& system, DType dtype) {
  return dtype == DType::kBf16 && system.kernels->activation == DType::kF32 ? DType::kF32 : dtype;
}

// An attention backend that a flag asked for, for one role.
struct AskedBackend {
  engine::BackendRole role;
  const char* flag;
  const std::string& name;
};

Result<void> choose_target_backends(System& system, DType kv_dtype) {
  const EngineOptions& o = system.options;
  using enum engine::BackendRole;
  const auto or_common = [&](engine::BackendRole role, const char* flag, const std::string& own) {
    return own.empty() ? AskedBackend{role, "--attention-backend", o.attention_backend} : AskedBackend{role, flag, own};
  };
  const AskedBackend prefill = or_common(kPrefill, "--prefill-attention-backend", o.prefill_attention_backend);
  const AskedBackend decode = or_common(kDecode, "--decode-attention-backend", o.decode_attention_backend);
  const AskedBackend& verifier = o.speculative_attention_mode == "decode" ? decode : prefill;
  for (const AskedBackend& asked : {prefill, decode, AskedBackend{kVerify, verifier.flag, verifier.name}}) {
    if (asked.role == kVerify && !speculates(system)) continue;
    const auto decision = engine::resolve_backend({.name = asked.name,
                                                   .role = asked.role,
                                                   .mla = system.config.mla.has_value(),
                                                   .device = {},
                                                   .kv_dtype = kv_dtype,
                                                   .page_size = o.page_size,
                                                   .strict = o.strict_backends});
    if (!decision.ok()) return blame(asked.flag, decision.error());
    decide(system, fmt::format("{} attention", to_string(asked.role)), decision->kernel, decision->reason);
    if (asked.role == kVerify && system.recipe.recurrent() && !decision->backend.commits_recurrent_state) {
      return error("{} {}: it cannot commit the recurrent states of a hybrid model after a verify pass", asked.flag,
                   asked.name);
    }
  }
  return {};
}

// Experts and NVFP4 products: one kernel of ours, whatever the name.
Result<void> choose_product_kernel(System& system, const char* flag, const std::string& name, const char* what) {
  const bool ours = name == "auto" || name == "strobe";
  if (!ours && system.options.strict_backends) {
    return error("{} {}: it does not exist on {}; without --strict-backends, Strobe's matrix products do its job", flag,
                 name, to_string(system.exec->device()));
  }
  decide(system, what, fmt::format("{} matrix products", system.kernels->name),
         ours ? (name == "auto" ? "the default" : "as asked")
              : fmt::format("Strobe's kernel does the job of '{}' on {}", name, to_string(system.exec->device())));
  return {};
}

// ---- the draft ----

Result<void> read_draft(System& system, Settled& settled) {
  EngineOptions& o = system.options;
  DraftOptions draft_options;
  if (o.speculative_draft_rope_amplitude > 0) draft_options.rope_amplitude = o.speculative_draft_rope_amplitude;
  STROBE_ASSIGN(system.draft_config,
                load_draft_config(o.speculative_draft_model_path, system.config.layers, draft_options));
  const DraftConfig& draft = *system.draft_config;
  for (const auto& warning : draft.warnings) log_warning("draft: {}", warning);
  STROBE_ASSIGN(const auto warnings, check_draft_against_target(draft, system.config));
  for (const auto& warning : warnings) log_warning("draft: {}", warning);

  STROBE_ASSIGN(const BlockSize block,
                resolve_block_size(draft, o.speculative_num_draft_tokens == 0
                                              ? std::nullopt
                                              : std::optional<int64_t>(o.speculative_num_draft_tokens)));
  if (!block.warning.empty()) log_warning("draft: {}", block.warning);
  if (block.tokens > schedule::kMaxBlockTokens) {
    return error("draft config.json: block_size {}: accepted: 2 to {}", block.tokens, schedule::kMaxBlockTokens);
  }
  const bool asked = o.speculative_num_draft_tokens != 0;
  o.speculative_num_draft_tokens = static_cast<int32_t>(block.tokens);
  if (o.speculative_draft_window_size > 0 && o.speculative_draft_window_size < block.tokens) {
    return error("--speculative-draft-window-size {}: it must hold a block of {} tokens",
                 o.speculative_draft_window_size, block.tokens);
  }
  decide(system, "draft tokens", std::to_string(block.tokens),
         asked ? "as --speculative-num-draft-tokens says" : "the draft's block_size");

  STROBE_ASSIGN(settled.mask_token,
                resolve_mask_token(draft, system.config.vocab_size,
                                   {.find_token = [&](std::string_view token) -> std::optional<int64_t> {
                                      return system.tokenizer->token_id(token);
                                    },
                                    .tokenizer_size = system.tokenizer->vocab_size()}));
  STROBE_ASSIGN(settled.draft_recipe, model::draft_recipe(draft, system.config));
  decide(system, "mask token", std::to_string(settled.mask_token),
         draft.mask_token_id ? "the draft's mask_token_id"
                             : "by the name of the draft's mask_token, or the first free id");
  decide(system, "draft rope amplitude", fmt::format("{:.5f}", draft.rope_amplitude),
         draft_options.rope_amplitude ? "as --speculative-draft-rope-amplitude says" : "by the Hugging Face rule");
  return {};
}

Result<void> load_draft(System& system, const Settled& settled) {
  model::Recipe recipe = settled.draft_recipe;
  STROBE_ASSIGN(auto checkpoint, open_checkpoint(system.options.speculative_draft_model_path));
  STROBE_ASSIGN(auto source, TensorSource::open(std::move(checkpoint), draft_name_rules(), {}));
  STROBE_ASSIGN(model::DraftWeights weights,
                model::load_draft_weights(recipe, system.draft_config->features(), source, *system.arena));
  STROBE_TRY(source.finish());
  log_info("draft: {}", source.summary_line());
  const ops::RopeTable rope = model::make_rope_table(recipe.rope, system.context_tokens, *system.arena);
  system.draft =
      std::make_unique<model::DflashDraft>(std::move(recipe), std::move(weights), rope, system.weights.embedding,
                                           system.weights.head, static_cast<int32_t>(settled.mask_token));
  return {};
}

Result<DType> draft_kv_dtype(System& system, DType target_kv) {
  const EngineOptions& o = system.options;
  const auto backend = engine::resolve_backend({.name = o.speculative_draft_attention_backend,
                                                .role = engine::BackendRole::kDraft,
                                                .mla = false,
                                                .device = {},
                                                .page_size = o.page_size,
                                                .strict = o.strict_backends});
  if (!backend.ok()) return blame("--speculative-draft-attention-backend", backend.error());
  decide(system, "draft attention", backend->kernel, backend->reason);
  spec::DraftKvInputs inputs{.target_kv = target_kv,
                             .model = DType::kBf16,
                             .backend = std::string(backend->backend.name),
                             .backend_needs_equal_types = backend->backend.k_type_equals_q_type};
  if (o.speculative_draft_kv_cache_dtype != "auto") {
    STROBE_ASSIGN(inputs.flag, parse_dtype(o.speculative_draft_kv_cache_dtype));
  }
  const auto decision = spec::resolve_draft_kv_dtype(inputs);
  decide(system, "draft KV cache", std::string(to_string(decision.dtype)), decision.reason);
  return decision.dtype;
}

// ---- caches ----

// The machine's memory, or what the control group of a container allows of it.
int64_t memory_limit_bytes() {
  struct sysinfo info {};
  sysinfo(&info);
  const auto machine = static_cast<int64_t>(info.totalram) * info.mem_unit;
  int64_t group = 0;
  std::ifstream limit("/sys/fs/cgroup/memory.max");  // "max" when there is none, which is no number
  return limit >> group && group > 0 ? std::min(machine, group) : machine;
}

Result<void> make_caches(System& system, const cache::KvGeometry& target, const cache::KvGeometry* draft) {
  EngineOptions& o = system.options;
  const int64_t token_bytes = target.bytes_per_token() + (draft != nullptr ? draft->bytes_per_token() : 0);
  if (o.max_running_requests == 0)
    o.max_running_requests = speculates(system) ? kDefaultRunningDflash : kDefaultRunningPlain;
  int64_t tokens = o.max_total_tokens;
  std::string reason = "as --max-total-tokens says";
  if (tokens == 0) {
    const auto share = static_cast<int64_t>(static_cast<double>(memory_limit_bytes()) * o.mem_fraction_static);
    const int64_t fits = (share - system.arena->bytes()) / token_bytes;
    const int64_t useful = std::min(o.max_running_requests * system.context_tokens, kLargestDefaultTokens);
    tokens = std::min(fits, useful);
    reason = fits < useful ? fmt::format("--mem-fraction-static {} of {} bytes, less the weights",
                                         o.mem_fraction_static, memory_limit_bytes())
                           : "enough for every running request's whole context, at most 1 Mi";
  }
  const int64_t pages = tokens / o.page_size;
  if (pages < 1) {
    return error(
        "--mem-fraction-static {}: of {} bytes it leaves no room for a page of {} tokens ({} bytes) beside {} bytes of "
        "weights",
        o.mem_fraction_static, memory_limit_bytes(), o.page_size, token_bytes * o.page_size, system.arena->bytes());
  }
  o.max_total_tokens = pages * o.page_size;
  const auto all_pages = static_cast<int32_t>(pages) + 1;  // page 0 takes padding
  system.pages = std::make_unique<cache::PagePool>(all_pages, o.page_size);
  system.target_store = std::make_unique<cache::KvStore>(target, all_pages, o.page_size, system.weights.kv_scales);
  if (draft != nullptr) system.draft_store = std::make_unique<cache::KvStore>(*draft, all_pages, o.page_size);
  decide(system, "cache tokens",
         fmt::format("{} in pages of {}; target {} bytes a token, draft {}", o.max_total_tokens, o.page_size,
                     target.bytes_per_token(), draft != nullptr ? draft->bytes_per_token() : 0),
         reason);
  if (system.context_tokens > o.max_total_tokens) {
    system.context_tokens = o.max_total_tokens;
    decide(system, "context", std::to_string(system.context_tokens), "the caches hold no more");
  }
  return {};
}

void make_stepper(System& system) {
  const EngineOptions& o = system.options;
  engine::TargetModel target{
      .recipe = &system.recipe, .weights = &system.weights, .rope = system.rope, .store = system.target_store.get()};
  // A step must at least hold every running request's block.
  const int32_t block = speculates(system) ? o.speculative_num_draft_tokens : 1;
  const int32_t max_rows = std::max(o.chunked_prefill_size, o.max_running_requests * block);
  if (!speculates(system)) {
    system.stepper = std::make_unique<engine::PlainStepper>(*system.exec, std::move(target), o.page_size, max_rows);
    return;
  }
  target.capture_layers = system.draft_config->target_layer_ids;
  system.stepper =
      std::make_unique<spec::DflashStepper>(*system.exec, std::move(target), *system.draft, *system.draft_store,
                                            spec::DflashOptions{.block_tokens = block,
                                                                .window_tokens = o.speculative_draft_window_size,
                                                                .page_size = o.page_size,
                                                                .max_rows = max_rows});
}

}  // namespace

std::string System::decided(const std::string& what) const {
  for (const Decision& decision : decisions) {
    if (decision.what == what) return decision.value;
  }
  return "";
}

Result<std::unique_ptr<System>> assemble(const EngineOptions& options) {
  engine::Stopwatch watch;
  auto owned = std::make_unique<System>();
  System& system = *owned;
  system.options = options;
  STROBE_TRY(check_options(system.options));
  set_log_level(parse_log_level(system.options.log_level).value());
  STROBE_TRY(set_up_device(system));
  // All that can be refused is refused before weights are read: that may take minutes.
  Settled settled;
  STROBE_TRY(read_target(system));
  STROBE_ASSIGN(settled.target_kv, target_kv_dtype(system));
  STROBE_TRY(choose_target_backends(system, settled.target_kv));
  STROBE_TRY(choose_product_kernel(system, "--moe-runner-backend", system.options.moe_runner_backend, "experts"));
  STROBE_TRY(choose_product_kernel(system, "--fp4-gemm-backend", system.options.fp4_gemm_backend, "NVFP4 products"));
  if (speculates(system)) {
    STROBE_TRY(read_draft(system, settled));
    STROBE_ASSIGN(settled.draft_kv, draft_kv_dtype(system, settled.target_kv));
  }

  STROBE_TRY(load_target(system));
  const cache::KvGeometry target = model::kv_geometry(system.recipe, stored_as(system, settled.target_kv));
  if (speculates(system)) {
    STROBE_TRY(load_draft(system, settled));
    const cache::KvGeometry draft = model::kv_geometry(system.draft->recipe(), stored_as(system, settled.draft_kv));
    STROBE_TRY(make_caches(system, target, &draft));
  } else {
    STROBE_TRY(make_caches(system, target, nullptr));
  }
  make_stepper(system);
  log_info("assembled in {:.0f} ms, weights {:.1f} MiB", watch.lap_ms(),
           static_cast<double>(system.arena->bytes()) / (1 << 20));
  return owned;
}

void start_scheduler(System& system) {
  schedule::SchedulerOptions options{.max_running_requests = system.options.max_running_requests,
                                     .max_queued_requests = system.options.max_queued_requests,
                                     .max_context_tokens = static_cast<int32_t>(system.context_tokens),
                                     .vocab = static_cast<int32_t>(system.config.vocab_size)};
  for (const int64_t id : system.config.eos_ids) options.eos_ids.push_back(static_cast<int32_t>(id));
  system.scheduler =
      std::make_unique<schedule::Scheduler>(*system.stepper, *system.pages, *system.tokenizer, std::move(options));
}

}  // namespace strobe::tool
