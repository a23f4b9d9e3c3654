// strobe: serves large language models with DFlash speculative decoding.
#include <cstdio>
#include <exception>

#include "tool/commands.h"

int main(int argc, char** argv) {
  try {
    using namespace strobe::tool;
    return run_command_line(argc, argv,
                            {serve_command(), generate_command(), inspect_command(), eval_command(), bench_command(),
                             suite_list_command(), suite_run_command()});
  } catch (const std::exception& failure) {  // Failure, or the standard library's word for no memory
    std::fprintf(stderr, "strobe: %s\n", failure.what());
    return 2;
  }
}
