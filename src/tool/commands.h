// The subcommands of `strobe`.
#pragma once

#include <string>

#include "base/result.h"
#include "tool/command_line.h"

namespace strobe::tool {

[[nodiscard]] Subcommand serve_command();
[[nodiscard]] Subcommand generate_command();
[[nodiscard]] Subcommand inspect_command();

// The exit code of a command's work; an Error is printed to standard error as "strobe: message" and gives 1.
[[nodiscard]] int exit_code(const Result<int>& result);

}  // namespace strobe::tool
