// The sum of products that gemm and attention share.
#pragma once

#include <cstdint>

namespace strobe::kernel::ref {

// Products of two f32 are exact in double. Eight sums side by side let the compiler use vector registers; their number
// is fixed, so the order of additions depends on `count` alone.
inline double dot(const float* a, const float* b, int64_t count) {
  constexpr int64_t kSums = 8;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (int64_t s = 0; s < kSums; ++s) sums[s] += static_cast<double>(a[i + s]) * b[i + s];
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(a[i]) * b[i];
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace strobe::kernel::ref
