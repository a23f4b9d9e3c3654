// The form that all measuring commands have.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "tool/commands.h"
#include "tool/measured_server.h"

namespace strobe::tool {

// A subcommand with options of its own: `work` gives the exit code, `visit` shows the options to the command line.
template <class Options>
[[nodiscard]] Subcommand measuring_command(
    std::string name, std::string help, int (*work)(const Options&),
    void (*visit)(Options&, OptionAdder&) = [](Options& options, OptionAdder& add) { options.visit(add); }) {
  auto options = std::make_shared<Options>();
  return {.name = std::move(name),
          .help = std::move(help),
          .add_options = [options, visit](OptionAdder& add) { visit(*options, add); },
          .run = [options, work] { return measuring([&] { return work(*options); }); },
          .usage_error = kUsageError};
}

}  // namespace strobe::tool
