// strobe: serves large language models with DFlash speculative decoding.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "base/failure.h"
#include "tool/commands.h"

namespace strobe::tool {

int user_error(const std::string& message) {
  std::fprintf(stderr, "strobe: %s\n", message.c_str());
  return 1;
}

namespace {

int run(int argc, char** argv) {
  CLI::App app{
      "Strobe serves large language models with DFlash speculative decoding.\n"
      "Without a --model-path, commands use the small model that comes with the program.",
      "strobe"};
  app.set_version_flag("--version", "strobe " STROBE_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(58);
  Command chosen;
  add_serve(app, chosen);
  add_generate(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 1;
  }
  return chosen();
}

}  // namespace
}  // namespace strobe::tool

int main(int argc, char** argv) {
  try {
    return strobe::tool::run(argc, argv);
  } catch (const std::exception& failure) {  // Failure, or the standard library's word for no memory
    std::fprintf(stderr, "strobe: %s\n", failure.what());
    return 2;
  }
}
