// Rows of f32 or bf16, sixteen numbers at a time.
#pragma once

#include "kernel/args.h"
#include "kernel/cpu/generic/simd.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

[[gnu::always_inline]] static inline const float* row_f32(const Rows& rows, int64_t row) {
  return static_cast<const float*>(rows.data) + row * rows.stride;
}
[[gnu::always_inline]] static inline const Bf16* row_bf16(const Rows& rows, int64_t row) {
  return static_cast<const Bf16*>(rows.data) + row * rows.stride;
}

// Columns [column, column + count) of a row, count in [0, 16]; the other lanes are 0.
[[gnu::always_inline]] static inline F32x16 get(const Rows& rows, int64_t row, int64_t column, int64_t count) {
  return rows.dtype == DType::kF32 ? load_first(row_f32(rows, row) + column, count)
                                   : load_first(row_bf16(rows, row) + column, count);
}
[[gnu::always_inline]] static inline void set(const Rows& rows, int64_t row, int64_t column, int64_t count,
                                              F32x16 values) {
  if (rows.dtype == DType::kF32) {
    store_first(const_cast<float*>(row_f32(rows, row)) + column, count, values);
  } else {
    store_first(const_cast<Bf16*>(row_bf16(rows, row)) + column, count, values);
  }
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
