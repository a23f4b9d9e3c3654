// Pearson's chi-square test: do counts follow a given distribution?
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>

namespace strobe {

// The probability that a chi-square variable of `freedom` degrees is at least `statistic`: by Wilson and Hilferty's
// cube-root approximation, good to two digits from 3 degrees on.
inline double chi_square_tail(double statistic, double freedom) {
  const double spread = 2.0 / (9.0 * freedom);
  const double z = (std::cbrt(statistic / freedom) - (1.0 - spread)) / std::sqrt(spread);
  return 0.5 * std::erfc(z / std::sqrt(2.0));
}

// The p-value of `counts` under `probabilities` (which sum to 1). Cells that expect fewer than five are taken together.
// A count where there is no probability gives 0. Under the right distribution p is uniform in [0, 1].
inline double chi_square_p(std::span<const int64_t> counts, std::span<const double> probabilities) {
  EXPECT_EQ(counts.size(), probabilities.size());
  double total = 0;
  for (const int64_t count : counts) total += static_cast<double>(count);
  double statistic = 0, rare_expected = 0, rare_count = 0;
  int cells = 0;
  const auto add = [&](double count, double expected) {
    statistic += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * total;
    const auto count = static_cast<double>(counts[i]);
    if (expected == 0) {
      if (count > 0) return 0;
      continue;
    }
    if (expected >= 5) {
      add(count, expected);
      continue;
    }
    rare_expected += expected;
    rare_count += count;
  }
  if (rare_expected > 0) add(rare_count, rare_expected);
  EXPECT_GE(cells, 2) << "nothing to compare";
  return chi_square_tail(statistic, cells - 1);
}

}  // namespace strobe
