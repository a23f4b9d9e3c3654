#include "schedule/scheduler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <stdexcept>

#include "base/failure.h"
#include "scheduler_fixture.h"

namespace strobe::schedule {
namespace {

using testing::HasSubstr;

class SchedulerTest : public SchedulerFixture {
 protected:
  // Steps take 2 ms, so that 150 tokens are a while; `reached` opens with step `step`.
  void take_time(int step, Gate& reached) {
    stepper().on_step = [step, &reached](const engine::StepPlan&, int number) {
      if (number == step) reached.open();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    };
  }
  std::string refusal(GenerateRequest r) {
    const auto id = scheduler().submit(std::move(r), [](const Chunk&) { ADD_FAILURE() << "it was refused"; });
    EXPECT_FALSE(id.ok());
    return id.ok() ? "" : id.message();
  }
};

// ---- one request ----

TEST_F(SchedulerTest, PlainDecoding) {
  start({});
  const Ids p = prompt(5);
  const Listener heard = submit(request(p, 20));
  expect_end(heard, FinishReason::kLength);
  EXPECT_EQ(heard.tokens(), answer(p, 20));
  EXPECT_EQ(heard.text(), number_text(answer(p, 20)));
  const Usage usage = heard.usage();
  EXPECT_EQ(usage.prompt_tokens, 5);
  EXPECT_EQ(usage.completion_tokens, 20);
  EXPECT_EQ(usage.decode_steps, 19) << "the first token comes from the prompt's step";
  EXPECT_EQ(usage.verify_steps, 0);
  EXPECT_EQ(usage.drafted_tokens, 0);
  EXPECT_EQ(usage.accept_length(), 1.0);
  EXPECT_EQ(heard.chunks().size(), 20U);
}

TEST_F(SchedulerTest, SpeculationCountsWhatItDoes) {
  start({.fake = {.block_tokens = 4}});
  const Ids p = prompt(7);
  const Listener heard = submit(request(p, 40));
  expect_end(heard, FinishReason::kLength);
  EXPECT_EQ(heard.tokens(), answer(p, 40));
  const auto chunks = heard.chunks();
  int32_t emitted = 0, accepted = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Chunk& chunk = chunks[i];
    emitted += static_cast<int32_t>(chunk.token_ids.size());
    EXPECT_EQ(chunk.usage.completion_tokens, emitted);
    EXPECT_EQ(chunk.usage.decode_steps, static_cast<int32_t>(i));
    EXPECT_EQ(chunk.usage.verify_steps, static_cast<int32_t>(i));
    EXPECT_EQ(chunk.usage.drafted_tokens, 3 * static_cast<int32_t>(i));
    accepted = chunk.usage.accepted_tokens - accepted;  // of this step
    const bool last = i + 1 == chunks.size();
    for (size_t t = 0; t < chunk.origins.size(); ++t) {
      EXPECT_EQ(chunk.origins[t].step, static_cast<int32_t>(i));
      const bool bonus = static_cast<int32_t>(t) == accepted;
      EXPECT_EQ(chunk.origins[t].block_position, bonus ? 0 : static_cast<int32_t>(t) + 1);
      EXPECT_EQ(chunk.origins[t].drafted, i == 0 ? 0 : 3) << "the first step is prefill";
    }
    if (!last) {
      EXPECT_EQ(std::ssize(chunk.token_ids), accepted + 1);
    }
    accepted = chunk.usage.accepted_tokens;
  }
  const Usage usage = heard.usage();
  EXPECT_EQ(usage.completion_tokens, 40);
  int32_t steps = 0, by_histogram = 0;
  for (int32_t a = 0; a < kMaxBlockTokens; ++a) {
    steps += usage.accept_histogram[static_cast<size_t>(a)];
    by_histogram += a * usage.accept_histogram[static_cast<size_t>(a)];
  }
  EXPECT_EQ(steps, usage.verify_steps);
  EXPECT_EQ(by_histogram, usage.accepted_tokens);
  EXPECT_GT(usage.accepted_tokens, 0);
  EXPECT_DOUBLE_EQ(usage.accept_length(), 1.0 + static_cast<double>(usage.accepted_tokens) / usage.verify_steps);
  EXPECT_GE(usage.first_token_ms, usage.queue_ms);
  EXPECT_GE(usage.total_ms, usage.first_token_ms);
}

TEST_F(SchedulerTest, ARequestMayDeclineSpeculation) {
  start({.fake = {.block_tokens = 4}});
  GenerateRequest r = request(prompt(3), 12);
  r.drafting = Drafting::kOff;
  const Listener heard = submit(std::move(r));
  expect_end(heard, FinishReason::kLength);
  EXPECT_EQ(heard.tokens(), answer(prompt(3), 12));
  EXPECT_EQ(heard.usage().drafted_tokens, 0);
  EXPECT_EQ(heard.usage().decode_steps, 11);
}

// The account's own test is draft_account_test.cc.
TEST_F(SchedulerTest, StepsHoldBackWhereDraftingDoesNotPay) {
  start({.fake = {.block_tokens = 4}, .draft_cost = 3});
  stepper().accept = [](int32_t, int32_t) { return 0; };
  const Listener heard = submit(request(prompt(5), 100));
  expect_end(heard, FinishReason::kLength);
  EXPECT_EQ(heard.tokens(), answer(prompt(5), 100));
  const Usage usage = heard.usage();
  EXPECT_EQ(usage.decode_steps, 99);
  // Two blocks until the account is overdrawn by 1, a third when 32 plain steps have paid that.
  EXPECT_EQ(usage.verify_steps, 3);
  EXPECT_EQ(usage.held_back_steps, 96);
  EXPECT_EQ(usage.drafted_tokens, 3 * 3);
  EXPECT_EQ(usage.accept_histogram[0], 3) << "steps without a draft are no verify steps";
  EXPECT_EQ(usage.accept_length(), 1);
  int32_t drafted = 0;
  for (const Chunk& chunk : heard.chunks()) {
    ASSERT_EQ(chunk.token_ids.size(), 1U);
    drafted += chunk.origins[0].drafted > 0 ? 1 : 0;
  }
  EXPECT_EQ(drafted, 3);
  const auto stats = wait_for_stats([](const GeneratorStats& s) { return s.requests_total == 1; });
  EXPECT_EQ(stats.verify_steps_total, 3);
  EXPECT_EQ(stats.held_back_steps_total, 96);
}

TEST_F(SchedulerTest, DraftsAreTakenUpAgainWhenTheyStand) {
  start({.fake = {.block_tokens = 8}, .draft_cost = 3});
  stepper().accept = [](int32_t position, int32_t drafts) { return position < 48 ? 0 : drafts; };
  const Listener heard = submit(request(prompt(5), 190));
  expect_end(heard, FinishReason::kLength);
  EXPECT_EQ(heard.tokens(), answer(prompt(5), 190));
  const Usage usage = heard.usage();
  EXPECT_GT(usage.held_back_steps, 40);
  EXPECT_GT(usage.accepted_tokens, 50);
  EXPECT_EQ(usage.decode_steps, usage.verify_steps + usage.held_back_steps);
}

// A block of four tokens is worth two plain steps, what it costs one request, and not the six that it costs each of
// eight.
TEST_F(SchedulerTest, DraftsMayPayARequestAlone) {
  start({.fake = {.block_tokens = 4}, .draft_cost = {2, 6, 8}});
  stepper().accept = [](int32_t, int32_t drafts) { return drafts; };
  const Listener alone = submit(request(prompt(5), 100));
  expect_end(alone, FinishReason::kLength);
  EXPECT_EQ(alone.tokens(), answer(prompt(5), 100));
  EXPECT_EQ(alone.usage().held_back_steps, 0);
}

TEST_F(SchedulerTest, AndNotInCompany) {
  start({.fake = {.block_tokens = 4}, .running = 8, .draft_cost = {2, 6, 8}});
  stepper().accept = [](int32_t, int32_t drafts) { return drafts; };
  Gate reached, go_on;
  hold_step(0, reached, go_on);
  std::vector<Listener> together;
  for (int i = 0; i < 8; ++i) {
    together.push_back(submit(request(prompt(5 + i), 100)));
    if (i == 0) reached.pass();
  }
  go_on.open();
  for (int i = 0; i < 8; ++i) {
    const Listener& heard = together[static_cast<size_t>(i)];
    expect_end(heard, FinishReason::kLength);
    EXPECT_EQ(heard.tokens(), answer(prompt(5 + i), 100));
    EXPECT_GT(heard.usage().held_back_steps, 40);
  }
}

TEST_F(SchedulerTest, ARequestMayAskForDraftsInAllSteps) {
  start({.fake = {.block_tokens = 4}, .draft_cost = 3});
  stepper().accept = [](int32_t, int32_t) { return 0; };
  GenerateRequest always = request(prompt(5), 100), never = request(prompt(6), 100);
  always.drafting = Drafting::kAlways;
  never.drafting = Drafting::kOff;
  const Listener all = submit(std::move(always)), none = submit(std::move(never));
  expect_end(all, FinishReason::kLength);
  expect_end(none, FinishReason::kLength);
  EXPECT_EQ(all.usage().verify_steps, 99);
  EXPECT_EQ(all.usage().held_back_steps, 0);
  EXPECT_EQ(none.usage().verify_steps, 0);
  EXPECT_EQ(none.usage().held_back_steps, 0) << "what never drafts holds nothing back";
}

TEST_F(SchedulerTest, AStopEarlyInABlockBeatsTheLengthLaterInIt) {
  start({.fake = {.block_tokens = 8}});
  stepper().accept = [](int32_t, int32_t drafts) { return drafts; };  // every step gives 8 tokens
  const Ids p = prompt(4), said = answer(p, 9);
  // Token 3 of the block is a stop token, token 5 would be the last by length; 8 are accepted.
  GenerateRequest r = request(p, 6);
  r.stop.stop_token_ids = {said[3]};
  ASSERT_EQ(std::find(said.begin(), said.begin() + 3, said[3]), said.begin() + 3);
  const Listener heard = submit(std::move(r));
  const Finish finish = heard.wait();
  EXPECT_EQ(finish.reason, FinishReason::kStop);
  EXPECT_EQ(finish.matched_token, said[3]);
  EXPECT_EQ(heard.tokens(), Ids(said.begin(), said.begin() + 4));
  EXPECT_EQ(heard.text(), number_text({said[0], said[1], said[2]}));
  EXPECT_EQ(heard.usage().completion_tokens, 4);
  EXPECT_EQ(heard.usage().accepted_tokens, 7) << "what the target agreed with, emitted or not";
}

TEST_F(SchedulerTest, StopStringsEndAnAnswerInsideABlock) {
  start({.fake = {.block_tokens = 8}});
  stepper().accept = [](int32_t, int32_t drafts) { return drafts; };
  const Ids p = prompt(4), said = answer(p, 9);
  GenerateRequest r = request(p, 50);
  r.stop.stop_strings = {number_text({said[4], said[5]}).substr(1)};  // from inside one token over the next
  const Listener heard = submit(std::move(r));
  const Finish finish = heard.wait();
  EXPECT_EQ(finish.reason, FinishReason::kStop);
  EXPECT_TRUE(finish.matched_string);
  EXPECT_EQ(heard.tokens(), Ids(said.begin(), said.begin() + 6));
  const std::string whole = number_text({said[0], said[1], said[2], said[3], said[4]});
  EXPECT_EQ(heard.text(), whole.substr(0, whole.size() - 2));
}

TEST_F(SchedulerTest, EarlyBansReachTheStepper) {
  start({.fake = {.block_tokens = 4}});
  std::vector<int32_t> rows;
  stepper().on_step = [&](const engine::StepPlan& plan, int) {
    const auto& sequence = plan.sequences[0];
    rows.push_back(sequence.forbidden_rows);
    EXPECT_EQ(Ids(sequence.forbidden_early.begin(), sequence.forbidden_early.end()), (Ids{55, 0}));
  };
  stepper().accept = [](int32_t, int32_t drafts) { return std::min(1, drafts); };  // two tokens a decode step
  GenerateRequest r = request(prompt(3), 9);
  r.stop.min_new_tokens = 5;
  r.stop.stop_token_ids = {55};
  const Listener heard = submit(std::move(r));
  heard.wait();
  stop();
  EXPECT_EQ(rows, (std::vector<int32_t>{5, 4, 2, 0, 0}));
}

TEST_F(SchedulerTest, TheContextIsNeverExceeded) {
  start({.fake = {.block_tokens = 8, .pages = 33, .max_context_tokens = 32}});
  // The fake stepper refuses rows behind the context's end.
  for (const int32_t length : {1, 20, 25, 30, 31}) {
    const Listener heard = submit(request(prompt(length), 1000));
    expect_end(heard, FinishReason::kLength);
    EXPECT_EQ(heard.tokens(), answer(prompt(length), 32 - length)) << length;
  }
}

// ---- several requests ----

TEST_F(SchedulerTest, RequestsJoinWhileOthersRun) {
  start({.fake = {.block_tokens = 4}});
  Gate reached, go_on;
  std::vector<size_t> sizes;
  stepper().on_step = [&](const engine::StepPlan& plan, int step) {
    sizes.push_back(plan.sequences.size());
    if (step == 3) {
      reached.open();
      go_on.pass();
    }
  };
  const Listener first = submit(request(prompt(6, 1), 60));
  reached.pass();
  const Listener second = submit(request(prompt(9, 30), 10)), third = submit(request(prompt(1, 50), 25));
  go_on.open();
  first.wait();
  second.wait();
  third.wait();
  stop();
  EXPECT_EQ(first.tokens(), answer(prompt(6, 1), 60));
  EXPECT_EQ(second.tokens(), answer(prompt(9, 30), 10));
  EXPECT_EQ(third.tokens(), answer(prompt(1, 50), 25));
  EXPECT_EQ(sizes[3], 1U);
  EXPECT_EQ(sizes[4], 3U) << "both join in the next step";
  EXPECT_EQ(sizes.back(), 1U);
}

TEST_F(SchedulerTest, LongPromptsAreReadBetweenTheStepsOfOthers) {
  start({.fake = {.block_tokens = 4, .max_rows = 16}});
  Gate reached, go_on;
  struct Part {
    int32_t fed;
    bool wants_token;
    int32_t block;
  };
  std::vector<std::vector<Part>> plans;
  stepper().on_step = [&](const engine::StepPlan& plan, int step) {
    auto& parts = plans.emplace_back();
    for (const auto& s : plan.sequences) {
      parts.push_back({static_cast<int32_t>(s.tokens.size()), s.wants_token, s.block_tokens});
    }
    if (step == 1) {
      reached.open();
      go_on.pass();
    }
  };
  const Listener talker = submit(request(prompt(4), 100));
  reached.pass();
  const Listener reader = submit(request(prompt(50, 20), 5)), behind = submit(request(prompt(3, 70), 5));
  go_on.open();
  talker.wait();
  reader.wait();
  behind.wait();
  stop();
  EXPECT_EQ(talker.tokens(), answer(prompt(4), 100));
  EXPECT_EQ(reader.tokens(), answer(prompt(50, 20), 5));
  EXPECT_EQ(behind.tokens(), answer(prompt(3, 70), 5));
  // Decoding first with its whole block, then 12 rows of prompts a step: 12 + 12 + 12 + 12 + 2, and there the next
  // prompt fits in too.
  for (size_t step = 2; step <= 6; ++step) {
    ASSERT_GE(plans[step].size(), 2U);
    EXPECT_EQ(plans[step][0].block, 4);
    EXPECT_EQ(plans[step][1].fed, step < 6 ? 12 : 2);
    EXPECT_EQ(plans[step][1].wants_token, step == 6);
    EXPECT_EQ(plans[step][1].block, 1);
  }
  ASSERT_EQ(plans[6].size(), 3U);
  EXPECT_EQ(plans[6][2].fed, 3);
}

TEST_F(SchedulerTest, PromptsAreReadInChunksOfTheirOwn) {
  start({.fake = {.block_tokens = 4, .max_rows = 64}, .chunk = 10});
  std::vector<size_t> fed;
  stepper().on_step = [&](const engine::StepPlan& plan, int) {
    size_t rows = 0;
    for (const auto& s : plan.sequences) rows += s.block_tokens == 1 ? s.tokens.size() : 0;
    fed.push_back(rows);
  };
  const Listener heard = submit(request(prompt(35), 5));
  expect_end(heard, FinishReason::kLength);
  stop();
  ASSERT_GE(fed.size(), 4U);
  EXPECT_EQ((std::vector<size_t>(fed.begin(), fed.begin() + 4)), (std::vector<size_t>{10, 10, 10, 5}));
}

TEST_F(SchedulerTest, MoreThanMayRunWaitTheirTurn) {
  start({.running = 2});
  std::vector<Listener> heard;
  size_t most = 0;
  stepper().on_step = [&](const engine::StepPlan& plan, int) { most = std::max(most, plan.sequences.size()); };
  for (int32_t i = 0; i < 7; ++i) heard.push_back(submit(request(prompt(3, i), 5 + i)));
  for (int32_t i = 0; i < 7; ++i) {
    heard[static_cast<size_t>(i)].wait();
    EXPECT_EQ(heard[static_cast<size_t>(i)].tokens(), answer(prompt(3, i), 5 + i));
  }
  stop();
  EXPECT_EQ(most, 2U);
}

TEST_F(SchedulerTest, TheQueueHasAnEnd) {
  start({.running = 1, .queued = 2});
  Gate reached, go_on;
  hold_step(0, reached, go_on);
  std::vector<Listener> heard;
  for (int32_t i = 0; i < 3; ++i) heard.push_back(submit(request(prompt(3, i), 5)));
  reached.pass();
  EXPECT_EQ(refusal(request(prompt(3), 5)), "the queue is full (2 requests waiting)");
  go_on.open();
  for (const Listener& one : heard) expect_end(one, FinishReason::kLength);
  wait_for_stats([](const GeneratorStats& s) { return s.requests_total == 3; });
  expect_end(submit(request(prompt(3), 5)), FinishReason::kLength);
}

TEST_F(SchedulerTest, AQueueWithoutLimitIsNoOverflow) {
  start({.running = 1, .queued = std::numeric_limits<int32_t>::max()});
  expect_end(submit(request(prompt(3), 5)), FinishReason::kLength);
}

// ---- time limits ----

TEST_F(SchedulerTest, ATimeLimitEndsARequestThatRunsOrWaits) {
  start({.running = 1});
  stepper().on_step = [](const engine::StepPlan&, int) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  GenerateRequest r = request(prompt(3), 190);
  r.timeout_ms = 50;
  const Listener free = submit(request(prompt(4), 150)), limited = submit(std::move(r));
  const Finish finish = limited.wait();
  EXPECT_EQ(finish.reason, FinishReason::kAbort);
  EXPECT_EQ(finish.message, "the request's time limit of 50 ms is over");
  EXPECT_TRUE(limited.tokens().empty()) << "it waited: 150 steps of 2 ms come first";
  expect_end(free, FinishReason::kLength);
  r = request(prompt(3), 190);
  r.timeout_ms = 50;
  const Listener running = submit(std::move(r));
  EXPECT_EQ(running.wait().reason, FinishReason::kAbort);
  EXPECT_LT(std::ssize(running.tokens()), 190);
  r = request(prompt(3), 5);
  r.timeout_ms = -1;
  EXPECT_EQ(refusal(std::move(r)), "timeout_ms is -1; 0 (no limit) or more is accepted");
}

TEST_F(SchedulerTest, SinksMaySubmitAndAbort) {
  start({.running = 1});
  Gate aborted;
  // Sinks are called beside the steps: step 40, in the midst of the second request, waits for the abort.
  stepper().on_step = [&](const engine::StepPlan&, int step) {
    if (step == 40) aborted.pass();
  };
  Listener second;
  const auto first = scheduler().submit(request(prompt(3), 4, "first"), [&](const Chunk& chunk) {
    if (!chunk.finish) return;
    EXPECT_TRUE(scheduler()
                    .submit(request(prompt(5), 100, "second"), second.sink([&](const Chunk& c) {
                      if (c.usage.completion_tokens != 3) return;
                      scheduler().abort("second");
                      aborted.open();
                    }))
                    .ok());
  });
  ASSERT_TRUE(first.ok());
  expect_end(second, FinishReason::kAbort);
  EXPECT_GE(std::ssize(second.tokens()), 3);
}

// ---- ids ----

TEST_F(SchedulerTest, IdsAreMadeOrKeptAndNeverShared) {
  start({});
  Gate reached, go_on;
  hold_step(0, reached, go_on);
  Listener mine, made, other;
  // An id that the scheduler would have made itself.
  EXPECT_EQ(*scheduler().submit(request(prompt(3), 5, "0000000000000001"), mine.sink()), "0000000000000001");
  reached.pass();
  const auto id = scheduler().submit(request(prompt(3), 5), made.sink());
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(*id, "0000000000000002");
  EXPECT_EQ(refusal(request(prompt(3), 5, *id)), "a request with id '0000000000000002' is running already");
  go_on.open();
  mine.wait();
  made.wait();
  wait_for_stats([](const GeneratorStats& s) { return s.requests_total == 2; });
  EXPECT_TRUE(scheduler().submit(request(prompt(3), 5, "0000000000000001"), other.sink()).ok()) << "free again";
  expect_end(other, FinishReason::kLength);
}

// ---- aborts ----

TEST_F(SchedulerTest, AQueuedRequestCanBeAborted) {
  start({.running = 1});
  Gate reached, go_on;
  hold_step(0, reached, go_on);
  const Listener runs = submit(request(prompt(3), 30)), waits = submit(request(prompt(3), 30, "w"));
  reached.pass();
  scheduler().abort("w");
  go_on.open();
  const Finish finish = waits.wait();
  EXPECT_EQ(finish.reason, FinishReason::kAbort);
  EXPECT_EQ(finish.message, "the request was aborted");
  EXPECT_TRUE(waits.tokens().empty());
  EXPECT_EQ(waits.chunks().size(), 1U);
  EXPECT_EQ(waits.usage().prompt_tokens, 3);
  expect_end(runs, FinishReason::kLength);
  EXPECT_EQ(runs.tokens(), answer(prompt(3), 30));
}

TEST_F(SchedulerTest, AnAbortInMidBlockComesAfterTheBlocksTokens) {
  start({.fake = {.block_tokens = 8}});
  stepper().accept = [](int32_t, int32_t drafts) { return drafts; };
  Gate reached, go_on;
  hold_step(2, reached, go_on);
  const Listener heard = submit(request(prompt(3), 100, "a")), other = submit(request(prompt(9), 40));
  reached.pass();
  scheduler().abort("a");
  scheduler().abort("a");
  go_on.open();
  expect_end(heard, FinishReason::kAbort);
  EXPECT_EQ(heard.tokens(), answer(prompt(3), 17)) << "of the prompt's step and two blocks";
  EXPECT_EQ(heard.usage().completion_tokens, std::ssize(heard.tokens()));
  EXPECT_TRUE(heard.chunks().back().token_ids.empty());
  expect_end(other, FinishReason::kLength);
  EXPECT_EQ(other.tokens(), answer(prompt(9), 40));
}

TEST_F(SchedulerTest, AnAbortWhileThePromptIsRead) {
  start({.fake = {.max_rows = 8}});
  Gate reached, go_on;
  hold_step(1, reached, go_on);
  const Listener heard = submit(request(prompt(50), 10, "a"));
  reached.pass();
  scheduler().abort("a");
  go_on.open();
  expect_end(heard, FinishReason::kAbort);
  EXPECT_TRUE(heard.tokens().empty());
  EXPECT_EQ(heard.usage().completion_tokens, 0);
}

TEST_F(SchedulerTest, AbortsOfUnknownIdsAreIgnored) {
  start({});
  scheduler().abort("nobody");
  scheduler().abort("");
  expect_end(submit(request(prompt(3), 5, "nobody")), FinishReason::kLength);
}

TEST_F(SchedulerTest, AnAbortThatComesTooLateDoesNotMeetTheNextOfItsName) {
  start({});
  Gate started, both, ending, go_on, again;
  stepper().on_step = [&](const engine::StepPlan&, int step) {
    if (step == 0) {
      started.open();
      both.pass();
    }
    if (step == 2) {
      ending.open();
      go_on.pass();
    }
  };
  // Step 2 is the last of "x"; behind it, `keeper` holds the scheduler until there is a new "x".
  Listener first, keeper, second;
  ASSERT_TRUE(scheduler().submit(request(prompt(3), 3, "x"), first.sink()).ok());
  started.pass();
  const auto hold = [&](const Chunk& chunk) {
    if (chunk.usage.completion_tokens == 2) again.pass();
  };
  ASSERT_TRUE(scheduler().submit(request(prompt(4), 5), keeper.sink(hold)).ok());
  both.open();
  ending.pass();
  scheduler().abort("x");
  go_on.open();
  expect_end(first, FinishReason::kLength);
  Result<std::string> id = error("not yet");
  for (int i = 0; i < 30000 && !id.ok(); ++i) {  // the id is free a moment after the end is told
    id = scheduler().submit(request(prompt(5), 30, "x"), second.sink());
    if (!id.ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  again.open();
  ASSERT_TRUE(id.ok());
  expect_end(second, FinishReason::kLength);
  EXPECT_EQ(second.tokens(), answer(prompt(5), 30));
  keeper.wait();
}

// ---- what submit refuses ----

TEST_F(SchedulerTest, RequestsThatCanNeverRunAreRefused) {
  start({.fake = {.pages = 11, .page_size = 4, .max_context_tokens = 100}});  // 40 slots
  EXPECT_EQ(refusal(request({}, 5)), "the prompt is empty; at least one token is needed");
  EXPECT_EQ(refusal(request({1, -1}, 5)), "prompt token -1 is outside the vocabulary [0, 100)");
  EXPECT_EQ(refusal(request({100}, 5)), "prompt token 100 is outside the vocabulary [0, 100)");
  EXPECT_EQ(refusal(request({1}, 0)), "max_new_tokens is 0; at least 1 is needed");
  EXPECT_EQ(refusal(request({1}, -7)), "max_new_tokens is -7; at least 1 is needed");
  EXPECT_EQ(refusal(request(prompt(100), 5)),
            "the prompt has 100 tokens; at most 99 fit into the context of 100 with room for an answer");
  EXPECT_EQ(refusal(request(prompt(30), 20)), "prompt and answer may take 50 tokens; the cache holds 40");
  // A refused id is free.
  EXPECT_EQ(refusal(request(prompt(30), 20, "same")), "prompt and answer may take 50 tokens; the cache holds 40");
  expect_end(submit(request(prompt(20), 10, "same")), FinishReason::kLength);
}

// ---- failures ----

TEST_F(SchedulerTest, AFailureEndsThePlansRequestsOnly) {
  start({.fake = {.block_tokens = 4}, .running = 2});
  Gate reached, go_on;
  stepper().on_step = [&](const engine::StepPlan&, int step) {
    if (step == 0) {
      reached.open();
      go_on.pass();
    }
    if (step == 3) fail("the device fell off the bus");
  };
  const Listener a = submit(request(prompt(3), 100));
  reached.pass();
  const Listener b = submit(request(prompt(4), 100)), waiting = submit(request(prompt(5), 30));
  go_on.open();
  for (const auto& [heard, length] : {std::pair(a, 3), std::pair(b, 4)}) {
    const Finish finish = heard.wait();
    EXPECT_EQ(finish.reason, FinishReason::kAbort);
    EXPECT_EQ(finish.message, "the engine failed: the device fell off the bus");
    const Ids said = heard.tokens();
    EXPECT_GT(std::ssize(said), 0);
    EXPECT_EQ(said, answer(prompt(length), static_cast<int32_t>(said.size())));
  }
  expect_end(waiting, FinishReason::kLength);
  EXPECT_EQ(waiting.tokens(), answer(prompt(5), 30));
  const auto stats = wait_for_stats([](const GeneratorStats& s) { return s.requests_total == 3; });
  EXPECT_EQ(stats.aborted_total, 2);
}

TEST_F(SchedulerTest, AnyExceptionOfAStepEndsOnlyItsRequests) {
  start({});
  stepper().on_step = [](const engine::StepPlan&, int step) {
    if (step == 2) throw std::out_of_range("a surprise");
  };
  const Finish finish = submit(request(prompt(5), 50)).wait();
  EXPECT_EQ(finish.reason, FinishReason::kAbort);
  EXPECT_EQ(finish.message, "the engine failed: a surprise");
  expect_end(submit(request(prompt(5), 5)), FinishReason::kLength);
}

TEST_F(SchedulerTest, AFailureWhileAPromptIsRead) {
  start({.fake = {.max_rows = 8}});
  stepper().on_step = [](const engine::StepPlan&, int step) {
    if (step == 2) fail("no memory");
  };
  const Listener reading = submit(request(prompt(50), 5));
  const Finish finish = reading.wait();
  EXPECT_EQ(finish.reason, FinishReason::kAbort);
  EXPECT_THAT(finish.message, HasSubstr("no memory"));
  EXPECT_TRUE(reading.tokens().empty());
  const Listener after = submit(request(prompt(20), 5));
  expect_end(after, FinishReason::kLength);
  EXPECT_EQ(after.tokens(), answer(prompt(20), 5));
}

// ---- the end ----

TEST_F(SchedulerTest, DrainWaitsForWhatRuns) {
  start({.running = 1});
  const Listener a = submit(request(prompt(3), 60)), b = submit(request(prompt(4), 60));
  scheduler().drain(std::chrono::seconds(30));
  EXPECT_TRUE(a.finished());
  EXPECT_TRUE(b.finished());
  expect_end(a, FinishReason::kLength);
  EXPECT_EQ(b.tokens(), answer(prompt(4), 60));
  EXPECT_EQ(refusal(request(prompt(3), 5)), "the server is shutting down");
}

TEST_F(SchedulerTest, ImpatientDrainAborts) {
  start({.running = 1});
  Gate reached;
  take_time(2, reached);
  const Listener a = submit(request(prompt(3), 150)), b = submit(request(prompt(4), 150));
  reached.pass();
  scheduler().drain(std::chrono::milliseconds(0));
  EXPECT_EQ(a.wait().reason, FinishReason::kAbort);
  EXPECT_EQ(b.wait().reason, FinishReason::kAbort);
  EXPECT_LT(std::ssize(a.tokens()), 150);
}

TEST_F(SchedulerTest, DrainOfNothingReturns) {
  start({});
  scheduler().drain(std::chrono::seconds(30));
  EXPECT_EQ(refusal(request(prompt(3), 5)), "the server is shutting down");
}

TEST_F(SchedulerTest, TheDestructorEndsEveryRequest) {
  start({.running = 2});
  Gate reached;
  take_time(1, reached);
  std::vector<Listener> heard;
  for (int32_t i = 0; i < 3; ++i) heard.push_back(submit(request(prompt(3, i), 150)));
  reached.pass();
  heard.push_back(submit(request(prompt(3, 9), 150)));  // perhaps not even taken in yet
  stop();
  for (const Listener& one : heard) {
    ASSERT_TRUE(one.finished());
    const Finish finish = one.wait();
    EXPECT_EQ(finish.reason, FinishReason::kAbort);
    EXPECT_EQ(finish.message, "the server is shutting down");
  }
}

TEST_F(SchedulerTest, StatsAddUp) {
  start({.fake = {.block_tokens = 4}});
  EXPECT_EQ(scheduler().stats().total_slots, 64 * 4);
  EXPECT_EQ(scheduler().stats().draft_block_tokens, 4);
  Gate reached, go_on;
  hold_step(2, reached, go_on);
  std::vector<Listener> heard;
  for (int32_t i = 0; i < 3; ++i) heard.push_back(submit(request(prompt(5, i), 20)));
  reached.pass();
  EXPECT_GT(scheduler().stats().used_slots, 0);
  EXPECT_GT(scheduler().stats().running_requests, 0);
  go_on.open();
  Usage sum;
  for (const Listener& one : heard) {
    one.wait();
    sum.completion_tokens += one.usage().completion_tokens;
    sum.verify_steps += one.usage().verify_steps;
    sum.drafted_tokens += one.usage().drafted_tokens;
    sum.accepted_tokens += one.usage().accepted_tokens;
  }
  const auto stats =
      wait_for_stats([](const GeneratorStats& s) { return s.requests_total == 3 && s.running_requests == 0; });
  EXPECT_EQ(stats.prompt_tokens_total, 15);
  EXPECT_EQ(stats.generated_tokens_total, sum.completion_tokens);
  EXPECT_EQ(stats.generated_tokens_total, 60);
  EXPECT_EQ(stats.verify_steps_total, sum.verify_steps);
  EXPECT_EQ(stats.drafted_tokens_total, sum.drafted_tokens);
  EXPECT_EQ(stats.accepted_tokens_total, sum.accepted_tokens);
  EXPECT_EQ(stats.aborted_total, 0);
  EXPECT_EQ(stats.used_slots, 0);
}

TEST_F(SchedulerTest, StepsAreTimedWhileAProfileIsOn) {
  TraceRecorder recorder;
  start({.trace = &recorder});
  std::vector<bool> timed;
  stepper().on_step = [&](const engine::StepPlan& plan, int) { timed.push_back(plan.timed); };
  submit(request(prompt(3), 2)).wait();
  ASSERT_TRUE(recorder.start({.folder = testing::TempDir(), .run = "scheduler_test", .steps = 2}).ok());
  submit(request(prompt(5, 20), 4)).wait();
  stop();
  EXPECT_EQ(timed, (std::vector<bool>{false, false, true, true, false, false}));
}

using SchedulerDeathTest = SchedulerTest;

TEST_F(SchedulerDeathTest, AStepMustHoldEveryRunningBlock) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(start({.fake = {.block_tokens = 8, .max_rows = 31}, .running = 4}),
               "4 requests of 8 rows in steps of 31");
}

}  // namespace
}  // namespace strobe::schedule
