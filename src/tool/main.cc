// strobe: serves large language models with DFlash speculative decoding.
#include <cstdio>
#include <exception>

#include "tool/commands.h"

int main(int argc, char** argv) {
  try {
    return strobe::tool::run_command_line(argc, argv, strobe::tool::all_commands());
  } catch (const std::exception& failure) {  // Failure, or the standard library's word for no memory
    std::fprintf(stderr, "strobe: %s\n", failure.what());
    return 2;
  }
}
