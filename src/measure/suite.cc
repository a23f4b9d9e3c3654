#include "measure/suite.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"

namespace strobe::measure {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string whole_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Result<SuiteNeeds> parse_needs(const JsonFields& fields) {
  SuiteNeeds needs;
  STROBE_ASSIGN(needs.gpus, fields.get_or<int64_t>("gpus", 0, {.min = 0, .max = 4096}));
  STROBE_ASSIGN(needs.gpu, fields.get_or<std::string>("gpu", ""));
  STROBE_ASSIGN(auto folders, fields.list_if<std::string>("folders"));
  STROBE_ASSIGN(auto files, fields.list_if<std::string>("files"));
  needs.folders = folders.value_or(std::vector<std::string>{});
  needs.files = files.value_or(std::vector<std::string>{});
  return needs;
}

Result<void> refuse_unknown(const json& object, const JsonFields& fields,
                            std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::find(known, name) == known.end()) return fields.refuse(name, "no field of that name");
  }
  return {};
}

}  // namespace

Result<SuiteTest> parse_suite_test(const std::string& text, const std::string& where) {
  STROBE_ASSIGN(const json object, parse_json(text, where));
  STROBE_ASSIGN(const JsonFields fields, JsonFields::of(object, where));
  STROBE_TRY(refuse_unknown(object, fields,
                            {"name", "suites", "est_time", "nightly", "needs", "server", "performance", "accuracy"}));
  SuiteTest test;
  STROBE_ASSIGN(test.name, fields.get<std::string>("name"));
  STROBE_ASSIGN(test.est_time, fields.get<double>("est_time", {.min = 1, .max = 1e6}));
  STROBE_ASSIGN(test.nightly, fields.get_or<bool>("nightly", false));
  STROBE_ASSIGN(const auto needs, fields.object_if("needs"));
  if (needs) {
    STROBE_ASSIGN(test.needs, parse_needs(*needs));
  }
  STROBE_ASSIGN(const JsonFields suites, fields.object("suites"));
  for (const auto& [suite, value] : object["suites"].items()) {
    STROBE_ASSIGN(const JsonFields own, suites.object(suite));
    STROBE_ASSIGN(test.suites[suite], parse_needs(own));
  }
  if (test.suites.empty()) return fields.refuse("suites", "at least one suite: {\"ci-cpu\": {}}");
  STROBE_ASSIGN(test.server, fields.list<std::string>("server"));
  STROBE_ASSIGN(auto performance, fields.list_if<std::string>("performance"));
  STROBE_ASSIGN(auto accuracy, fields.list_if<std::string>("accuracy"));
  if (!performance && !accuracy) return error("{}: needs performance, accuracy or both: what the test does", where);
  test.performance = performance.value_or(std::vector<std::string>{});
  test.accuracy = accuracy.value_or(std::vector<std::string>{});
  return test;
}

Result<std::vector<SuiteTest>> read_suite_tests(const std::string& folder) {
  std::error_code problem;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end; entry.increment(problem)) {
    if (entry->path().extension() == ".json") files.push_back(entry->path());
  }
  if (problem) return error("--suite-dir {}: cannot be read: {}", folder, problem.message());
  std::ranges::sort(files);
  std::vector<SuiteTest> tests;
  for (const fs::path& file : files) {
    STROBE_ASSIGN(SuiteTest test, parse_suite_test(whole_file(file), file.string()));
    for (const SuiteTest& other : tests) {
      if (other.name == test.name) return error("{}: a test '{}' exists already", file.string(), test.name);
    }
    tests.push_back(std::move(test));
  }
  if (tests.empty()) return error("--suite-dir {}: no *.json in it", folder);
  return tests;
}

Result<Partition> parse_partition(const std::string& text) {
  Partition partition;
  const size_t slash = text.find('/');
  const char* end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, partition.index);
  const bool whole = slash != std::string::npos && index.ptr == text.data() + slash;
  const auto count = whole ? std::from_chars(index.ptr + 1, end, partition.count) : index;
  if (!whole || index.ec != std::errc() || count.ec != std::errc() || count.ptr != end || partition.count < 1 ||
      partition.index < 0 || partition.index >= partition.count) {
    return error("--partition '{}': accepted: I/N with I from 0 to N - 1", text);
  }
  return partition;
}

std::vector<const SuiteTest*> partition(std::vector<const SuiteTest*> tests, const Partition& which) {
  std::ranges::stable_sort(tests, [](const SuiteTest* a, const SuiteTest* b) {
    return a->est_time != b->est_time ? a->est_time > b->est_time : a->name < b->name;
  });
  std::vector<double> times(static_cast<size_t>(which.count), 0.0);
  std::vector<const SuiteTest*> mine;
  for (const SuiteTest* test : tests) {
    const auto least = std::ranges::min_element(times);
    *least += test->est_time;
    if (least - times.begin() == which.index) mine.push_back(test);
  }
  return mine;
}

std::vector<std::string> gpus_of_machine(const std::string& driver_folder) {
  std::vector<std::string> gpus;
  std::error_code problem;
  for (fs::directory_iterator entry(driver_folder, problem), end; !problem && entry != end; entry.increment(problem)) {
    std::ifstream file(entry->path() / "information");
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("Model:")) continue;
      const size_t begin = line.find_first_not_of(" \t", 6);
      gpus.push_back(begin == std::string::npos ? "" : line.substr(begin));
    }
  }
  return gpus;
}

std::vector<std::string> unmet_needs(const SuiteNeeds& needs, const std::vector<std::string>& gpus,
                                     const std::string& root) {
  std::vector<std::string> unmet;
  const auto fitting =
      std::ranges::count_if(gpus, [&](const std::string& gpu) { return gpu.find(needs.gpu) != std::string::npos; });
  if (fitting < needs.gpus) {
    unmet.push_back(fmt::format("{} GPU{}{} (this machine has {})", needs.gpus, needs.gpus == 1 ? "" : "s",
                                needs.gpu.empty() ? "" : " of type " + needs.gpu, fitting));
  }
  std::error_code ignored;
  for (const std::string& folder : needs.folders) {
    if (!fs::is_directory(fs::path(root) / folder, ignored))
      unmet.push_back(fmt::format("{} (no such folder)", folder));
  }
  for (const std::string& file : needs.files) {
    if (!fs::is_regular_file(fs::path(root) / file, ignored)) unmet.push_back(fmt::format("{} (no such file)", file));
  }
  return unmet;
}

}  // namespace strobe::measure
