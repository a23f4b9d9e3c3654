// RMS norm of hidden states, and of each head of q and k.
#include <cmath>

#include "kernel/ref/families.h"
#include "kernel/ref/values.h"

namespace strobe::kernel::ref {

void rms_norm(WorkerPool& pool, const RmsNorm& call) {
  pool.for_each(call.rows, [&](int64_t r) {
    for (int64_t g = 0; g < call.groups; ++g) {
      const int64_t first = g * call.dim;
      double squares = 0;
      for (int64_t i = 0; i < call.dim; ++i) {
        const double x = get(call.x, r, first + i);
        squares += x * x;
      }
      const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(call.dim) + call.epsilon);
      // y may be x: each number is read before it is written.
      for (int64_t i = 0; i < call.dim; ++i) {
        set(call.y, r, first + i, static_cast<float>(get(call.x, r, first + i) * inverse * call.weight[i]));
      }
    }
  });
}

}  // namespace strobe::kernel::ref
