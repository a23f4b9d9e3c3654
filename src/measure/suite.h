// Suites: combined tests registered as JSON files, one a test, and what this machine must have to run them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace strobe::measure {

struct SuiteNeeds {
  int64_t gpus = 0;
  std::string gpu;                   // part of the model's name; empty: any
  std::vector<std::string> folders;  // of weights; relative ones below the tests' root
  std::vector<std::string> files;
};

struct SuiteTest {
  std::string name;
  std::map<std::string, SuiteNeeds> suites;  // the suites it belongs to
  double est_time = 0;                       // seconds
  bool nightly = false;
  SuiteNeeds needs;                      // in every suite
  std::vector<std::string> server;       // flags of `strobe serve`
  std::vector<std::string> performance;  // flags of `strobe bench serve`; empty: not measured
  std::vector<std::string> accuracy;     // flags of `strobe eval gsm8k`
};

Result<SuiteTest> parse_suite_test(const std::string& text, const std::string& where);
// All *.json files of a folder, by name. Errors name file and field; two tests of one name are refused.
Result<std::vector<SuiteTest>> read_suite_tests(const std::string& folder);

struct Partition {
  int64_t index = 0;
  int64_t count = 1;
};
// "i/n" with 0 <= i < n.
Result<Partition> parse_partition(const std::string& text);
// The tests of one partition: longest first, each to the partition with the least time so far.
[[nodiscard]] std::vector<const SuiteTest*> partition(std::vector<const SuiteTest*> tests, const Partition& which);

// GPU models of this machine, by the NVIDIA driver's own list; empty without one.
[[nodiscard]] std::vector<std::string> gpus_of_machine(const std::string& driver_folder = "/proc/driver/nvidia/gpus");
// "8 GPUs of type B200 (this machine has 0)", ...: what is missing; empty when nothing is.
[[nodiscard]] std::vector<std::string> unmet_needs(const SuiteNeeds& needs, const std::vector<std::string>& gpus,
                                                   const std::string& root);

}  // namespace strobe::measure
