// strobe suite list, strobe suite run: combined tests, performance first on its own server, then accuracy on a fresh
// one.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "measure/files.h"
#include "measure/process.h"
#include "measure/suite.h"
#include "tool/commands.h"
#include "tool/interrupt.h"
#include "tool/measured_server.h"
#include "tool/measuring.h"

namespace strobe::tool {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct SuiteOptions {
  std::string suite;
  std::string partition = "0/1";
  std::string suite_dir;
  std::string output_dir = "strobe-results";

  template <class Visitor>
  void visit_common(Visitor&& v) {
    v("--suite-dir", suite_dir, "folder of the tests' *.json; default: the one that comes with the program");
  }
  template <class Visitor>
  void visit_run(Visitor&& v) {
    v("suite", suite, "its name, as `strobe suite list` shows it");
    v("--partition", partition, "I/N: only the tests of partition I of N, shared out by their estimated times");
    v("--output-dir", output_dir, "where results are written, a folder a test");
    visit_common(v);
  }
};

// Beside an installed program, or in the source tree.
std::string suite_folder(const std::string& named) {
  if (!named.empty()) return named;
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::array<fs::path, 3> places = {program / "suites", program / "../share/strobe/suites",
                                          fs::path(STROBE_SUITES_DIR)};
  for (const fs::path& place : places) {
    if (fs::is_directory(place, ignored)) return place;
  }
  return places.back();
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  return fmt::format("{}", fmt::join(words, between));
}

std::string suite_names(const std::vector<measure::SuiteTest>& tests) {
  std::set<std::string> names;
  for (const auto& test : tests) {
    for (const auto& [suite, needs] : test.suites) names.insert(suite);
  }
  return joined({names.begin(), names.end()}, ", ");
}

int list(const SuiteOptions& o) {
  const auto tests = measure::read_suite_tests(suite_folder(o.suite_dir));
  if (!tests) return say_error(tests.error(), kUsageError);
  for (const auto& test : *tests) {
    std::vector<std::string> suites;
    for (const auto& [suite, needs] : test.suites) suites.push_back(suite);
    fmt::print("{:<28} {:>6.0f} s  {}{}\n", test.name, test.est_time, joined(suites, ", "),
               test.nightly ? "  (nightly)" : "");
  }
  return kPassed;
}

class SuiteRun {
 public:
  SuiteRun(const SuiteOptions& options, const std::string& folder, const std::atomic<bool>& stop)
      : options_(options), root_(fs::weakly_canonical(folder).parent_path()), stop_(stop) {}

  void run(const measure::SuiteTest& test) {
    fmt::print("== {}\n", test.name);
    std::fflush(stdout);
    const auto start = Clock::now();
    std::vector<std::string> unmet;
    const auto gpus = measure::gpus_of_machine();
    for (const measure::SuiteNeeds& needs : {test.needs, test.suites.at(options_.suite)}) {
      for (std::string& need : measure::unmet_needs(needs, gpus, root_)) unmet.push_back(std::move(need));
    }
    if (!unmet.empty()) return end(test, kNotMeasured, "unmet: needs " + joined(unmet, ", "), start);
    int worst = kPassed;
    std::vector<std::string> parts;
    const auto part = [&](const char* name, const char* group, const char* command,
                          const std::vector<std::string>& flags) {
      if (flags.empty() || stop_) return;
      const int code = run_part(test, {group, command}, flags);
      parts.push_back(fmt::format("{} {}", name, word(code)));
      // A failure is known for certain; what could not be measured is not.
      if (worst != kBelowThreshold && code != kPassed) worst = code == kBelowThreshold ? code : kNotMeasured;
    };
    part("performance", "bench", "serve", test.performance);
    part("accuracy", "eval", "gsm8k", test.accuracy);
    if (stop_) return end(test, kNotMeasured, "stopped", start);
    end(test, worst, joined(parts, ", "), start);
  }

  [[nodiscard]] int finish() const {
    const bool whole = options_.partition == SuiteOptions().partition;
    const std::string part = whole ? "" : "-" + options_.partition;
    const std::string name = measure::safe_name(fmt::format("suite_{}{}", options_.suite, part));
    const std::string file = fs::path(options_.output_dir) / (name + ".json");
    measure::write_whole(
        file,
        nlohmann::json({{"suite", options_.suite}, {"partition", options_.partition}, {"tests", results_}}).dump(1) +
            "\n");
    fmt::print("suite {}{}: {}; {}\n", options_.suite, whole ? "" : ", partition " + options_.partition,
               results_.empty() ? "none of its tests is in this partition" : word(worst_), file);
    return worst_;
  }

 private:
  static const char* word(int code) {
    return code == kPassed ? "passed" : code == kBelowThreshold ? "FAILED" : "not measured";
  }

  int run_part(const measure::SuiteTest& test, std::vector<std::string> words, const std::vector<std::string>& flags) {
    words.insert(words.begin(), fs::read_symlink("/proc/self/exe").string());
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--output-dir", fs::absolute(fs::path(options_.output_dir) / test.name).string()});
    words.insert(words.end(), test.server.begin(), test.server.end());
    fmt::print("$ {}\n", joined(words, " "));
    std::fflush(stdout);
    return measure::run_program(words, root_, stop_);
  }

  void end(const measure::SuiteTest& test, int code, const std::string& words, Clock::time_point start) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    fmt::print("{}: {} ({}), {:.1f} s, estimated {:.0f}\n\n", test.name, word(code), words, seconds, test.est_time);
    results_.push_back({{"name", test.name}, {"result", word(code)}, {"detail", words}, {"seconds", seconds}});
    if (worst_ != kBelowThreshold && code != kPassed) worst_ = code;
  }

  const SuiteOptions& options_;
  const std::string root_;  // where relative paths of the tests begin
  const std::atomic<bool>& stop_;
  nlohmann::json results_ = nlohmann::json::array();
  int worst_ = kPassed;
};

int run(const SuiteOptions& o) {
  const std::string folder = suite_folder(o.suite_dir);
  const auto tests = measure::read_suite_tests(folder);
  if (!tests) return say_error(tests.error(), kUsageError);
  const auto which = measure::parse_partition(o.partition);
  if (!which) return say_error(which.error(), kUsageError);
  std::vector<const measure::SuiteTest*> chosen;
  for (const auto& test : *tests) {
    if (test.suites.contains(o.suite)) chosen.push_back(&test);
  }
  if (chosen.empty()) {
    return say_error(
        error("suite '{}': no test of {} belongs to it; accepted: {}", o.suite, folder, suite_names(*tests)),
        kUsageError);
  }
  if (const auto made = measure::make_folder("--output-dir", o.output_dir); !made) {
    return say_error(made.error(), kUsageError);
  }
  const Interrupt interrupt;
  SuiteRun suite(o, folder, interrupt.flag());
  for (const measure::SuiteTest* test : measure::partition(chosen, *which)) suite.run(*test);
  return suite.finish();
}

}  // namespace

Subcommand suite_list_command() {
  return measuring_command<SuiteOptions>("suite list", "show the registered tests and their suites", list,
                                         [](SuiteOptions& options, OptionAdder& add) { options.visit_common(add); });
}

Subcommand suite_run_command() {
  return measuring_command<SuiteOptions>("suite run", "run the tests of a suite", run,
                                         [](SuiteOptions& options, OptionAdder& add) { options.visit_run(add); });
}

}  // namespace strobe::tool
