// Writing keys and values into their slots of a paged store.
#include "kernel/ref/families.h"
#include "kernel/ref/values.h"

namespace strobe::kernel::ref {

void store_rows(WorkerPool& pool, const StoreRows& call) {
  const PagedStore& store = call.store;
  const float scale = store.dtype == DType::kE4m3 ? store.scale : 1.0F;
  pool.for_each(call.rows, [&](int64_t r) {
    const int64_t slot = call.slots[r];
    if (slot < 0) return;
    for (int64_t i = 0; i < call.dim; ++i) {
      write(store.data, store.dtype, slot * store.dim + call.column + i, get(call.x, r, i) / scale);
    }
  });
}

}  // namespace strobe::kernel::ref
