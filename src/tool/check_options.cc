#include "tool/check_options.h"

#include <charconv>
#include <initializer_list>
#include <string>
#include <utility>

#include "base/log.h"
#include "engine/step.h"
#include "kernel/cpu_kernels.h"

namespace strobe::tool {
namespace {

// Slots of the caches are counted in 32 bits.
constexpr int64_t kLargestTotalTokens = int64_t{1} << 30;
// Rows of a step too, with every block beside a chunk.
constexpr int32_t kLargestChunk = 1 << 20;

Result<void> check_one_of(const char* flag, const std::string& value, std::initializer_list<const char*> accepted) {
  std::string list;
  for (const char* one : accepted) {
    if (value == one) return {};
    list += fmt::format("{}{}", list.empty() ? "" : ", ", one);
  }
  return error("{} {}: accepted: {}", flag, value, list);
}

Result<void> check_names(const EngineOptions& o) {
  STROBE_TRY(check_one_of("--log-level", o.log_level, {"debug", "info", "warning", "warn", "error"}));
  STROBE_TRY(check_one_of("--device", o.device, {"auto", "cpu", "cuda"}));
  if (const auto kernels = kernel::find_cpu_kernels(o.cpu_isa); !kernels) {
    return error("--cpu-isa {}", kernels.error().message);
  }
  STROBE_TRY(check_one_of("--quantization", o.quantization, {"auto", "modelopt_fp4", "unquant"}));
  STROBE_TRY(check_one_of("--kv-cache-dtype", o.kv_cache_dtype, {"auto", "bf16", "bfloat16", "fp8_e4m3"}));
  STROBE_TRY(
      check_one_of("--moe-runner-backend", o.moe_runner_backend,
                   {"auto", "strobe", "deep_gemm", "triton", "triton_kernel", "flashinfer_trtllm",
                    "flashinfer_trtllm_routed", "flashinfer_cutlass", "flashinfer_cutedsl", "cutlass", "marlin"}));
  STROBE_TRY(check_one_of("--fp4-gemm-backend", o.fp4_gemm_backend,
                          {"auto", "strobe", "cutlass", "flashinfer_cudnn", "flashinfer_cutedsl", "flashinfer_cutlass",
                           "flashinfer_trtllm", "marlin"}));
  STROBE_TRY(check_one_of("--speculative-draft-kv-cache-dtype", o.speculative_draft_kv_cache_dtype,
                          {"auto", "bf16", "bfloat16", "fp8_e4m3"}));
  STROBE_TRY(check_one_of("--speculative-attention-mode", o.speculative_attention_mode, {"prefill", "decode"}));
  return check_one_of("--speculative-draft-model-quantization", o.speculative_draft_model_quantization, {"unquant"});
}

Result<void> check_numbers(const EngineOptions& o) {
  if (o.tp != 1) return error("--tp-size {}: this build runs one rank; accepted: 1", o.tp);
  if (o.page_size < 1 || o.page_size > 1024) return error("--page-size {}: accepted: 1 to 1024", o.page_size);
  if (o.base_gpu_id < 0) return error("--base-gpu-id {}: accepted: 0 and more", o.base_gpu_id);
  if (o.threads < 0 || o.threads > 1024) return error("--threads {}: accepted: 0 (one a processor) to 1024", o.threads);
  if (!(o.mem_fraction_static > 0 && o.mem_fraction_static < 1)) {
    return error("--mem-fraction-static {}: accepted: above 0 and below 1", o.mem_fraction_static);
  }
  if (o.chunked_prefill_size < 1 || o.chunked_prefill_size > kLargestChunk) {
    return error("--chunked-prefill-size {}: accepted: 1 to {}", o.chunked_prefill_size, kLargestChunk);
  }
  if (o.max_running_requests < 0 || o.max_running_requests > 4096) {
    return error("--max-running-requests {}: accepted: 1 to 4096, or 0 for the default", o.max_running_requests);
  }
  if (o.max_queued_requests < 0) return error("--max-queued-requests {}: accepted: 0 and more", o.max_queued_requests);
  if (o.max_total_tokens < 0 || o.max_total_tokens > kLargestTotalTokens) {
    return error("--max-total-tokens {}: accepted: 1 to {}, or 0 for the default", o.max_total_tokens,
                 kLargestTotalTokens);
  }
  if (o.max_total_tokens != 0 && o.max_total_tokens < o.page_size) {
    return error("--max-total-tokens {}: less than a page of {} tokens (--page-size)", o.max_total_tokens, o.page_size);
  }
  if (o.context_length < 0 || o.context_length == 1)
    return error("--context-length {}: accepted: 2 and more, or 0 for the model's", o.context_length);
  return {};
}

// Without an algorithm nothing heeds them; who turns it off to compare may leave them there.
Result<void> check_no_speculation(const EngineOptions& o) {
  const std::pair<const char*, bool> given[] = {
      {"--speculative-num-draft-tokens", o.speculative_num_draft_tokens != 0},
      {"--speculative-dflash-block-size", o.speculative_dflash_block_size != 0},
      {"--speculative-draft-window-size", o.speculative_draft_window_size != 0},
      {"--speculative-draft-rope-amplitude", o.speculative_draft_rope_amplitude != 0},
      {"--speculative-min-accept-length", o.speculative_min_accept_length != "auto"},
      {"--speculative-draft-attention-backend", o.speculative_draft_attention_backend != "auto"},
      {"--speculative-draft-kv-cache-dtype", o.speculative_draft_kv_cache_dtype != "auto"}};
  if (!o.speculative_draft_model_path.empty()) {
    return error("--speculative-draft-model-path is given without --speculative-algorithm; accepted: DFLASH");
  }
  for (const auto& [flag, is_given] : given) {
    if (is_given) log_warning("{} has no effect without --speculative-algorithm", flag);
  }
  return {};
}

Result<void> check_speculation(EngineOptions& o) {
  if (o.speculative_algorithm.empty()) return check_no_speculation(o);
  STROBE_TRY(check_one_of("--speculative-algorithm", o.speculative_algorithm, {"DFLASH"}));
  if (o.speculative_draft_model_path.empty()) {
    return error("--speculative-algorithm DFLASH needs --speculative-draft-model-path: the folder of the draft");
  }
  // As SGLang does: the value is set to 1, and said.
  for (const auto& [flag, value] : {std::pair("--speculative-num-steps", &o.speculative_num_steps),
                                    std::pair("--speculative-eagle-topk", &o.speculative_eagle_topk)}) {
    if (*value != 1) log_warning("{} {}: DFLASH drafts a block in one step; 1 is used", flag, *value);
    *value = 1;
  }
  if (o.speculative_num_draft_tokens != 0 && o.speculative_dflash_block_size != 0 &&
      o.speculative_num_draft_tokens != o.speculative_dflash_block_size) {
    return error("--speculative-num-draft-tokens {} and --speculative-dflash-block-size {}: for DFLASH they must match",
                 o.speculative_num_draft_tokens, o.speculative_dflash_block_size);
  }
  const char* flag =
      o.speculative_num_draft_tokens != 0 ? "--speculative-num-draft-tokens" : "--speculative-dflash-block-size";
  if (o.speculative_num_draft_tokens == 0) o.speculative_num_draft_tokens = o.speculative_dflash_block_size;
  const int32_t tokens = o.speculative_num_draft_tokens;
  if (tokens != 0 && (tokens < 2 || tokens > engine::kMaxBlockTokens)) {
    return error("{} {}: accepted: 2 to {}, or 0 for the draft's block size", flag, tokens, engine::kMaxBlockTokens);
  }
  if (o.speculative_draft_window_size < 0) {
    return error("--speculative-draft-window-size {}: accepted: 1 and more, or 0 for the whole context",
                 o.speculative_draft_window_size);
  }
  const double amplitude = o.speculative_draft_rope_amplitude;
  if (amplitude != 0 && !(amplitude >= 1e-3 && amplitude <= 1e3)) {
    return error("--speculative-draft-rope-amplitude {}: accepted: 0.001 to 1000, or 0 for the rule", amplitude);
  }
  STROBE_TRY(parse_min_accept_length(o.speculative_min_accept_length));
  return {};
}

}  // namespace

Result<void> check_options(EngineOptions& options) {
  if (options.model_path.empty()) return error("--model-path is needed: the folder of the target model");
  STROBE_TRY(check_names(options));
  STROBE_TRY(check_numbers(options));
  return check_speculation(options);
}

Result<std::optional<double>> parse_min_accept_length(const std::string& text) {
  if (text == "auto") return std::optional<double>();
  double value = -1;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || !(value == 0 || (value >= 1 && value <= engine::kMaxBlockTokens))) {
    return error("--speculative-min-accept-length {}: accepted: auto, 0 (every step has a draft), or 1 to {}", text,
                 engine::kMaxBlockTokens);
  }
  return std::optional<double>(value);
}

Result<std::vector<std::string>> parse_origins(std::string_view list) {
  std::vector<std::string> origins;
  while (!list.empty()) {
    const std::string_view origin = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), origin.size() + 1));
    std::string_view host = origin;
    for (const std::string_view scheme : {"https://", "http://"}) {
      if (host.starts_with(scheme)) host.remove_prefix(scheme.size());
    }
    // A browser sends no path and no slash behind the host; what has one would never match.
    const bool named = host.size() < origin.size() && !host.empty() && host.find_first_of("/?#@* ") == host.npos;
    if (origin != "*" && !named) {
      return error("--cors-origins: '{}'; accepted: * or origins like https://a.example and http://127.0.0.1:8080",
                   origin);
    }
    origins.emplace_back(origin);
  }
  return origins;
}

}  // namespace strobe::tool
