// The law by which tokens are drawn from logits, in whole numbers: their sums do not depend on the order of adding, so
// a token is the same whoever draws it, host or GPU, one thread or a thousand. For both: CUDA kernels compile these
// functions, too.
//
// A token's weight is exp((logit - largest) / temperature) in units of 2^-42, rounded down: the most likely one has
// 2^42, and what is less likely than one in 2^42 of that has none. A weight's share of the sum of weights is the
// token's probability.
#pragma once

#include <cstdint>

#include "base/mix.h"

namespace strobe::kernel {

__extension__ typedef unsigned __int128 DrawWide;  // NOLINT: this form alone is taken by every compiler

inline constexpr int kDrawBits = 42;
inline constexpr uint64_t kLargestDrawWeight = uint64_t{1} << kDrawBits;
// The largest vocabulary that is drawn from: so many weights have a sum below 2^61.
inline constexpr int64_t kMostDrawColumns = int64_t{1} << 18;

// floor(a * b / 2^64)
constexpr uint64_t high_product(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<DrawWide>(a) * b >> 64);
}

// ln(2)^k / k! in units of 2^-64, k = 12 down to 1.
struct PowerTerms {
  uint64_t of[12] = {0x1c3bd650ULL,        0x1e8cac735ULL,       0x1e4cf5158bULL,       0x1b5253d395eULL,
                     0x162c0223a5c8ULL,    0xffe5fe2c4586ULL,    0xa184897c363c3ULL,    0x5761ff9e299cc4ULL,
                     0x276556df749cee5ULL, 0xe35846b82505fc5ULL, 0x3d7f7bff058b1d50ULL, 0xb17217f7d1cf79abULL};
};

// 2^x - 1 for x = fraction / 2^64, in the same unit, within 2^-39 and never falling: Taylor's series in Horner's form.
constexpr uint64_t power_of_two_rest(uint64_t fraction) {
  constexpr PowerTerms kTerms;
  uint64_t sum = 0;
  for (const uint64_t term : kTerms.of) sum = high_product(sum, fraction) + term;
  return high_product(sum, fraction);
}

inline constexpr double kHalvings = 1.4426950408889634;  // of a weight per unit of a logit: 1 / ln(2)

// Of a logit at most `largest`, which is finite. 0 for NaN and -infinity. temperature: above 0
constexpr uint64_t draw_weight(float logit, float largest, float temperature) {
  const double halvings = static_cast<double>((largest - logit) / temperature) * kHalvings;
  if (!(halvings <= kDrawBits)) return 0;
  const auto fixed = static_cast<uint64_t>(halvings * 0x1p56);
  const uint64_t fraction = fixed << 8;
  const auto whole = static_cast<int>(fixed >> 56);
  if (fraction == 0) return kLargestDrawWeight >> whole;
  // 2^-(whole + f) = 2^(1 - f) / 2^(whole + 1)
  return (kLargestDrawWeight + (power_of_two_rest(~fraction + 1) >> (64 - kDrawBits))) >> (whole + 1);
}

// 53 even bits, a pure function of the arguments: each position of a text has its own, whoever asks and in whatever
// company, so that a request's text depends on its seed alone.
constexpr uint64_t random_bits(uint64_t seed, int64_t position) {
  return splitmix64(mix(seed, static_cast<uint64_t>(position))) >> 11;
}

// Where those bits point in [0, sum).
constexpr uint64_t draw_point(uint64_t bits, uint64_t sum) {
  return static_cast<uint64_t>(static_cast<DrawWide>(bits) * sum >> 53);
}

// The least sum of a distribution's head that reaches top_p of the whole.
constexpr uint64_t top_p_sum(float top_p, uint64_t sum) {
  const double share = static_cast<double>(top_p) * static_cast<double>(sum);
  const auto whole = static_cast<uint64_t>(share);
  const uint64_t needed = static_cast<double>(whole) < share ? whole + 1 : whole;
  return needed < 1 ? 1 : needed > sum ? sum : needed;
}

// The least weight that min_p lets stay.
constexpr uint64_t min_p_weight(float min_p) {
  const double least = static_cast<double>(min_p) * static_cast<double>(kLargestDrawWeight);
  const auto whole = static_cast<uint64_t>(least);
  return static_cast<double>(whole) < least ? whole + 1 : whole;
}

}  // namespace strobe::kernel
