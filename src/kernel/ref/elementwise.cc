// What touches each number once: the gated activation, the embedding look-up, copies between types.
#include <cmath>

#include "kernel/ref/families.h"
#include "kernel/ref/values.h"

namespace strobe::kernel::ref {

void silu_mul(WorkerPool& pool, const SiluMul& call) {
  pool.for_each(call.rows, [&](int64_t r) {
    for (int64_t i = 0; i < call.dim; ++i) {
      const float gate = get(call.gate, r, i);
      set(call.y, r, i, gate / (1.0F + std::exp(-gate)) * get(call.up, r, i));
    }
  });
}

void embed(WorkerPool& pool, const Embed& call) {
  const DType dtype = call.table.format == WeightFormat::kF32 ? DType::kF32 : DType::kBf16;
  const int64_t hidden = call.table.in;
  pool.for_each(call.rows, [&](int64_t r) {
    for (int64_t i = 0; i < hidden; ++i) set(call.y, r, i, read(call.table.data, dtype, call.ids[r] * hidden + i));
  });
}

void copy(WorkerPool& pool, const Copy& call) {
  pool.for_each(call.rows, [&](int64_t r) {
    for (int64_t i = 0; i < call.dim; ++i) set(call.y, r, i, get(call.x, r, i));
  });
}

}  // namespace strobe::kernel::ref
