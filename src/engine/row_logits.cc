#include "engine/row_logits.h"

#include "ops/ops.h"

namespace strobe::engine {

void HostRows::fetch(ops::Exec& exec, const Tensor& logits, const Tensor& best, bool with_logits) {
  clear();
  if (best.dim(0) == 0) return;
  best_ = ops::to_host(exec, best, best_storage_);
  if (with_logits) logits_ = ops::to_host(exec, logits, logits_storage_);
}

RowLogits HostRows::rows(int64_t begin, int64_t count) const {
  return {.logits = logits_.defined() ? logits_.slice(0, begin, begin + count) : Tensor{},
          .argmax = {best_.slice(0, begin, begin + count).as<int32_t>(), static_cast<size_t>(count)}};
}

}  // namespace strobe::engine
