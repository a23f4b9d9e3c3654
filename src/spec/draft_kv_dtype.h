// The draft's KV dtype: a pure decision with its reason, made once at start, logged and shown in /server_info.
#pragma once

#include <optional>
#include <string>

#include "tensor/dtype.h"

namespace strobe::spec {

struct DraftKvInputs {
  DType target_kv = DType::kE4m3;          // of the target's cache
  DType model = DType::kBf16;              // of the draft's activations
  std::string backend;                     // the draft attention backend, as resolved
  bool backend_needs_equal_types = false;  // its K dtype must equal its Q dtype (fa4)
  std::optional<DType> flag;               // --speculative-draft-kv-cache-dtype; empty = auto
};

struct DraftKvDecision {
  DType dtype = DType::kBf16;
  std::string reason;
};

// Only a backend whose K dtype must equal its Q dtype forces the model dtype; others keep the flag's, else the
// target's.
[[nodiscard]] DraftKvDecision resolve_draft_kv_dtype(const DraftKvInputs& inputs);

}  // namespace strobe::spec
