#include "schedule/draft_account.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace strobe::schedule {
namespace {

// What an answer of so many tokens costs in plain steps. gives(position): tokens that a block beginning there yields.
struct Bill {
  double plain_steps = 0;
  int32_t blocks = 0;
  int32_t held_back = 0;
};

Bill bill(double step_cost, int32_t tokens, const std::function<int32_t(int32_t position)>& gives) {
  DraftAccount account(step_cost);
  Bill bill;
  for (int32_t position = 0; position < tokens;) {
    if (account.pays()) {
      const int32_t got = gives(position);
      account.drafted(got);
      bill.plain_steps += step_cost;
      ++bill.blocks;
      position += got;
    } else {
      account.held_back();
      bill.plain_steps += 1;
      ++bill.held_back;
      ++position;
    }
  }
  return bill;
}

TEST(DraftCost, LiesBetweenThatOfOneAndThatOfMany) {
  const DraftCost cost(2, 9, 8);
  EXPECT_EQ(cost.of(0), 2);
  EXPECT_EQ(cost.of(1), 2);
  EXPECT_EQ(cost.of(2), 3);
  EXPECT_EQ(cost.of(8), 9);
  EXPECT_EQ(cost.of(100), 9);
  const DraftCost given = 2.5;
  for (const int32_t requests : {1, 8, 100}) EXPECT_EQ(given.of(requests), 2.5);
}

TEST(DraftAccount, AStepMayCostMoreThanTheFirstOne) {
  DraftAccount account(2);
  for (int32_t i = 0; i < 50; ++i) {
    account.drafted(4);
    ASSERT_TRUE(account.pays());
  }
  int32_t steps = 0;  // now in company
  for (; account.pays(); ++steps) account.drafted(4, 6);
  EXPECT_GE(steps, 1);
  EXPECT_LE(steps, 4) << "what was saved up is two steps' cost";
}

TEST(DraftAccount, WithoutACostDraftingAlwaysPays) {
  DraftAccount account(0);
  for (int32_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(account.pays());
    account.drafted(1);
  }
}

TEST(DraftAccount, GoodDraftsAreNeverHeldBack) {
  // A poor block among good ones, and one at the very beginning, change nothing.
  for (const double cost : {1.2, 1.5, 2.5, 3.5, 5.3}) {
    const Bill b = bill(cost, 400, [](int32_t position) { return position == 0 || position % 71 == 0 ? 1 : 8; });
    EXPECT_EQ(b.held_back, 0) << cost;
  }
}

TEST(DraftAccount, RefusedDraftsCostLittle) {
  // The first two blocks, and then a share of the plain steps: never more, however long the answer.
  for (const double cost : {1.5, 2.5, 3.5, 5.3, 8.0, 20.0}) {
    for (const int32_t tokens : {20, 200, 2000, 20000}) {
      const Bill b = bill(cost, tokens, [](int32_t) { return 1; });
      EXPECT_LE(b.plain_steps, tokens + 2 * cost + tokens * DraftAccount::kTryShare) << cost << ", " << tokens;
      EXPECT_EQ(b.blocks + b.held_back, tokens);
      EXPECT_GE(b.blocks, 2) << "the first block says little about the rest";
    }
  }
}

TEST(DraftAccount, NoHistoryCostsMore) {
  // Whatever is accepted, in whatever order: the bound is that of blocks that are all refused.
  uint32_t state = 1;
  const auto random = [&](uint32_t below) { return (state = state * 1664525 + 1013904223) / 65536 % below; };
  for (int32_t run = 0; run < 300; ++run) {
    const double cost = 1 + random(80) / 10.0;
    const uint32_t spread = 1 + random(8);
    const Bill b = bill(cost, 1000, [&](int32_t) { return 1 + static_cast<int32_t>(random(spread) * random(2)); });
    // A block may end behind the last token.
    EXPECT_LE(b.plain_steps, 1008 + 2 * cost + 1008 * DraftAccount::kTryShare + DraftAccount::kMostSteps * cost) << run;
  }
}

TEST(DraftAccount, TriesComeTheSoonerTheLessTheyCost) {
  const auto first_try = [](double cost) {
    DraftAccount account(cost);
    while (account.pays()) account.drafted(1);
    int32_t steps = 0;
    for (; !account.pays(); ++steps) account.held_back();
    return steps;
  };
  EXPECT_LE(first_try(1.25), 16);
  EXPECT_LT(first_try(1.25), first_try(2.5));
  EXPECT_LT(first_try(2.5), first_try(5));
  EXPECT_LT(first_try(5), 300);
}

TEST(DraftAccount, ATurnThatTheDraftKnowsIsTakenAtTheNextTry) {
  for (const double cost : {1.5, 3.5, 5.3}) {
    int32_t blocks_behind = 0;
    const Bill b = bill(cost, 2000, [&](int32_t position) {
      blocks_behind += position >= 1000 ? 1 : 0;
      return position < 1000 ? 1 : 8;
    });
    // Of the thousand tokens behind the turn, but for the wait before the next try, eight come a step.
    const auto wait = static_cast<int32_t>((2 * cost) / DraftAccount::kTryShare);
    EXPECT_GE(blocks_behind * 8, 1000 - wait) << cost;
    EXPECT_LT(b.plain_steps, 1000 * (1 + DraftAccount::kTryShare) + 3 * cost + wait + 1000 / 8.0 * cost) << cost;
  }
}

TEST(DraftAccount, SavingsHaveALimit) {
  const double cost = 4;
  DraftAccount account(cost);
  for (int32_t i = 0; i < 1000; ++i) account.drafted(8);
  int32_t refused = 0;
  for (; account.pays(); ++refused) account.drafted(1);
  EXPECT_EQ(refused, 3) << "2 * 4 saved, 3 lost each time";
}

}  // namespace
}  // namespace strobe::schedule
