// Registers a visited field list (options.h) with CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "tool/options.h"

namespace strobe::tool {

class CommandLine {
 public:
  explicit CommandLine(CLI::App& app) : app_(app) {}

  template <class T>
  void operator()(const char* names, T& field, const char* help) {
    app_.add_option(names, field, help)->capture_default_str();
  }
  void operator()(const char* names, bool& field, const char* help) { app_.add_flag(names, field, help); }

 private:
  CLI::App& app_;
};

// Fills in the embedded model where no model was named: the target, and with it its draft.
void default_to_pocket(EngineOptions& options);

}  // namespace strobe::tool
