// Keys and values into their slots of a paged store, and out of them.
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

void load_rows(WorkerPool& pool, const LoadRows& call) {
  const PagedStore& store = call.store;
  const float scale = store.dtype == DType::kE4m3 ? store.scale : 1.0F;
  pool.for_each(call.rows, [&](int64_t p) {
    const int64_t slot = int64_t{call.pages[p / store.page_size]} * store.page_size + p % store.page_size;
    for (int64_t i = 0; i < call.dim; ++i) {
      const float value = read(store.data, store.dtype, slot * store.dim + call.column + i) * scale;
      for (int64_t c = 0; c < call.copies; ++c) set(call.y, p, c * call.copy_stride + i, value);
    }
  });
}

}  // namespace strobe::kernel::ref
