#include "engine/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strobe::engine {
namespace {

using testing::HasSubstr;

constexpr int64_t kMib = int64_t{1} << 20;

MemoryNeeds needs() {
  return {.limit_bytes = 1000 * kMib,
          .fraction = 0.5,
          .fixed = {{"target weights", 300 * kMib, ""}, {"workspace", 50 * kMib, ""}},
          .pools = {{"target KV cache", 600, "fp8_e4m3"}, {"draft KV cache", 424, "bf16"}},
          .page_size = 64,
          .useful_tokens = 1 << 20};
}

TEST(MemoryPlan, TakesWhatTheFractionLeaves) {
  const auto plan = plan_memory(needs());
  ASSERT_TRUE(plan.ok()) << plan.message();
  EXPECT_EQ(plan->bytes_per_token, 1024);
  // 150 MiB / (64 * 1 KiB) = 2400 pages, of which one takes padding.
  EXPECT_EQ(plan->pages, 2399);
  EXPECT_EQ(plan->tokens, 2399 * 64);
  EXPECT_EQ(plan->total_bytes(), 500 * kMib);
  ASSERT_EQ(plan->items.size(), 4U);
  EXPECT_EQ(plan->items[2].bytes, int64_t{2400} * 64 * 600) << "each pool by its own geometry";
  EXPECT_EQ(plan->items[3].bytes, int64_t{2400} * 64 * 424);
  EXPECT_EQ(plan->reason, "what --mem-fraction-static leaves");
}

TEST(MemoryPlan, TakesNoMoreThanIsUseful) {
  MemoryNeeds n = needs();
  n.useful_tokens = 1000;
  const auto plan = plan_memory(n);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->pages, 16);
  EXPECT_THAT(plan->reason, HasSubstr("whole context"));
}

TEST(MemoryPlan, TakesWhatIsAsked) {
  MemoryNeeds n = needs();
  n.asked_tokens = 1000;
  const auto plan = plan_memory(n);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->tokens, 960) << "whole pages";
  EXPECT_THAT(plan->reason, HasSubstr("--max-total-tokens"));
}

TEST(MemoryPlan, RefusesWhatDoesNotFit) {
  MemoryNeeds n = needs();
  n.asked_tokens = 2400 * 64;
  auto plan = plan_memory(n);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(
      plan.message(),
      "--max-total-tokens 153600: accepted: 153536 at most: --mem-fraction-static 0.5 of 1000.0 MiB is 500.0 MiB, "
      "weights and workspace take 350.0 MiB, each token 1024 bytes in the KV caches");
  n.asked_tokens = 153536;
  EXPECT_TRUE(plan_memory(n).ok()) << "what is called accepted is";
  for (const int64_t asked : {int64_t{0}, int64_t{2400} * 64}) {
    n.asked_tokens = asked;
    n.fixed[0].bytes = 450 * kMib;
    EXPECT_EQ(
        plan_memory(n).message(),
        "--mem-fraction-static 0.5: of 1000.0 MiB it allows 500.0 MiB; 500.0 MiB of weights and workspace leave no "
        "room for 64 tokens of 1024 bytes in the KV caches");
  }
}

TEST(MemoryPlan, TheTableNamesEveryPart) {
  const auto plan = plan_memory(needs());
  ASSERT_TRUE(plan.ok());
  const auto lines = plan->table();
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_THAT(lines[0], HasSubstr("target weights"));
  EXPECT_THAT(lines[2], HasSubstr("600 bytes a token, fp8_e4m3"));
  EXPECT_THAT(lines[4], HasSubstr("50.0% of 1000.0 MiB"));
  EXPECT_THAT(lines[5], HasSubstr("153536"));
}

TEST(MemoryPlan, BytesText) {
  EXPECT_EQ(bytes_text(576), "576 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(27682406), "26.4 MiB");
  EXPECT_EQ(bytes_text(int64_t{3} << 29), "1.50 GiB");
}

}  // namespace
}  // namespace strobe::engine
