#include "tool/command_line.h"

#include <CLI/CLI.hpp>

namespace strobe::tool {
namespace {

template <class T>
void add_option(CLI::App& app, const char* names, T& field, const char* help) {
  app.add_option(names, field, help)->capture_default_str();
}

}  // namespace

void OptionAdder::operator()(const char* names, std::string& field, const char* help) {
  add_option(app_, names, field, help);
}
void OptionAdder::operator()(const char* names, int32_t& field, const char* help) {
  add_option(app_, names, field, help);
}
void OptionAdder::operator()(const char* names, int64_t& field, const char* help) {
  add_option(app_, names, field, help);
}
void OptionAdder::operator()(const char* names, double& field, const char* help) {
  add_option(app_, names, field, help);
}
void OptionAdder::operator()(const char* names, bool& field, const char* help) {
  app_.add_flag(names, field, help);
}

int run_command_line(int argc, char** argv, const std::vector<Subcommand>& subcommands) {
  CLI::App app{
      "Strobe serves large language models with DFlash speculative decoding.\n"
      "Without a --model-path, commands use the small model that comes with the program.",
      "strobe"};
  app.set_version_flag("--version", "strobe " STROBE_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(58);
  const Subcommand* chosen = nullptr;
  for (const Subcommand& subcommand : subcommands) {
    CLI::App* parser = app.add_subcommand(subcommand.name, subcommand.help);
    OptionAdder adder(*parser);
    subcommand.add_options(adder);
    parser->callback([&chosen, &subcommand] { chosen = &subcommand; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 1;
  }
  return chosen->run();
}

}  // namespace strobe::tool
