// draw_weight (draw_law.h) in floating point, the same numbers: a GPU has one instruction for what takes a dozen in
// 64-bit whole numbers. Where rounding could decide, it says so: about one weight in 2^(8 + halvings) is left to
// draw_weight. To be compiled without contraction of products and sums.
#pragma once

#include <bit>

#include "kernel/draw_law.h"

namespace strobe::kernel {

// PowerTerms as they are.
struct QuickTerms {
  constexpr QuickTerms() {
    constexpr PowerTerms kTerms;
    for (int k = 0; k < 12; ++k) of[k] = static_cast<double>(kTerms.of[k]) * 0x1p-64;
  }
  double of[12] = {};
};

class QuickDraw {
 public:
  constexpr QuickDraw(float largest, float temperature)
      : largest_(largest),
        temperature_(temperature),
        reciprocal_(1 / temperature),
        divides_(temperature > 0x1p-30F && temperature < 0x1p30F) {}

  // Whether `weight` is now draw_weight(logit, largest, temperature).
  constexpr bool weight(float logit, const QuickTerms& terms, uint64_t& weight) const {
    // What has no weight (infinity and NaN are 30 here) has the bits of one that is below 1.
    const double halvings = static_cast<double>(__builtin_fminf(quotient(largest_ - logit), 30)) * kHalvings;
    // A sum this large has no bits below 1: its lowest ones are the next lower whole number.
    constexpr double kNoFraction = 0x1.8p52;
    const double shifted = (halvings - 0.5) + kNoFraction;
    const auto whole = static_cast<int>(static_cast<uint32_t>(std::bit_cast<uint64_t>(shifted)));
    const double rest = (shifted - (kNoFraction - 1)) - halvings;  // 1 - fraction
    // 2^rest in [1, 2], in units of 2^-52, is off by less than kError.
    constexpr uint32_t kError = 4;
    double power = terms.of[0];
    for (int k = 1; k < 12; ++k) power = __builtin_fma(power, rest, terms.of[k]);
    power = __builtin_fma(power, rest, 1.0);
    const uint64_t units = std::bit_cast<uint64_t>(power) - std::bit_cast<uint64_t>(0.5);
    const int shift = whole + 52 - kDrawBits + 1;
    weight = units >> shift;
    const uint32_t dropped = ~uint32_t{0} >> (shift < 32 ? 32 - shift : 0);  // of the lowest 32 bits
    // Without a fraction the law has no series.
    return (static_cast<uint32_t>(units + kError) & dropped) >= 2 * kError && rest != 1 && divides_;
  }

 private:
  // a / temperature_: two of Newton's steps from a near number are rounded as a division is. NaN instead of infinity.
  [[nodiscard]] constexpr float quotient(float a) const {
    float q = a * reciprocal_;
    q = __builtin_fmaf(__builtin_fmaf(-q, temperature_, a), reciprocal_, q);
    return __builtin_fmaf(__builtin_fmaf(-q, temperature_, a), reciprocal_, q);
  }

  float largest_;
  float temperature_;
  float reciprocal_;
  bool divides_;  // no number that matters leaves the range of normal ones on the way to a quotient
};

}  // namespace strobe::kernel
