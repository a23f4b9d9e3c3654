// The test's own test: known quantiles, and that it tells right from slightly wrong.
#include "chi_square.h"

#include <random>
#include <vector>

namespace strobe {
namespace {

TEST(ChiSquare, TailsFromTables) {
  // Quantiles as printed in any table of the distribution.
  EXPECT_NEAR(chi_square_tail(11.070, 5), 0.05, 0.002);
  EXPECT_NEAR(chi_square_tail(20.515, 5), 0.001, 0.0003);
  EXPECT_NEAR(chi_square_tail(123.225, 99), 0.05, 0.001);
  EXPECT_NEAR(chi_square_tail(148.230, 99), 0.001, 0.0001);
  EXPECT_NEAR(chi_square_tail(98.334, 99), 0.5, 0.001);
}

TEST(ChiSquare, TellsALoadedDieFromAFairOne) {
  std::mt19937 random(1);
  const std::vector<double> fair(6, 1.0 / 6);
  const auto throw_dice = [&](double six) {
    std::discrete_distribution<size_t> die({1, 1, 1, 1, 1, six});
    std::vector<int64_t> counts(6);
    for (int i = 0; i < 20000; ++i) ++counts[die(random)];
    return chi_square_p(counts, fair);
  };
  EXPECT_GT(throw_dice(1.0), 1e-3);
  EXPECT_LT(throw_dice(1.2), 1e-6);
}

TEST(ChiSquare, AnImpossibleOutcomeRefutes) {
  const std::vector<double> two = {0.5, 0.5, 0.0};
  EXPECT_EQ(chi_square_p(std::vector<int64_t>{500, 499, 1}, two), 0.0);
  EXPECT_GT(chi_square_p(std::vector<int64_t>{500, 500, 0}, two), 0.5);
}

}  // namespace
}  // namespace strobe
