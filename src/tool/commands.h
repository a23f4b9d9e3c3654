// The subcommands of `strobe`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tool/command_line.h"

namespace strobe::tool {

[[nodiscard]] Subcommand serve_command();
[[nodiscard]] Subcommand generate_command();
[[nodiscard]] Subcommand inspect_command();
[[nodiscard]] Subcommand eval_command();
[[nodiscard]] Subcommand bench_command();
[[nodiscard]] Subcommand bench_kernel_command();
[[nodiscard]] Subcommand bench_step_command();
[[nodiscard]] Subcommand suite_list_command();
[[nodiscard]] Subcommand suite_run_command();
// All of them, as `strobe --help` lists them.
[[nodiscard]] std::vector<Subcommand> all_commands();

// The exit code of a command's work; an Error is printed to standard error as "strobe: message" and gives 1.
[[nodiscard]] int exit_code(const Result<int>& result);
// Prints it like that and gives the code back.
int say_error(const Error& error, int code);
// Runs a measuring command; a Failure is printed and gives 3: not measured.
[[nodiscard]] int measuring(const std::function<int()>& command);

}  // namespace strobe::tool
