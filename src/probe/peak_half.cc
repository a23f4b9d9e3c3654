// Multiply-adds in half precision, in independent chains.
#include <immintrin.h>

#include "probe/peak.h"

namespace strobe::probe::STROBE_ISA_NAMESPACE {

double compute_peak(int64_t rounds) {
  constexpr int kChains = 12;
  constexpr int kLanes = 32;
  __m512h sums[kChains];
  for (__m512h& sum : sums) sum = _mm512_set1_ph(1);
  const __m512h a = _mm512_set1_ph(0.5), b = _mm512_set1_ph(0.5);
  for (int64_t i = 0; i < rounds; ++i) {
    for (__m512h& sum : sums) {
      sum = _mm512_fmadd_ph(sum, a, b);
      __asm__ volatile("" : "+v"(sum));
    }
  }
  return static_cast<double>(rounds) * kChains * kLanes * 2;
}

}  // namespace strobe::probe::STROBE_ISA_NAMESPACE
