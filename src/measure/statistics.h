// Numbers about many numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace strobe::measure {

// Linear between the two nearest, as numpy has it; 0 of nothing. `share` from 0 to 1. Sorts a copy.
[[nodiscard]] double percentile(std::span<const double> values, double share);

struct Summary {
  int64_t count = 0;
  double mean = 0, median = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};
[[nodiscard]] Summary summarise(std::span<const double> values);

// Of the runs of `length` tokens that a text holds after its beginning, the share that stood in it (or in `before`)
// already: 0 for fresh text, near 1 for text that goes round in circles.
[[nodiscard]] double repeated_share(std::span<const int32_t> before, std::span<const int32_t> text, size_t length = 8);

// share[i]: of the verify steps, those that accepted more than i draft tokens. `histogram[a]` counts steps that
// accepted exactly a.
[[nodiscard]] std::vector<double> accepted_by_position(std::span<const int64_t> histogram);

// When requests arrive, in seconds from the beginning, ascending. `rate` requests a second; 0: all at once. Poisson:
// exponential gaps by the seed (the same on every machine); else even ones.
[[nodiscard]] std::vector<double> arrival_times(int64_t requests, double rate, bool poisson, uint64_t seed);

// A small generator whose numbers are the same with every compiler.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  // In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

}  // namespace strobe::measure
