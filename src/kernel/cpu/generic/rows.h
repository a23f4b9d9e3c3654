// Rows of f32 or bf16, sixteen numbers at a time.
#pragma once

#include "kernel/args.h"
#include "kernel/cpu/generic/simd.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

// A row of numbers of type T, which is the rows' type.
template <class T>
[[gnu::always_inline]] static inline T* row_of(const Rows& rows, int64_t row) {
  return static_cast<T*>(rows.data) + row * rows.stride;
}

// f(T()) for the type of numbers that a dtype names: asked once a call, not at every vector.
template <class F>
[[gnu::always_inline]] static inline void with_type(DType dtype, const F& f) {
  dtype == DType::kF32 ? f(float()) : f(Bf16());
}

// f(column, count) for the vectors of a row of `dim` numbers. The compiler knows that all but the last are whole, if it
// inlines f.
template <class F>
[[gnu::always_inline]] static inline void for_vectors(int64_t dim, const F& f) {
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) f(i, int64_t{kLanes});
  if (i < dim) f(i, dim - i);
}

// Columns [column, column + count) of a row, count in [0, 16]; the other lanes are 0.
[[gnu::always_inline]] static inline F32x16 get(const Rows& rows, int64_t row, int64_t column, int64_t count) {
  return rows.dtype == DType::kF32 ? load_first(row_of<float>(rows, row) + column, count)
                                   : load_first(row_of<Bf16>(rows, row) + column, count);
}
[[gnu::always_inline]] static inline void set(const Rows& rows, int64_t row, int64_t column, int64_t count,
                                              F32x16 values) {
  if (rows.dtype == DType::kF32) {
    store_first(row_of<float>(rows, row) + column, count, values);
  } else {
    store_first(row_of<Bf16>(rows, row) + column, count, values);
  }
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
