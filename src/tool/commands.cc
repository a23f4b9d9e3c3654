#include "tool/commands.h"

#include <cstdio>
#include <exception>

#include "tool/measured_server.h"

namespace strobe::tool {

std::vector<Subcommand> all_commands() {
  return {serve_command(),        generate_command(),   inspect_command(),    eval_command(),     bench_command(),
          bench_kernel_command(), bench_step_command(), suite_list_command(), suite_run_command()};
}

int exit_code(const Result<int>& result) {
  return result.ok() ? result.value() : say_error(result.error(), 1);
}

int say_error(const Error& error, int code) {
  fmt::print(stderr, "strobe: {}\n", error.message);
  return code;
}

int measuring(const std::function<int()>& command) {
  try {
    return command();
  } catch (const std::exception& failure) {
    return say_error({failure.what()}, kNotMeasured);
  }
}

}  // namespace strobe::tool
