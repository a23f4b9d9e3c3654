// Percentiles, repetition, accept shares, arrivals.
#include "measure/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace strobe::measure {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

TEST(Percentile, IsNumpysLinearOne) {
  const std::vector<double> values = {4, 1, 3, 2};  // numpy.percentile([4, 1, 3, 2], ...)
  EXPECT_DOUBLE_EQ(percentile(values, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(percentile(values, 0.9), 3.7);
  EXPECT_DOUBLE_EQ(percentile(values, 1), 4);
  EXPECT_DOUBLE_EQ(percentile({}, 0.5), 0);
  const Summary summary = summarise(values);
  EXPECT_EQ(summary.count, 4);
  EXPECT_DOUBLE_EQ(summary.mean, 2.5);
  EXPECT_NEAR(summary.p99, 3.97, 1e-12);
  EXPECT_DOUBLE_EQ(summary.max, 4);
}

TEST(RepeatedShare, CountsRunsSeenBefore) {
  const std::vector<int32_t> fresh = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_DOUBLE_EQ(repeated_share({}, fresh, 2), 0);
  const std::vector<int32_t> circle = {1, 2, 1, 2, 1, 2};  // runs 12 21 12 21 12: three of five repeat
  EXPECT_DOUBLE_EQ(repeated_share({}, circle, 2), 0.6);
  EXPECT_DOUBLE_EQ(repeated_share({}, {}, 2), 0);
  // Text that stood in the prompt: runs that reach into the text are counted, those of the prompt alone are not.
  const std::vector<int32_t> before = {1, 2, 3}, after = {1, 2, 3};  // 31 is new, 12 and 23 are not
  EXPECT_DOUBLE_EQ(repeated_share(before, after, 2), 2.0 / 3);
}

TEST(AcceptedByPosition, IsTheTailOfTheHistogram) {
  const std::vector<int64_t> histogram = {1, 0, 3};  // one step accepted none, three accepted two
  EXPECT_THAT(accepted_by_position(histogram), ElementsAre(0.75, 0.75));
  EXPECT_TRUE(accepted_by_position({}).empty());
  EXPECT_TRUE(accepted_by_position(std::vector<int64_t>{0, 0}).empty());
}

TEST(Arrivals, FollowRateAndSeed) {
  EXPECT_THAT(arrival_times(3, 0, true, 1), ElementsAre(0, 0, 0));
  EXPECT_THAT(arrival_times(3, 2, false, 1), ElementsAre(0, 0.5, 1));
  const auto times = arrival_times(20001, 4, true, 7);
  EXPECT_TRUE(std::ranges::is_sorted(times));
  EXPECT_THAT(times.back() / 20000,
              DoubleNear(0.25, 0.01));  // the mean gap; its deviation is 0.25 / sqrt(20000) = 0.0018
  EXPECT_EQ(times, arrival_times(20001, 4, true, 7));
  EXPECT_NE(times, arrival_times(20001, 4, true, 8));
  // Gaps are exponential: a share 1 - 1/e of them lies below the mean.
  int64_t below = 0;
  for (size_t i = 1; i < times.size(); ++i) below += times[i] - times[i - 1] < 0.25 ? 1 : 0;
  EXPECT_THAT(static_cast<double>(below) / 20000, DoubleNear(0.632, 0.02));
}

}  // namespace
}  // namespace strobe::measure
