#include "tool/assembly.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <filesystem>
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

// ---- flags that can be judged alone ----

Result<void> check_one_of(const char* flag, const std::string& value, std::initializer_list<const char*> accepted) {
  std::string list;
  for (const char* one : accepted) {
    if (value == one) return {};
    list += fmt::format("{}{}", list.empty() ? "" : ", ", one);
  }
  return error("{} {}: accepted: {}", flag, value, list);
}

Result<void> check_flags(EngineOptions& o) {
  STROBE_ASSIGN(const LogLevel level, parse_log_level(o.log_level));
  set_log_level(level);
  if (o.model_path.empty()) return error("--model-path is needed: the folder of the target model");
  STROBE_TRY(check_one_of("--device", o.device, {"auto", "cpu"}));
  STROBE_TRY(check_one_of("--quantization", o.quantization, {"auto", "modelopt_fp4", "unquant"}));
  STROBE_TRY(check_one_of("--kv-cache-dtype", o.kv_cache_dtype, {"auto", "bf16", "bfloat16", "fp8_e4m3"}));
  STROBE_TRY(check_one_of("--speculative-draft-kv-cache-dtype", o.speculative_draft_kv_cache_dtype,
                          {"auto", "bf16", "bfloat16", "fp8_e4m3"}));
  STROBE_TRY(check_one_of("--speculative-attention-mode", o.speculative_attention_mode, {"prefill", "decode"}));
  STROBE_TRY(check_one_of("--speculative-draft-model-quantization", o.speculative_draft_model_quantization,
                          {"unquant", "modelopt_fp4"}));
  if (o.tp != 1) return error("--tp-size {}: this build runs one rank; accepted: 1", o.tp);
  if (o.page_size < 1 || o.page_size > 1024) return error("--page-size {}: accepted: 1 to 1024", o.page_size);
  if (o.threads < 0 || o.threads > 1024) return error("--threads {}: accepted: 0 (one a processor) to 1024", o.threads);
  if (!(o.mem_fraction_static > 0 && o.mem_fraction_static < 1)) {
    return error("--mem-fraction-static {}: accepted: above 0 and below 1", o.mem_fraction_static);
  }
  if (o.chunked_prefill_size < 1)
    return error("--chunked-prefill-size {}: accepted: 1 and more", o.chunked_prefill_size);
  if (o.max_running_requests < 0 || o.max_running_requests > 4096) {
    return error("--max-running-requests {}: accepted: 1 to 4096, or 0 for the default", o.max_running_requests);
  }
  if (o.max_queued_requests < 0) return error("--max-queued-requests {}: accepted: 0 and more", o.max_queued_requests);
  if (o.max_total_tokens < 0)
    return error("--max-total-tokens {}: accepted: 1 and more, or 0 for the default", o.max_total_tokens);
  if (o.context_length < 0)
    return error("--context-length {}: accepted: 2 and more, or 0 for the model's", o.context_length);
  return {};
}

Result<void> check_speculative_flags(EngineOptions& o) {
  if (o.speculative_algorithm.empty()) {
    if (!o.speculative_draft_model_path.empty()) {
      return error("--speculative-draft-model-path is given without --speculative-algorithm; accepted: DFLASH");
    }
    return {};
  }
  if (o.speculative_algorithm != "DFLASH") {
    return error("--speculative-algorithm {}: accepted: DFLASH", o.speculative_algorithm);
  }
  if (o.speculative_draft_model_path.empty()) {
    return error("--speculative-algorithm DFLASH needs --speculative-draft-model-path: the folder of the draft");
  }
  if (o.speculative_num_draft_tokens != 0 && o.speculative_dflash_block_size != 0 &&
      o.speculative_num_draft_tokens != o.speculative_dflash_block_size) {
    return error("--speculative-num-draft-tokens {} and --speculative-dflash-block-size {}: for DFLASH they must match",
                 o.speculative_num_draft_tokens, o.speculative_dflash_block_size);
  }
  if (o.speculative_num_draft_tokens == 0) o.speculative_num_draft_tokens = o.speculative_dflash_block_size;
  const int32_t tokens = o.speculative_num_draft_tokens;
  if (tokens != 0 && (tokens < 2 || tokens > schedule::kMaxBlockTokens)) {
    return error("--speculative-num-draft-tokens {}: accepted: 2 to {}, or 0 for the draft's block size", tokens,
                 schedule::kMaxBlockTokens);
  }
  if (o.speculative_draft_window_size < 0) {
    return error("--speculative-draft-window-size {}: accepted: 1 and more, or 0 for the whole context",
                 o.speculative_draft_window_size);
  }
  if (o.speculative_draft_rope_amplitude < 0) {
    return error("--speculative-draft-rope-amplitude {}: accepted: above 0, or 0 for the rule",
                 o.speculative_draft_rope_amplitude);
  }
  return {};
}

