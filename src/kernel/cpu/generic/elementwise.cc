// One number in, one number out: limited by memory, shared among workers from a few microseconds on.
#include "kernel/cpu/generic/kernels.h"
#include "kernel/cpu/generic/math.h"
#include "kernel/cpu/generic/rows.h"
#include "kernel/cpu/generic/tasks.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

// f(row) for all rows of `dim` numbers; numbers_worth_sharing of them take some us on one worker.
template <class F>
void for_rows(WorkerPool& pool, int64_t rows, int64_t dim, int64_t numbers_worth_sharing, const F& f) {
  const int64_t width = greater(1, dim);
  in_chunks(pool, rows, 1 + numbers_worth_sharing / 4 / width, numbers_worth_sharing / width,
            [&](int64_t begin, int64_t end) {
              for (int64_t row = begin; row < end; ++row) f(row);
            });
}

template <class X, class Y>
void copy_row(const X* x, Y* y, int64_t dim) {
  for_vectors(
      dim, [&](int64_t i, int64_t count)
               __attribute__((always_inline)) { store_first(y + i, count, load_first(x + i, count)); });
}

}  // namespace

void silu_mul(WorkerPool& pool, const SiluMul& c) {
  with_type(c.y.dtype, [&]<class Y>(Y) {
    for_rows(pool, c.rows, c.dim, 6 * 1024, [&](int64_t row) {
      const auto* gates = row_of<const float>(c.gate, row);
      const auto* ups = row_of<const float>(c.up, row);
      auto* y = row_of<Y>(c.y, row);
      for_vectors(
          c.dim, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
            const F32x16 gate = load_first(gates + i, count);
            store_first(y + i, count, gate * sigmoid(gate) * load_first(ups + i, count));
          });
    });
  });
}

void embed(WorkerPool& pool, const Embed& c) {
  with_type(c.table.format == WeightFormat::kF32 ? DType::kF32 : DType::kBf16, [&]<class X>(X) {
    const auto* table = static_cast<const X*>(c.table.data);
    for_rows(pool, c.rows, c.table.in, 64 * 1024,
             [&](int64_t row) { copy_row(table + c.ids[row] * c.table.in, row_of<float>(c.y, row), c.table.in); });
  });
}

void copy(WorkerPool& pool, const Copy& c) {
  with_type(c.x.dtype, [&]<class X>(X) {
    with_type(c.y.dtype, [&]<class Y>(Y) {
      for_rows(pool, c.rows, c.dim, 64 * 1024,
               [&](int64_t row) { copy_row(row_of<const X>(c.x, row), row_of<Y>(c.y, row), c.dim); });
    });
  });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
