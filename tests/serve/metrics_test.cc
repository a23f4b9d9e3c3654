#include "serve/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <regex>
#include <set>
#include <sstream>

namespace strobe::serve {
namespace {

using testing::HasSubstr;

TEST(Histogram, AValueOnABoundBelongsToIt) {
  Histogram histogram({1, 2});
  histogram.observe(1);
  histogram.observe(1.5, 3);
  histogram.observe(9);
  EXPECT_THAT(histogram.counts(), testing::ElementsAre(1, 3, 1));
  EXPECT_DOUBLE_EQ(histogram.sum(), 14.5);
}

TEST(PrometheusText, WritesFamilies) {
  PrometheusText text("model_name=\"m\"");
  text.gauge("a:b", "Help", 0.5);
  Histogram histogram({0.1, 1});
  histogram.observe(0.05);
  histogram.observe(5);
  text.histogram("h", "Times", histogram);
  EXPECT_EQ(text.take(),
            "# HELP a:b Help\n# TYPE a:b gauge\na:b{model_name=\"m\"} 0.5\n"
            "# HELP h Times\n# TYPE h histogram\n"
            "h_bucket{model_name=\"m\",le=\"0.1\"} 1\nh_bucket{model_name=\"m\",le=\"1\"} 1\n"
            "h_bucket{model_name=\"m\",le=\"+Inf\"} 2\nh_sum{model_name=\"m\"} 5.05\nh_count{model_name=\"m\"} 2\n");
}

TEST(PrometheusText, LabelsAreEscaped) {
  EXPECT_EQ(label_value("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
}

TEST(PrometheusText, SaysNumbersThatAreNone) {
  PrometheusText text("");
  text.sample("x", "", std::numeric_limits<double>::quiet_NaN());
  text.sample("x", "", -std::numeric_limits<double>::infinity());
  EXPECT_EQ(text.take(), "x{} NaN\nx{} -Inf\n");
}

TEST(Metrics, GapsAreSharedByTheTokensOfAStep) {
  Metrics metrics;
  metrics.more_tokens(0.3, 3);
  metrics.more_tokens(1, 0);  // no token, no gap
  const std::string text = metrics.text("m", {});
  EXPECT_THAT(text, HasSubstr("sglang:inter_token_latency_seconds_count{model_name=\"m\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("sglang:inter_token_latency_seconds_bucket{model_name=\"m\",le=\"0.08\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("sglang:inter_token_latency_seconds_bucket{model_name=\"m\",le=\"0.1\"} 3\n"));
}

TEST(Metrics, AcceptedAtAPositionCountsLongerRunsToo) {
  schedule::GeneratorStats stats;
  stats.draft_block_tokens = 4;
  stats.verify_steps_total = 10;
  stats.held_back_steps_total = 6;
  stats.drafted_tokens_total = 30;
  stats.accept_histogram = {4, 3, 2, 1};  // 10 steps
  stats.accepted_tokens_total = 3 + 2 * 2 + 3;
  const std::string text = Metrics().text("m", stats);
  EXPECT_THAT(text, HasSubstr("strobe:spec_accepted_at_position_total{model_name=\"m\",position=\"1\"} 6\n"));
  EXPECT_THAT(text, HasSubstr("strobe:spec_accepted_at_position_total{model_name=\"m\",position=\"2\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("strobe:spec_accepted_at_position_total{model_name=\"m\",position=\"3\"} 1\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("position=\"4\"")));
  EXPECT_THAT(text, HasSubstr("sglang:spec_accept_length{model_name=\"m\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("strobe:spec_held_back_steps_total{model_name=\"m\"} 6\n"));
}

TEST(Metrics, EveryLineIsOfTheTextFormat) {
  Metrics metrics;
  metrics.first_token(0.1);
  metrics.answered("/v1/\"completions", 200);
  metrics.finished({.prompt_tokens = 10, .cached_tokens = 4}, true);
  std::istringstream lines(metrics.text("mo\"del\\", {}));
  const std::regex comment(R"(# (HELP|TYPE) [a-zA-Z_:][a-zA-Z0-9_:]* .+)");
  const std::regex sample(
      R"rx([a-zA-Z_:][a-zA-Z0-9_:]*\{([a-z_]+="([^"\\\n]|\\.)*"(,[a-z_]+="([^"\\\n]|\\.)*")*)?\} [-+0-9.eE]+|NaN|[+-]Inf)rx");
  std::set<std::string> typed;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(std::regex_match(line, comment) || std::regex_match(line, sample)) << line;
    if (!line.starts_with("# TYPE ")) continue;
    EXPECT_TRUE(typed.insert(line.substr(7, line.find(' ', 7) - 7)).second) << "twice: " << line;
  }
  EXPECT_TRUE(typed.contains("sglang:cache_hit_rate"));
}

}  // namespace
}  // namespace strobe::serve
