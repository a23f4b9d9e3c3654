// The command line: subcommands with visited field lists (options.h). Only command_line.cc knows CLI11, which costs 20
// s a file to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tool/options.h"

namespace CLI {
class App;
}

namespace strobe::tool {

// A visitor that makes each field an option of a subcommand; a bool is a flag, a list takes several values, and a name
// without dashes is a place of its own on the line. Defaults are the fields' values.
class OptionAdder {
 public:
  explicit OptionAdder(CLI::App& app) : app_(app) {}
  void operator()(const char* names, std::string& field, const char* help);
  void operator()(const char* names, int32_t& field, const char* help);
  void operator()(const char* names, int64_t& field, const char* help);
  void operator()(const char* names, double& field, const char* help);
  void operator()(const char* names, bool& field, const char* help);
  void operator()(const char* names, std::vector<int32_t>& field, const char* help);

 private:
  CLI::App& app_;
};

struct Subcommand {
  std::string name;  // "serve", or two words: "eval gsm8k"
  std::string help;
  std::function<void(OptionAdder&)> add_options;
  std::function<int()> run;  // after parsing; gives the exit code
  int usage_error = 1;       // the exit code for a command line that cannot be parsed
};

// Parses and runs. Exit codes: 0 done, a subcommand's usage_error (1 when none was reached), else the subcommand's.
int run_command_line(int argc, char** argv, const std::vector<Subcommand>& subcommands);

// docs/FLAGS.md: the flags of every subcommand, those that all share once.
[[nodiscard]] std::string flags_markdown(const std::vector<Subcommand>& subcommands);

// Fills in the embedded model where no model was named: the target, and with it its draft.
void default_to_pocket(EngineOptions& options);

}  // namespace strobe::tool
