#include "spec/draft_kv_dtype.h"

#include <fmt/format.h>

namespace strobe::spec {

DraftKvDecision resolve_draft_kv_dtype(const DraftKvInputs& inputs) {
  const DType asked = inputs.flag.value_or(inputs.target_kv);
  const char* asker = inputs.flag ? "--speculative-draft-kv-cache-dtype" : "the target's KV cache";
  if (inputs.backend_needs_equal_types && asked != inputs.model) {
    return {inputs.model,
            fmt::format("draft attention backend '{}' needs keys of the type of its queries, so {} instead of {} ({})",
                        inputs.backend, to_string(inputs.model), to_string(asked), asker)};
  }
  return {asked, fmt::format("as {}; draft attention backend '{}' can read it", asker, inputs.backend)};
}

}  // namespace strobe::spec
