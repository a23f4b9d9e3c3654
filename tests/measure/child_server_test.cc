// Child servers, played by small shell scripts.
#include "measure/child_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "../text/scratch_folder.h"

namespace strobe::measure {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ChildServerTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<ChildServer>> start(const std::string& script, const std::atomic<bool>* stop = nullptr) {
    const std::string program = folder_.path() / "program";
    folder_.write("program", "#!/bin/sh\n" + script);
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    return ChildServer::start({.program = program, .arguments = {"--flag", "a b"}, .log_path = folder_.path() / "log"},
                              stop);
  }
  [[nodiscard]] std::string log() const { return last_lines(folder_.path() / "log", 3); }

  strobe::testing::ScratchFolder folder_;
};

TEST(PortIn, IsReadFromAWholeLine) {
  EXPECT_EQ(port_in("Strobe serves m on http://127.0.0.1:8080\n"), 8080);
  EXPECT_EQ(port_in("Strobe serves m on http://127.0.0.1:80"), std::nullopt);
  EXPECT_EQ(port_in("on http://127.0.0.1\n"), std::nullopt);
  EXPECT_EQ(port_in("x on http://h:0\n"), std::nullopt);
  EXPECT_EQ(port_in(""), std::nullopt);
}

TEST_F(ChildServerTest, StartsAndEnds) {
  std::string mark = folder_.path() / "ended";
  {
    const auto server = start("echo \"$1 $2|$3|$4 $5 $6 $7\" >&2\ntrap 'echo x > " + mark +
                              "; exit 0' TERM\necho ' on http://127.0.0.1:4242'\nwhile :; do sleep 0.05; done\n");
    ASSERT_TRUE(server.ok()) << server.message();
    EXPECT_EQ((*server)->endpoint().url(), "http://127.0.0.1:4242");
    EXPECT_THAT(log(), HasSubstr("serve --flag|a b|--host 127.0.0.1 --port 0"));
    EXPECT_FALSE(std::filesystem::exists(mark));
  }
  EXPECT_TRUE(std::filesystem::exists(mark));
}

TEST_F(ChildServerTest, OneThatEndsEarlySaysWhy) {
  EXPECT_THAT(start("echo 'no such model' >&2\nexit 3\n").message(),
              AllOf(HasSubstr("exit code 3"), HasSubstr("no such model")));
}

TEST_F(ChildServerTest, OneThatIsNoProgram) {
  const auto server = ChildServer::start(
      {.program = folder_.path() / "nothing", .arguments = {}, .log_path = folder_.path() / "log"}, nullptr);
  EXPECT_THAT(server.message(), HasSubstr("exit code 127"));
}

TEST_F(ChildServerTest, AStopEndsTheWait) {
  const std::atomic<bool> stop = true;
  EXPECT_THAT(start("exec sleep 1000\n", &stop).message(), HasSubstr("stopped"));
}

}  // namespace
}  // namespace strobe::measure
