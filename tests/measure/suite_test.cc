// Registered tests: their files, partitions and needs.
#include "measure/suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

#include "../text/scratch_folder.h"
#include "measure/process.h"
#include "source_dir.h"

namespace strobe::measure {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string words(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& word : list) text += (text.empty() ? "" : " ") + word;
  return text;
}

const SuiteTest& named(const std::vector<SuiteTest>& tests, const std::string& name) {
  for (const SuiteTest& test : tests) {
    if (test.name == name) return test;
  }
  throw std::runtime_error("no test " + name);
}

TEST(RegisteredSuites, TheNightlyTestIsThePublishedOne) {
  const auto tests = read_suite_tests(source_dir() / "suites");
  ASSERT_TRUE(tests.ok()) << tests.message();
  const SuiteTest& test = named(*tests, "kimi_k26_nvfp4_dflash");
  EXPECT_TRUE(test.nightly);
  EXPECT_EQ(test.est_time, 3600);
  EXPECT_TRUE(test.suites.contains("nightly-8-gpu-b200"));
  EXPECT_EQ(test.needs.gpus, 8);
  EXPECT_EQ(
      words(test.server),
      "--model-path nvidia/Kimi-K2.6-NVFP4 --trust-remote-code --tp 8 --quantization modelopt_fp4 "
      "--moe-runner-backend flashinfer_trtllm --fp4-gemm-backend flashinfer_cutlass --attention-backend trtllm_mla "
      "--kv-cache-dtype fp8_e4m3 --mem-fraction-static 0.85 --speculative-algorithm DFLASH "
      "--speculative-draft-model-path nvidia/Kimi-K2.6-DFlash --speculative-draft-model-quantization unquant "
      "--speculative-num-draft-tokens 8 --speculative-draft-attention-backend fa4 "
      "--speculative-draft-window-size 4096 --max-running-requests=16");
  EXPECT_THAT(words(test.performance), AllOf(HasSubstr("--batch-size 1 8 16 "), HasSubstr("threshold 2.0")));
  EXPECT_THAT(words(test.accuracy), AllOf(HasSubstr("--baseline 0.92 --num-examples 200 --api completion")));
  // Without the GPUs it is never run.
  EXPECT_THAT(unmet_needs(test.needs, {}, source_dir()), Contains(HasSubstr("8 GPUs of type B200")));
}

TEST(RegisteredSuites, ThePocketTestRunsHere) {
  const auto tests = read_suite_tests(source_dir() / "suites");
  ASSERT_TRUE(tests.ok()) << tests.message();
  const SuiteTest& test = named(*tests, "pocket_k2_nvfp4_dflash");
  EXPECT_THAT(unmet_needs(test.needs, {}, source_dir()), IsEmpty());
  EXPECT_THAT(unmet_needs(test.suites.at("ci-cpu"), {}, source_dir()), IsEmpty());
  EXPECT_THAT(unmet_needs(test.suites.at("ci-h200"), {"NVIDIA B200"}, source_dir()),
              ElementsAre("1 GPU of type H200 (this machine has 0)"));
  EXPECT_THAT(unmet_needs(test.suites.at("ci-h200"), {"NVIDIA H200"}, source_dir()), IsEmpty());
}

TEST(SuiteFile, ErrorsNameTheField) {
  const auto refusal = [](const std::string& text) {
    const auto test = parse_suite_test(text, "t.json");
    return test.ok() ? "" : test.message();
  };
  const std::string good = R"("name": "t", "suites": {"s": {}}, "est_time": 5, "server": [])";
  EXPECT_EQ(refusal("{" + good + R"(, "accuracy": ["--x"]})"), "");
  EXPECT_THAT(refusal("{" + good + "}"), HasSubstr("performance, accuracy or both"));
  EXPECT_THAT(refusal("{" + good + R"(, "accuracy": [1]})"), AllOf(HasSubstr("t.json"), HasSubstr("accuracy")));
  EXPECT_THAT(refusal("{" + good + R"(, "performace": []})"), HasSubstr("performace"));
  EXPECT_THAT(refusal(R"({"name": "t", "suites": {}, "est_time": 5, "server": [], "accuracy": []})"),
              HasSubstr("at least one suite"));
}

TEST(Partition, LongestFirst) {
  std::vector<SuiteTest> tests(5);
  const double times[] = {5, 3, 9, 4, 4};
  std::vector<const SuiteTest*> all;
  for (size_t i = 0; i < tests.size(); ++i) {
    tests[i].name = std::string(1, static_cast<char>('a' + i));
    tests[i].est_time = times[i];
    all.push_back(&tests[i]);
  }
  const auto names = [&](const std::string& which) {
    std::string text;
    for (const SuiteTest* test : partition(all, *parse_partition(which))) text += test->name;
    return text;
  };
  EXPECT_EQ(names("0/1"), "cadeb");
  EXPECT_EQ(names("0/2"), "ce");   // 9, then 4
  EXPECT_EQ(names("1/2"), "adb");  // 5, 4, 3
  EXPECT_EQ(names("5/6"), "");
  for (const char* wrong : {"", "1", "1/1", "-1/2", "a/2", "1/2x", "0/0"}) {
    EXPECT_THAT(parse_partition(wrong).message(), HasSubstr("accepted: I/N")) << wrong;
  }
}

TEST(Gpus, AreThoseTheDriverLists) {
  const strobe::testing::ScratchFolder folder;
  std::filesystem::create_directories(folder.path() / "0000:01:00.0");
  folder.write("0000:01:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 7\n");
  EXPECT_THAT(gpus_of_machine(folder.path()), ElementsAre("NVIDIA H200"));
  EXPECT_THAT(gpus_of_machine(folder.path() / "none"), IsEmpty());
}

TEST(RunProgram, GivesTheExitCode) {
  const std::atomic<bool> stop = false;
  const strobe::testing::ScratchFolder folder;
  EXPECT_EQ(run_program({"/bin/sh", "-c", "exit 3"}, "/", stop), 3);
  EXPECT_EQ(run_program({"/bin/sh", "-c", "test $PWD = " + folder.path().string()}, folder.path(), stop), 0);
  EXPECT_EQ(run_program({"/nothing"}, "/", stop), 127);
  const std::atomic<bool> stopped = true;
  EXPECT_EQ(run_program({"/bin/sleep", "1000"}, "/", stopped), 128 + 15);
}

}  // namespace
}  // namespace strobe::measure
