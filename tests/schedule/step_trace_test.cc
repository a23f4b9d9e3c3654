// Which spans a step gives.
#include "schedule/step_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>

#include "../text/scratch_folder.h"

namespace strobe::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<int32_t> kTokens = {1, 2, 3};

engine::StepSequence fed(size_t count, int32_t first_position, int32_t prompt_tokens) {
  return {.tokens = std::span(kTokens).first(count), .first_position = first_position, .prompt_tokens = prompt_tokens};
}

std::vector<std::string> names(const std::vector<TraceSpan>& spans) {
  std::vector<std::string> list;
  for (const TraceSpan& span : spans) list.push_back(std::string(to_string(span.stage)) + " " + span.name);
  return list;
}

TEST(StepSpans, ADraftedStep) {
  const engine::StepPlan plan{{fed(1, 10, 10), fed(1, 12, 10)}};
  const engine::StepResult result{.outputs = {{.tokens = {1, 2, 3}, .drafted = 7, .accepted = 2}, {.tokens = {1}}},
                                  .times = {.draft_ms = 1, .target_ms = 2, .accept_ms = 3, .commit_ms = 4}};
  const auto begin = TraceSpan::Clock::now();
  const auto spans = step_spans(plan, result, begin);
  EXPECT_THAT(names(spans), ElementsAre("decode draft", "decode verify", "decode accept", "decode commit"));
  EXPECT_EQ(spans[0].sequences, 2);
  EXPECT_EQ(spans[0].rows, 9);
  EXPECT_EQ(spans[0].accepted, 2);
  EXPECT_EQ(spans[3].begin - begin, std::chrono::milliseconds(6));
}

TEST(StepSpans, ADevicesStagesAreARowOfTheirOwn) {
  const engine::StepPlan plan{{fed(1, 10, 10)}};
  engine::StepResult result{.outputs = {{.tokens = {1, 2}, .drafted = 7, .accepted = 1}},
                            .times = {.draft_ms = 1, .target_ms = 2, .accept_ms = 1, .commit_ms = 4}};
  result.times.device = {.draft = {0.5, 0.25}, .target = {1, 1.5}, .commit = {4, 3}};
  const auto begin = TraceSpan::Clock::now();
  const auto spans = step_spans(plan, result, begin);
  ASSERT_THAT(names(spans), ElementsAre("decode draft", "decode verify", "decode accept", "decode commit",
                                        "decode draft", "decode verify", "decode commit"));
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].row, i < 4 ? TraceRow::kEngine : TraceRow::kStream) << i;
    EXPECT_EQ(spans[i].rows, 8);
  }
  EXPECT_EQ(spans[5].begin - begin, std::chrono::milliseconds(1));
  EXPECT_EQ(spans[5].ms, 1.5);
}

TEST(StepSpans, ARecordedStepIsOneSpanToTheHost) {
  const engine::StepPlan plan{{fed(1, 10, 10)}};
  engine::StepResult result{
      .outputs = {{.tokens = {1, 2}, .drafted = 7, .accepted = 1}},
      .times = {.draft_ms = 1, .target_ms = 2, .accept_ms = 0.5, .commit_ms = 1, .recorded_ms = 5}};
  EXPECT_THAT(names(step_spans(plan, result, {})), ElementsAre("decode step"));
  result.times.device = {.draft = {0.25, 1}, .target = {1.25, 2}, .accept = {3.25, 0.5}, .commit = {3.75, 1}};
  const auto spans = step_spans(plan, result, {});
  ASSERT_THAT(names(spans),
              ElementsAre("decode step", "decode draft", "decode verify", "decode accept", "decode commit"));
  EXPECT_EQ(spans[0].row, TraceRow::kEngine);
  EXPECT_EQ(spans[0].ms, 5);
  EXPECT_EQ(spans[1].row, TraceRow::kStream);
}

TEST(StepSpans, ReadingPromptsIsPrefill) {
  const engine::StepResult result{.outputs = {{}}, .times = {.target_ms = 2, .commit_ms = 1}};
  EXPECT_THAT(names(step_spans({{fed(3, 0, 5)}}, result, {})), ElementsAre("prefill prefill", "prefill commit"));
  EXPECT_THAT(names(step_spans({{fed(1, 4, 5)}}, result, {})), ElementsAre("prefill prefill", "prefill commit"));
  EXPECT_THAT(names(step_spans({{fed(1, 5, 5)}}, result, {})), ElementsAre("decode decode", "decode commit"));
}

TEST(StepTraceTest, RecordsWhileTheRecorderIsOn) {
  const testing::ScratchFolder folder;
  TraceRecorder recorder;
  StepTrace nothing(nullptr);
  EXPECT_FALSE(nothing.on());
  StepTrace trace(&recorder);
  EXPECT_FALSE(trace.on());
  ASSERT_TRUE(recorder.start({.folder = folder.path(), .run = "r", .steps = 1}).ok());
  EXPECT_TRUE(trace.on());
  trace.begin();
  trace.end({{fed(1, 5, 5)}}, {.outputs = {{}}, .times = {.target_ms = 2}});
  EXPECT_FALSE(trace.on());
  EXPECT_THAT(recorder.stop()->summary, HasSubstr("decode"));
}

TEST(StepTraceTest, TheTimeBetweenStepsIsTheSchedulersUnlessThereIsNothingToDo) {
  const testing::ScratchFolder folder;
  const auto summary = [&](bool idle) {
    TraceRecorder recorder;
    EXPECT_TRUE(recorder.start({.folder = folder.path(), .run = "r"}).ok());
    StepTrace trace(&recorder);
    for (int i = 0; i < 2; ++i) {
      trace.begin();
      trace.end({{fed(1, 5, 5)}}, {.outputs = {{}}, .times = {.target_ms = 2}});
      if (idle) trace.pause();
    }
    return recorder.stop()->summary;
  };
  EXPECT_THAT(summary(false), HasSubstr("scheduler"));
  EXPECT_THAT(summary(true), Not(HasSubstr("scheduler")));
}

}  // namespace
}  // namespace strobe::schedule
