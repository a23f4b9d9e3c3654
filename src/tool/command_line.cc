#include "tool/command_line.h"

#include <CLI/CLI.hpp>
#include <map>
#include <utility>

namespace strobe::tool {
namespace {

template <class T>
void add_option(CLI::App& app, const char* names, T& field, const char* help) {
  app.add_option(names, field, help)->capture_default_str();
}

// The parser of a subcommand; of two words the first is a group that holds the second.
CLI::App* add_parser(CLI::App& app, const Subcommand& subcommand, std::map<std::string, CLI::App*>& groups) {
  const size_t space = subcommand.name.find(' ');
  if (space == std::string::npos) return app.add_subcommand(subcommand.name, subcommand.help);
  CLI::App*& group = groups[subcommand.name.substr(0, space)];
  if (group == nullptr) {
    group = app.add_subcommand(subcommand.name.substr(0, space), "");
    group->require_subcommand(1);
  }
  const std::string words = group->get_description();
  group->description(words.empty() ? subcommand.help : words + "; " + subcommand.help);
  return group->add_subcommand(subcommand.name.substr(space + 1), subcommand.help);
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
void OptionAdder::operator()(const char* names, std::vector<int32_t>& field, const char* help) {
  add_option(app_, names, field, help);
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
  std::map<std::string, CLI::App*> groups;
  std::vector<std::pair<const CLI::App*, int>> usage_errors;
  for (const Subcommand& subcommand : subcommands) {
    CLI::App* parser = add_parser(app, subcommand, groups);
    usage_errors.emplace_back(parser, subcommand.usage_error);
    OptionAdder adder(*parser);
    subcommand.add_options(adder);
    parser->callback([&chosen, &subcommand] { chosen = &subcommand; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (app.exit(e) == 0) return 0;
    for (const auto& [parser, code] : usage_errors) {
      if (parser->parsed()) return code;
    }
    return 1;
  }
  return chosen->run();
}

}  // namespace strobe::tool
