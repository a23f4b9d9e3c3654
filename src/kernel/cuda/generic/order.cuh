// Floats as integers in the same order, for choosing the largest.
#pragma once

#include <cstdint>

namespace strobe::kernel::cuda {

// Larger numbers have larger keys, -0 and 0 the same one. NaN has 0, less than -infinity.
__device__ inline uint32_t order_key(float value) {
  const uint32_t bits = __float_as_uint(value + 0.0F);
  if (value != value) return 0;
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}

}  // namespace strobe::kernel::cuda
