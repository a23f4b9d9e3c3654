// One number in, one number out: limited by memory, shared among workers from a few microseconds on.
#include "kernel/cpu/generic/kernels.h"
#include "kernel/cpu/generic/math.h"
#include "kernel/cpu/generic/rows.h"
#include "kernel/cpu/generic/tasks.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

// f(row, column, count) for all vectors of [rows, dim]; numbers_worth_sharing of them take some us on one worker.
template <class F>
void for_vectors(WorkerPool& pool, int64_t rows, int64_t dim, int64_t numbers_worth_sharing, const F& f) {
  const int64_t width = greater(1, dim);
  in_chunks(pool, rows, 1 + numbers_worth_sharing / 4 / width, numbers_worth_sharing / width,
            [&](int64_t begin, int64_t end) {
              for (int64_t row = begin; row < end; ++row) {
                for (int64_t i = 0; i < dim; i += kLanes) f(row, i, smaller(kLanes, dim - i));
              }
            });
}

}  // namespace

void silu_mul(WorkerPool& pool, const SiluMul& c) {
  for_vectors(pool, c.rows, c.dim, 6 * 1024, [&](int64_t row, int64_t i, int64_t count) {
    const F32x16 gate = get(c.gate, row, i, count);
    set(c.y, row, i, count, gate * sigmoid(gate) * get(c.up, row, i, count));
  });
}

void embed(WorkerPool& pool, const Embed& c) {
  const Rows table = {.data = const_cast<void*>(c.table.data),
                      .dtype = c.table.format == WeightFormat::kF32 ? DType::kF32 : DType::kBf16,
                      .stride = c.table.in};
  for_vectors(pool, c.rows, c.table.in, 64 * 1024, [&](int64_t row, int64_t i, int64_t count) {
    set(c.y, row, i, count, get(table, c.ids[row], i, count));
  });
}

void copy(WorkerPool& pool, const Copy& c) {
  for_vectors(pool, c.rows, c.dim, 64 * 1024,
              [&](int64_t row, int64_t i, int64_t count) { set(c.y, row, i, count, get(c.x, row, i, count)); });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
