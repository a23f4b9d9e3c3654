#include "tool/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "base/nearest_name.h"

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

// A parser beside the subcommand it belongs to.
using Parsers = std::vector<std::pair<CLI::App*, const Subcommand*>>;

Parsers add_parsers(CLI::App& app, const std::vector<Subcommand>& subcommands) {
  std::map<std::string, CLI::App*> groups;
  Parsers parsers;
  for (const Subcommand& subcommand : subcommands) {
    CLI::App* parser = add_parser(app, subcommand, groups);
    OptionAdder adder(*parser);
    subcommand.add_options(adder);
    parsers.emplace_back(parser, &subcommand);
  }
  return parsers;
}

// The parsers that a line reached, the innermost last.
std::vector<const CLI::App*> reached_parsers(const CLI::App& app) {
  std::vector<const CLI::App*> chain = {&app};
  while (!chain.back()->get_subcommands().empty()) chain.push_back(chain.back()->get_subcommands().front());
  return chain;
}

// "bench serve"; "" of the program itself.
std::string names_of(const std::vector<const CLI::App*>& chain) {
  std::string names;
  for (size_t i = 1; i < chain.size(); ++i) names += (i > 1 ? " " : "") + chain[i]->get_name();
  return names;
}

// "--port" for "--prot"; "" when no flag is near.
std::string flag_like(const std::string& word, const CLI::App& parser) {
  std::vector<std::string_view> names;
  for (const CLI::Option* option : parser.get_options()) {
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  const std::string_view like = nearest_name(std::string_view(word).substr(word.starts_with("--") ? 2 : 1), names);
  return like.empty() ? "" : fmt::format("--{}", like);
}

// What is wrong with a line, and what is accepted in its place.
std::string parse_message(const CLI::ParseError& e, const CLI::App& app) {
  const std::vector<const CLI::App*> chain = reached_parsers(app);
  const CLI::App& parser = *chain.back();
  const std::string names = names_of(chain), space = names.empty() ? "" : " ";
  const std::string look = fmt::format("see strobe {}{}--help", names, space);
  const std::vector<std::string> left = parser.remaining();
  if (!left.empty() && left[0].starts_with("-")) {
    const std::string name = left[0].substr(0, left[0].find('='));
    const std::string like = flag_like(name, parser);
    return fmt::format("{}: there is no such flag; {}{}", name,
                       like.empty() ? "" : fmt::format("did you mean {}? ", like), look);
  }
  std::vector<std::string> commands;
  for (const CLI::App* command : parser.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(command->get_name());
  }
  if (!commands.empty()) {
    return fmt::format("{}{}{}: accepted: {}; {}", names, space, left.empty() ? "without a command" : left[0],
                       fmt::join(commands, ", "), look);
  }
  if (!left.empty()) return fmt::format("'{}' belongs to no flag; {}", left[0], look);
  for (const CLI::Option* option : parser.get_options()) {
    if (std::string_view(e.what()) != CLI::ConversionError(option->get_name(), option->results()).what()) continue;
    return fmt::format("{} {}: accepted: {}", option->get_name(), fmt::join(option->results(), " "),
                       option->get_type_name() == "FLOAT" ? "a number" : "a whole number");
  }
  return fmt::format("{}; {}", e.what(), look);
}

std::string with_escaped_bars(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

// "| `--page-size` | 64 | tokens a page of the KV caches |"
std::string flag_row(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_positional() ? std::vector{option.get_name()} : option.get_lnames()) {
    names += fmt::format("{}`{}{}`", names.empty() ? "" : ", ", option.get_positional() ? "" : "--", name);
  }
  std::string value = option.get_default_str();
  if (option.get_items_expected_max() == 0) value = "off";
  if (value == "\"\"") value.clear();
  std::erase_if(value, [](char c) { return c == '[' || c == ']'; });  // of a list
  return fmt::format("| {} | {} | {} |\n", names, value.empty() ? "" : fmt::format("`{}`", value),
                     with_escaped_bars(option.get_description()));
}

std::vector<std::string> flag_rows(const CLI::App& parser) {
  std::vector<std::string> rows;
  for (const CLI::Option* option : parser.get_options()) {
    if (option != parser.get_help_ptr()) rows.push_back(flag_row(*option));
  }
  return rows;
}

bool holds(const std::vector<std::string>& rows, const std::string& row) {
  return std::find(rows.begin(), rows.end(), row) != rows.end();
}

std::string flag_table(const std::vector<std::string>& rows) {
  return fmt::format("| flag | default | |\n|---|---|---|\n{}\n", fmt::join(rows, ""));
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
  const Parsers parsers = add_parsers(app, subcommands);
  for (const auto& [parser, subcommand] : parsers) {
    parser->callback([&chosen, one = subcommand] { chosen = one; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    fmt::print(stderr, "strobe: {}\n", parse_message(e, app));
    for (const auto& [parser, subcommand] : parsers) {
      const CLI::App* group = parser->get_parent();
      // A group without its second word counts as well: `strobe eval`.
      if (parser->parsed() || (group != &app && group->parsed())) return subcommand->usage_error;
    }
    return 1;
  }
  return chosen->run();
}

std::string flags_markdown(const std::vector<Subcommand>& subcommands) {
  CLI::App app;
  std::vector<std::pair<const Subcommand*, std::vector<std::string>>> commands;
  std::vector<std::string> shared;  // rows of all commands that run a model
  std::string runners;
  for (const auto& [parser, subcommand] : add_parsers(app, subcommands)) {
    commands.emplace_back(subcommand, flag_rows(*parser));
    if (parser->get_option_no_throw("--model-path") == nullptr) continue;
    const auto& rows = commands.back().second;
    if (runners.empty()) shared = rows;
    std::erase_if(shared, [&](const std::string& row) { return !holds(rows, row); });
    runners += fmt::format("{}`strobe {}`", runners.empty() ? "" : ", ", subcommand->name);
  }
  std::vector<std::string> engine, speculation;
  for (const std::string& row : shared) {
    (row.starts_with("| `--speculative-") ? speculation : engine).push_back(row);
  }
  std::string page = fmt::format(
      "# Flags\n\nWritten from the program's own tables (`src/tool/options.h` and the commands beside it); a test "
      "keeps it "
      "so.\nFlags have SGLang's names where SGLang has the flag. `strobe COMMAND --help` prints the same.\n\n"
      "## What runs\n\nFlags of {}.\n\n{}## Speculation\n\nFlags of the same commands.\n\n{}",
      runners, flag_table(engine), flag_table(speculation));
  for (const auto& [subcommand, rows] : commands) {
    std::string help = subcommand->help;
    help[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(help[0])));
    page += fmt::format("## strobe {}\n\n{}.", subcommand->name, help);
    std::vector<std::string> own;
    for (const std::string& row : rows) {
      if (!holds(shared, row)) own.push_back(row);
    }
    const bool shares = own.size() < rows.size();
    page += fmt::format("{}\n\n{}", shares ? " Takes the flags above, and:" : "", flag_table(own));
  }
  page.pop_back();
  return page;
}

}  // namespace strobe::tool
