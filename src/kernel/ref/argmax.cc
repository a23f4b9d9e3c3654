// The most likely token of each row.
#include <cmath>

#include "kernel/ref/families.h"

namespace strobe::kernel::ref {

void argmax(WorkerPool& pool, const Argmax& call) {
  pool.for_each(call.rows, [&](int64_t r) {
    const float* logits = call.logits + r * call.stride;
    int64_t best = 0;
    for (int64_t i = 1; i < call.columns; ++i) {
      // A comparison with NaN is false: a NaN in front has to be replaced by the first number, which may be -infinity.
      if (logits[i] > logits[best] || (std::isnan(logits[best]) && !std::isnan(logits[i]))) best = i;
    }
    call.ids[r] = static_cast<int32_t>(best);
  });
}

}  // namespace strobe::kernel::ref
