#include "base/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "../text/scratch_folder.h"

namespace strobe {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TraceSpan span(TraceStage stage, const char* name, double ms, int32_t sequences) {
  return {.stage = stage, .name = name, .begin = TraceSpan::Clock::now(), .ms = ms, .sequences = sequences};
}

TEST(Trace, FilesAreNamedByRunBatchAndStage) {
  const testing::ScratchFolder folder;
  TraceRecorder recorder;
  EXPECT_FALSE(recorder.on());
  ASSERT_TRUE(recorder.start({.folder = folder.path(), .run = "r"}).ok());
  EXPECT_TRUE(recorder.on());
  recorder.add_step({span(TraceStage::kPrefill, "prefill", 2, 1)});
  recorder.add_step({span(TraceStage::kDecode, "draft", 1, 8), span(TraceStage::kDecode, "verify", 3, 8)});
  const auto files = recorder.stop();
  ASSERT_TRUE(files.ok()) << files.message();
  EXPECT_FALSE(recorder.on());
  const std::string stem = folder.path() / "r-bs8-";
  EXPECT_THAT(files->paths, ElementsAre(stem + "prefill.rank0.trace.json", stem + "decode.rank0.trace.json"));
  std::ifstream file(files->paths[1]);
  const json trace = json::parse(file);
  std::vector<std::string> names;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") names.push_back(event["name"]);
  }
  EXPECT_THAT(names, ElementsAre("draft", "verify"));
  EXPECT_THAT(files->summary, AllOf(HasSubstr("draft"), HasSubstr("25.0%"), HasSubstr("75.0%"), HasSubstr("100.0%")));
}

TEST(Trace, EndsByItselfAfterItsSteps) {
  const testing::ScratchFolder folder;
  TraceRecorder recorder;
  ASSERT_TRUE(recorder.start({.folder = folder.path(), .run = "r", .steps = 2}).ok());
  for (int i = 0; i < 5; ++i) recorder.add_step({span(TraceStage::kDecode, "decode", 1, 1)});
  EXPECT_FALSE(recorder.on());
  const auto files = recorder.stop();
  ASSERT_TRUE(files.ok());
  EXPECT_THAT(files->summary, HasSubstr("       2        2.000"));
}

TEST(Trace, OneAtATimeAndOnlyWhereItCanBeWritten) {
  const testing::ScratchFolder folder;
  TraceRecorder recorder;
  EXPECT_THAT(recorder.stop().message(), HasSubstr("no profile"));
  EXPECT_THAT(recorder.start({.folder = folder.path() / "none", .run = "r"}).message(), HasSubstr("none/r"));
  EXPECT_FALSE(recorder.on());
  ASSERT_TRUE(recorder.start({.folder = folder.path(), .run = "r"}).ok());
  EXPECT_THAT(recorder.start({.folder = folder.path(), .run = "r"}).message(), HasSubstr("already"));
  const auto files = recorder.stop();
  ASSERT_TRUE(files.ok());
  EXPECT_TRUE(files->paths.empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ChromeTrace, TimesAreMicrosecondsFromTheStart) {
  const auto start = TraceSpan::Clock::now();
  TraceSpan one = span(TraceStage::kDecode, "verify", 1.5, 4);
  one.begin = start + milliseconds(3);
  one.accepted = 7;
  const json event = json::parse(to_chrome_trace({one}, start))["traceEvents"].back();
  EXPECT_DOUBLE_EQ(event["ts"], 3000);
  EXPECT_DOUBLE_EQ(event["dur"], 1500);
  EXPECT_EQ(event["cat"], "decode");
  EXPECT_EQ(event["args"], json({{"sequences", 4}, {"rows", 0}, {"accepted", 7}}));
}

TEST(ChromeTrace, ADevicesSpansHaveARowOfTheirOwn) {
  TraceSpan host = span(TraceStage::kDecode, "step", 4, 1), stream = span(TraceStage::kDecode, "verify", 1, 1);
  stream.row = TraceRow::kStream;
  const auto rows = [](const std::vector<TraceSpan>& spans) {
    std::vector<std::pair<int, std::string>> list;
    const json trace = json::parse(to_chrome_trace(spans, {}));
    for (const json& event : trace["traceEvents"]) {
      if (event["name"] == "thread_name") list.emplace_back(event["tid"], event["args"]["name"]);
      if (event["ph"] == "X") list.emplace_back(event["tid"], event["name"]);
    }
    return list;
  };
  using Row = std::pair<int, std::string>;
  EXPECT_THAT(rows({host}), ElementsAre(Row(0, "engine"), Row(0, "step")));
  EXPECT_THAT(rows({host, stream}),
              ElementsAre(Row(0, "engine"), Row(1, "CUDA stream"), Row(0, "step"), Row(1, "verify")));
}

// What a stream does lies inside of what the host waits for: the two are no parts of one sum.
TEST(TraceSummary, SharesAreThoseOfARow) {
  std::vector<TraceSpan> spans = {span(TraceStage::kDecode, "step", 4, 1), span(TraceStage::kDecode, "draft", 1, 1),
                                  span(TraceStage::kDecode, "verify", 2, 1)};
  spans[1].row = spans[2].row = TraceRow::kStream;
  const std::string table = trace_summary(spans);
  EXPECT_THAT(table, HasSubstr("decode   engine      step              1        4.000     4.0000  100.0%\n"));
  EXPECT_THAT(table, HasSubstr("decode   CUDA stream draft             1        1.000     1.0000   33.3%\n"));
  EXPECT_THAT(table, HasSubstr("decode   CUDA stream verify            1        2.000     2.0000   66.7%\n"));
}

}  // namespace
}  // namespace strobe
