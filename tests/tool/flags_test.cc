// docs/FLAGS.md is what the commands take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "source_dir.h"
#include "tool/commands.h"

namespace strobe::tool {
namespace {

using ::testing::HasSubstr;

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// Asks what the table of engine options holds.
class FirstNames {
 public:
  template <class T>
  void operator()(const char* names, T& /*field*/, const char* /*help*/) {
    const std::string all = names;
    names_.push_back(all.substr(0, all.find(',')));
  }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
};

TEST(FlagsMarkdown, HasEachSharedFlagOnceAndAllCommands) {
  const std::string page = flags_markdown(all_commands());
  FirstNames engine;
  EngineOptions().visit(engine);
  ASSERT_GT(engine.names().size(), 20U);
  const std::string shared = page.substr(0, page.find("\n## strobe "));
  for (const std::string& name : engine.names()) EXPECT_EQ(count(shared, "\n| `" + name + "`"), 1U) << name;
  // The commands that take them do not show them again; `bench kernel` has flags of its own.
  EXPECT_EQ(count(page, "\n| `--page-size`"), 1U);
  for (const Subcommand& command : all_commands()) EXPECT_THAT(page, HasSubstr("\n## strobe " + command.name + "\n"));
  EXPECT_THAT(page, HasSubstr("\n| `--page-size` | `64` | tokens a page of the KV caches |\n"));
  EXPECT_THAT(page, HasSubstr("auto \\| bf16"));
}

// The committed page is what the tables say.
TEST(FlagsMarkdown, TheDocumentationIsUpToDate) {
  const std::string expected = flags_markdown(all_commands());
  std::ifstream file(source_dir() / "docs/FLAGS.md");
  const std::string committed((std::istreambuf_iterator<char>(file)), {});
  if (committed == expected) return;
  const std::filesystem::path fresh = std::filesystem::absolute("FLAGS.md");
  std::ofstream(fresh) << expected;
  FAIL() << "docs/FLAGS.md is not what src/tool/options.h and the commands say: cp " << fresh << " "
         << source_dir() / "docs/FLAGS.md";
}

}  // namespace
}  // namespace strobe::tool
