// The endpoints that record profiles, and where they may write.
#include "serve/profile.h"

#include "serve_fixture.h"
// After it: the fixture says `testing` where GoogleTest is meant.
#include "../text/scratch_folder.h"

namespace strobe::serve {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class Profile : public ServeTest {
 protected:
  void start_with(const std::string& folder) {
    ServerOptions options;
    options.trace = &recorder_;
    options.profile_dir = folder;
    start(std::move(options));
  }
  strobe::testing::ScratchFolder folder_;
  TraceRecorder recorder_;
};

TEST_F(Profile, RecordsBetweenStartAndStop) {
  start_with(folder_.path().string() + "/");
  EXPECT_EQ(
      post(port_, "/start_profile",
           {{"output_dir", (folder_.path() / "a/b").string()}, {"profile_prefix", "run"}, {"profile_by_stage", true}})
          .status,
      200);
  ASSERT_TRUE(recorder_.on());
  recorder_.add_step({{.name = "verify", .ms = 1, .sequences = 3}});
  const ClientResponse stopped = post(port_, "/stop_profile", json::object());
  ASSERT_EQ(stopped.status, 200) << stopped.body;
  const json answer = json::parse(stopped.body);
  const std::string file = answer["files"].at(0);
  EXPECT_THAT(file, HasSubstr("/a/b/run-bs3-decode.rank0.trace.json"));
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_THAT(answer["summary"].get<std::string>(), HasSubstr("verify"));
  EXPECT_EQ(request(port_, "POST", "/start_profile").status, 200);  // no body: all defaults
  EXPECT_THAT(refused("/start_profile", "{}", ""), HasSubstr("already"));
  EXPECT_EQ(request(port_, "POST", "/stop_profile").status, 200);
  EXPECT_THAT(refused("/stop_profile", "", ""), HasSubstr("no profile"));
}

TEST_F(Profile, NothingIsWrittenElsewhere) {
  std::filesystem::create_directory(folder_.path() / "inside");
  std::filesystem::create_directory(folder_.path() / "inside-not");
  std::filesystem::create_directory_symlink("/tmp", folder_.path() / "inside/link");
  start_with(folder_.path() / "inside");
  const std::string root = folder_.path() / "inside";
  for (const std::string& wrong : {std::string("/tmp"), root + "/..", root + "/../inside-not", root + "-not",
                                   std::string(".."), std::string("link/x")}) {
    EXPECT_THAT(refused("/start_profile", json{{"output_dir", wrong}}.dump(), ""), HasSubstr("--profile-dir")) << wrong;
  }
  for (const char* wrong : {"", "a/b", "../a", ".hidden", "a b"}) {
    EXPECT_THAT(refused("/start_profile", json{{"profile_prefix", wrong}}.dump(), ""), HasSubstr("profile_prefix"))
        << wrong;
  }
  EXPECT_THAT(refused("/start_profile", R"({"num_steps": 0})", ""), HasSubstr("num_steps"));
  EXPECT_THAT(refused("/start_profile", R"({"output_dir": 5})", ""), HasSubstr("output_dir"));
  EXPECT_FALSE(recorder_.on());
}

TEST_F(Profile, OffWithoutAFolder) {
  start_with("");
  EXPECT_THAT(refused("/start_profile", "{}", ""), HasSubstr("start the server with --profile-dir"));
  EXPECT_FALSE(recorder_.on());
}

}  // namespace
}  // namespace strobe::serve