// ---- the device ----

Result<void> set_up_device(System& system) {
  EngineOptions& o = system.options;
  if (o.threads == 0) o.threads = static_cast<int32_t>(std::max(1U, std::thread::hardware_concurrency()));
  if (o.cpu_isa == "ref") {
    system.kernels = &kernel::ref_kernels();
  } else {
    STROBE_ASSIGN(const CpuIsa isa, parse_cpu_isa(o.cpu_isa));
    system.kernels = &kernel::cpu_kernels(isa);
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

Result<void> load_target(System& system) {
  EngineOptions& o = system.options;
  STROBE_ASSIGN(system.config, load_model_config(o.model_path));
  const ModelConfig& config = system.config;
  for (const auto& warning : config.warnings) log_warning("{}", warning);
  if (o.quantization == "modelopt_fp4" && config.quant.algo != QuantAlgo::kNvfp4) {
    return error("--quantization modelopt_fp4: {} declares no NVFP4 weights; accepted: auto", o.model_path);
  }
  if (o.context_length > config.max_positions) {
    return error("--context-length {}: the model's max_position_embeddings is {}", o.context_length,
                 config.max_positions);
  }
  system.context_tokens = o.context_length > 0 ? o.context_length : config.max_positions;
  STROBE_ASSIGN(system.tokenizer, Tokenizer::load(o.tokenizer_path.empty() ? o.model_path : o.tokenizer_path));
  if (system.tokenizer->vocab_size() > config.vocab_size) {
    return error("{}: the tokenizer has {} tokens, the model {}", o.model_path, system.tokenizer->vocab_size(),
                 config.vocab_size);
  }
  STROBE_ASSIGN(system.recipe, model::target_recipe(config));
  STROBE_ASSIGN(auto checkpoint, open_checkpoint(o.model_path));
  STROBE_ASSIGN(auto source, TensorSource::open(std::move(checkpoint), target_name_rules(config), config.quant));
  STROBE_ASSIGN(system.weights, model::load_target_weights(system.recipe, source, *system.arena));
  STROBE_TRY(source.finish());
  log_info("target: {}", source.summary_line());
  for (const auto& note : source.summary().notes) log_warning("{}", note);
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

Result<void> choose_target_backends(System& system, DType kv_dtype) {
  const EngineOptions& o = system.options;
  const auto or_common = [&](const std::string& own) { return own.empty() ? o.attention_backend : own; };
  const std::string prefill = or_common(o.prefill_attention_backend), decode = or_common(o.decode_attention_backend);
  const std::string verify = o.speculative_attention_mode == "decode" ? decode : prefill;
  struct Asked {
    engine::BackendRole role;
    const std::string& name;
  };
  for (const Asked& asked : {Asked{engine::BackendRole::kPrefill, prefill}, Asked{engine::BackendRole::kDecode, decode},
                             Asked{engine::BackendRole::kVerify, verify}}) {
    if (asked.role == engine::BackendRole::kVerify && !speculates(system)) continue;
    STROBE_ASSIGN(const auto decision, engine::resolve_backend({.name = asked.name,
                                                                .role = asked.role,
                                                                .mla = system.config.mla.has_value(),
                                                                .device = {},
                                                                .kv_dtype = kv_dtype,
                                                                .page_size = o.page_size,
                                                                .strict = o.strict_backends}));
    decide(system, fmt::format("{} attention", to_string(asked.role)), decision.kernel, decision.reason);
    if (asked.role == engine::BackendRole::kVerify && system.recipe.recurrent() &&
        !decision.backend.commits_recurrent_state) {
      return error(
          "--attention-backend {}: it cannot commit the recurrent states of a hybrid model after a verify pass",
          asked.name);
    }
  }
  return {};
}

// ---- the draft ----

Result<void> load_draft(System& system) {
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

  STROBE_ASSIGN(const int64_t mask,
                resolve_mask_token(draft, system.config.vocab_size,
                                   {.find_token = [&](std::string_view token) -> std::optional<int64_t> {
                                      return system.tokenizer->token_id(token);
                                    },
                                    .tokenizer_size = system.tokenizer->vocab_size()}));
  STROBE_ASSIGN(model::Recipe recipe, model::draft_recipe(draft, system.config));
  STROBE_ASSIGN(auto checkpoint, open_checkpoint(o.speculative_draft_model_path));
  STROBE_ASSIGN(auto source, TensorSource::open(std::move(checkpoint), draft_name_rules(), {}));
  STROBE_ASSIGN(model::DraftWeights weights,
                model::load_draft_weights(recipe, draft.features(), source, *system.arena));
  STROBE_TRY(source.finish());
  log_info("draft: {}", source.summary_line());
  decide(system, "draft rope amplitude", fmt::format("{:.5f}", draft.rope_amplitude),
         draft_options.rope_amplitude ? "as --speculative-draft-rope-amplitude says" : "by the Hugging Face rule");
  const ops::RopeTable rope = model::make_rope_table(recipe.rope, system.context_tokens, *system.arena);
  system.draft =
      std::make_unique<model::DflashDraft>(std::move(recipe), std::move(weights), rope, system.weights.embedding,
                                           system.weights.head, static_cast<int32_t>(mask));
  return {};
}

Result<DType> draft_kv_dtype(System& system, DType target_kv) {
  const EngineOptions& o = system.options;
  const std::string asked = o.speculative_draft_attention_backend;
  STROBE_ASSIGN(const auto backend, engine::resolve_backend({.name = asked,
                                                             .role = engine::BackendRole::kDraft,
                                                             .mla = false,
                                                             .device = {},
                                                             .page_size = o.page_size,
                                                             .strict = o.strict_backends}));
  decide(system, "draft attention", backend.kernel, backend.reason);
  spec::DraftKvInputs inputs{.target_kv = target_kv,
                             .model = DType::kBf16,
                             .backend = std::string(backend.backend.name),
                             .backend_needs_equal_types = backend.backend.k_type_equals_q_type};
  if (o.speculative_draft_kv_cache_dtype != "auto") {
    STROBE_ASSIGN(inputs.flag, parse_dtype(o.speculative_draft_kv_cache_dtype));
  }
  const auto decision = spec::resolve_draft_kv_dtype(inputs);
  decide(system, "draft KV cache", std::string(to_string(decision.dtype)), decision.reason);
  return decision.dtype;
}

// ---- caches ----

int64_t available_memory_bytes() {
  struct sysinfo info {};
  sysinfo(&info);
  return static_cast<int64_t>(info.totalram) * info.mem_unit;
}

Result<void> make_caches(System& system, const cache::KvGeometry& target, const cache::KvGeometry* draft) {
  EngineOptions& o = system.options;
  const int64_t token_bytes = target.bytes_per_token() + (draft != nullptr ? draft->bytes_per_token() : 0);
  if (o.max_running_requests == 0)
    o.max_running_requests = speculates(system) ? kDefaultRunningDflash : kDefaultRunningPlain;
  int64_t tokens = o.max_total_tokens;
  if (tokens == 0) {
    const auto budget = static_cast<int64_t>(static_cast<double>(available_memory_bytes()) * o.mem_fraction_static) -
                        system.arena->bytes();
    tokens = std::min({budget / token_bytes, o.max_running_requests * system.context_tokens, kLargestDefaultTokens});
  }
  const int64_t pages = tokens / o.page_size;
  if (pages < 1) {
    return error(
        "the KV caches need {} bytes a page of {} tokens; --mem-fraction-static {} or --max-total-tokens {} leaves "
        "room for none",
        token_bytes * o.page_size, o.page_size, o.mem_fraction_static, o.max_total_tokens);
  }
  o.max_total_tokens = pages * o.page_size;
  const auto all_pages = static_cast<int32_t>(pages) + 1;  // page 0 takes padding
  system.pages = std::make_unique<cache::PagePool>(all_pages, o.page_size);
  system.target_store = std::make_unique<cache::KvStore>(target, all_pages, o.page_size, system.weights.kv_scales);
  if (draft != nullptr) system.draft_store = std::make_unique<cache::KvStore>(*draft, all_pages, o.page_size);
  log_info("caches: {} tokens in pages of {}; target {} bytes a token, draft {}", o.max_total_tokens, o.page_size,
           target.bytes_per_token(), draft != nullptr ? draft->bytes_per_token() : 0);
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
  auto system = std::make_unique<System>();
  system->options = options;
  STROBE_TRY(check_flags(system->options));
  STROBE_TRY(check_speculative_flags(system->options));
  STROBE_TRY(set_up_device(*system));
  STROBE_TRY(load_target(*system));
  system->rope = model::make_rope_table(system->recipe.rope, system->context_tokens, *system->arena);
  STROBE_ASSIGN(const DType kv_dtype, target_kv_dtype(*system));
  STROBE_TRY(choose_target_backends(*system, kv_dtype));
  const cache::KvGeometry target = model::kv_geometry(system->recipe, stored_as(*system, kv_dtype));
  if (speculates(*system)) {
    STROBE_TRY(load_draft(*system));
    STROBE_ASSIGN(const DType draft_dtype, draft_kv_dtype(*system, kv_dtype));
    const cache::KvGeometry draft = model::kv_geometry(system->draft->recipe(), stored_as(*system, draft_dtype));
    STROBE_TRY(make_caches(*system, target, &draft));
  } else {
    STROBE_TRY(make_caches(*system, target, nullptr));
  }
  make_stepper(*system);
  log_info("assembled in {:.0f} ms, weights {:.1f} MiB", watch.lap_ms(),
           static_cast<double>(system->arena->bytes()) / (1 << 20));
  return system;
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
