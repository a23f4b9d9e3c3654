// Attention backends: the names people know from SGLang, as a table, and what each becomes on this device.
//
// A name is a request for a kind of kernel. What runs is ours; the resolution and its reason are logged, and an error
// instead with --strict-backends. What a name promises about types still holds: `fa4` reads keys only in the type of
// its queries (so does torch_native), so a draft on fa4 has its KV cache in the model's type.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace strobe::engine {

enum class BackendRole { kPrefill, kDecode, kVerify, kDraft };

[[nodiscard]] std::string_view to_string(BackendRole role);

struct Backend {
  std::string_view name;
  bool mla = false;    // latent attention
  bool draft = false;  // block attention of a draft (non-causal)
  bool fp8_kv = false;
  bool k_type_equals_q_type = false;
  // Can put the state of the last accepted row in place after a verify. No kernel here can yet.
  bool commits_recurrent_state = false;
  std::span<const int32_t> page_sizes;    // empty: any
  DeviceKind native = DeviceKind::kCuda;  // where the name itself runs
};

[[nodiscard]] std::span<const Backend> backends();

struct BackendQuery {
  std::string name;  // "" or "auto": ours
  BackendRole role = BackendRole::kDecode;
  bool mla = false;
  Device device;
  DType kv_dtype = DType::kBf16;
  int32_t page_size = 64;
  bool strict = false;
};

struct BackendDecision {
  Backend backend;     // the one asked for, or ours
  std::string kernel;  // what runs
  std::string reason;
};

// Errors: an unknown name (those that fit are listed); a role, KV type or page size that the backend does not have; a
// substitution under `strict`.
Result<BackendDecision> resolve_backend(const BackendQuery& query);

}  // namespace strobe::engine
