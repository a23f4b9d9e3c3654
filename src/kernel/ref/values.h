// Reading and writing the numbers of `Rows` and `PagedStore`, one at a time, whatever their type.
#pragma once

#include <cstdint>

#include "kernel/args.h"
#include "tensor/dtype.h"

namespace strobe::kernel::ref {

// Number `index` of an array of `dtype`: f32, bf16 or e4m3.
inline float read(const void* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kBf16:
      return to_float(static_cast<const Bf16*>(data)[index]);
    case DType::kE4m3:
      return to_float(static_cast<const E4m3*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

// Rounds to the nearest number of the type, ties to even.
inline void write(void* data, DType dtype, int64_t index, float value) {
  switch (dtype) {
    case DType::kBf16:
      static_cast<Bf16*>(data)[index] = to_bf16(value);
      break;
    case DType::kE4m3:
      static_cast<E4m3*>(data)[index] = to_e4m3(value);
      break;
    default:
      static_cast<float*>(data)[index] = value;
  }
}

inline float get(const Rows& rows, int64_t row, int64_t column) {
  return read(rows.data, rows.dtype, row * rows.stride + column);
}
inline void set(const Rows& rows, int64_t row, int64_t column, float value) {
  write(rows.data, rows.dtype, row * rows.stride + column, value);
}

}  // namespace strobe::kernel::ref
