// Multiply-adds in independent chains. Compiled once per instruction set, like src/kernel/cpu/generic.
#include "kernel/cpu/generic/simd.h"
#include "probe/peak.h"

namespace strobe::probe::STROBE_ISA_NAMESPACE {

double compute_peak(int64_t rounds) {
  using namespace strobe::kernel::STROBE_ISA_NAMESPACE;
  constexpr int kChains = 12;
  NativeF32 sums[kChains];
  for (NativeF32& sum : sums) sum = NativeF32{} + 1.0F;
  const NativeF32 a = NativeF32{} + 0.999F;
  const NativeF32 b = NativeF32{} + 0.001F;
  for (int64_t i = 0; i < rounds; ++i) {
    for (NativeF32& sum : sums) {
      sum = native_fma(sum, a, b);
      __asm__ volatile("" : "+x"(sum));
    }
  }
  return static_cast<double>(rounds) * kChains * kNativeLanes * 2;
}

}  // namespace strobe::probe::STROBE_ISA_NAMESPACE
