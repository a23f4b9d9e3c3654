#include "engine/backends.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace strobe::engine {
namespace {

constexpr std::array<int32_t, 2> kTrtllmPages = {32, 64};
constexpr std::array<int32_t, 1> kFlashMlaPages = {64};

// Ours first: one kernel family on the CPU, any page size, every cache type.
constexpr std::array<Backend, 11> kBackends = {{
    {.name = "strobe", .mla = true, .draft = true, .fp8_kv = true, .native = DeviceKind::kCpu},
    {.name = "trtllm_mla", .mla = true, .fp8_kv = true, .page_sizes = kTrtllmPages},
    {.name = "cutedsl_mla", .mla = true, .fp8_kv = true, .page_sizes = kTrtllmPages},
    {.name = "flashmla", .mla = true, .fp8_kv = true, .page_sizes = kFlashMlaPages},
    {.name = "cutlass_mla", .mla = true, .fp8_kv = true},
    {.name = "fa3", .mla = true, .draft = true, .fp8_kv = true},
    {.name = "fa4", .draft = true, .k_type_equals_q_type = true},
    {.name = "flashinfer", .mla = true, .draft = true, .fp8_kv = true},
    {.name = "trtllm_mha", .fp8_kv = true},
    {.name = "triton", .mla = true, .draft = true, .fp8_kv = true},
    {.name = "torch_native", .mla = true, .draft = true, .k_type_equals_q_type = true, .native = DeviceKind::kCpu},
}};

bool fits(const Backend& backend, const BackendQuery& query) {
  return query.role == BackendRole::kDraft ? backend.draft : backend.mla || !query.mla;
}

std::string fitting_names(const BackendQuery& query) {
  std::vector<std::string_view> names = {"auto"};
  for (const Backend& backend : kBackends) {
    if (fits(backend, query)) names.push_back(backend.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string our_kernel(bool mla) {
  return mla ? "paged latent attention" : "paged grouped-query attention";
}

}  // namespace

std::string_view to_string(BackendRole role) {
  switch (role) {
    case BackendRole::kPrefill:
      return "prefill";
    case BackendRole::kDecode:
      return "decode";
    case BackendRole::kVerify:
      return "verify";
    case BackendRole::kDraft:
      return "draft";
  }
  return "?";
}

std::span<const Backend> backends() {
  return kBackends;
}

Result<BackendDecision> resolve_backend(const BackendQuery& query) {
  const std::string role(to_string(query.role));
  if (query.name.empty() || query.name == "auto") {
    return BackendDecision{kBackends[0], our_kernel(query.mla), "the default"};
  }
  const auto* found =
      std::find_if(kBackends.begin(), kBackends.end(), [&](const Backend& b) { return b.name == query.name; });
  if (found == kBackends.end()) {
    return error("{} attention backend '{}' is not known; accepted: {}", role, query.name, fitting_names(query));
  }
  if (query.role == BackendRole::kDraft && found->name == "trtllm_mha") {  // as SGLang resolves it
    BackendQuery instead = query;
    instead.name = "flashinfer";
    STROBE_ASSIGN(BackendDecision decision, resolve_backend(instead));
    decision.reason = "trtllm_mha cannot run a draft's block; flashinfer instead, " + decision.reason;
    return decision;
  }
  if (!fits(*found, query)) {
    return error("attention backend '{}' cannot be the {} backend of this model; accepted: {}", query.name, role,
                 fitting_names(query));
  }
  if (query.role != BackendRole::kDraft && query.kv_dtype == DType::kE4m3 && !found->fp8_kv) {
    return error(
        "{} attention backend '{}' cannot read an fp8_e4m3 KV cache; use --kv-cache-dtype bf16 or another backend",
        role, query.name);
  }
  if (query.role != BackendRole::kDraft && !found->page_sizes.empty() &&
      std::find(found->page_sizes.begin(), found->page_sizes.end(), query.page_size) == found->page_sizes.end()) {
    return error("{} attention backend '{}' has no page size {}; accepted: {}", role, query.name, query.page_size,
                 fmt::join(found->page_sizes, ", "));
  }
  if (found->name == "strobe") return BackendDecision{*found, our_kernel(query.mla), "as asked"};
  if (query.strict) {
    return error(
        "{} attention backend '{}' does not exist on {}; without --strict-backends, Strobe's {} kernel does its job",
        role, query.name, to_string(query.device), our_kernel(query.mla));
  }
  return BackendDecision{
      *found, our_kernel(query.mla),
      fmt::format("Strobe's kernel does the job of '{}' on {}", query.name, to_string(query.device))};
}

}  // namespace strobe::engine
