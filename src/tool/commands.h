// The subcommands of `strobe`. Each adds itself to the command line; its work runs after parsing and gives the exit
// code: 0 done, 1 the user's mistake, 2 the environment's failure.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace strobe::tool {

using Command = std::function<int()>;

// Each sets `chosen` when its subcommand was given.
void add_generate(CLI::App& app, Command& chosen);
void add_serve(CLI::App& app, Command& chosen);

// Prints "strobe: message" to standard error and gives 1.
int user_error(const std::string& message);

}  // namespace strobe::tool
