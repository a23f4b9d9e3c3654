#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "load/safetensors.h"
#include "load/safetensors_writer.h"

namespace strobe {
namespace {

using strobe::testing::SafetensorsWriter;
using strobe::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckpointTest : public ::testing::Test {
 protected:
  void shard(const std::string& file, const std::vector<std::string>& names) {
    SafetensorsWriter writer;
    for (const std::string& name : names) writer.add(name, FileDType::kU8, {2}, std::string(2, name[0]));
    writer.write(folder_ / file);
  }
  void index(const nlohmann::json& weight_map) {
    index_text(nlohmann::json{{"metadata", {{"total_size", 1}}}, {"weight_map", weight_map}}.dump());
  }
  void index_text(const std::string& text) {
    SafetensorsWriter::write_text(folder_ / "model.safetensors.index.json", text);
  }
  [[nodiscard]] std::string refusal() const {
    const Result<Checkpoint> result = Checkpoint::open(folder_.path());
    return result.ok() ? "it was accepted" : result.message();
  }

  TempFolder folder_;
};

TEST_F(CheckpointTest, OneFile) {
  shard("model.safetensors", {"a", "b"});
  shard("other.safetensors", {"c"});  // beside model.safetensors it is not part of the checkpoint
  Result<Checkpoint> opened = Checkpoint::open(folder_.path());
  ASSERT_TRUE(opened.ok()) << opened.message();
  const Checkpoint moved = std::move(*opened);
  EXPECT_EQ(moved.tensor_count(), 2);
  ASSERT_NE(moved.find("b"), nullptr);
  EXPECT_EQ(static_cast<char>(moved.find("b")->data[1]), 'b');
  EXPECT_EQ(moved.find("c"), nullptr);
  EXPECT_EQ(moved.file_name(*moved.find("a")), "model.safetensors");
}

TEST_F(CheckpointTest, IndexedShards) {
  shard("m-1.safetensors", {"a", "b"});
  shard("m-2.safetensors", {"c"});
  shard("stray.safetensors", {"a"});  // not in the index: left alone
  index({{"a", "m-1.safetensors"}, {"b", "m-1.safetensors"}, {"c", "m-2.safetensors"}});
  const Result<Checkpoint> opened = Checkpoint::open(folder_.path());
  ASSERT_TRUE(opened.ok()) << opened.message();
  EXPECT_EQ(opened->tensor_count(), 3);
  EXPECT_EQ(opened->file_name(*opened->find("c")), "m-2.safetensors");
}

TEST_F(CheckpointTest, ShardsWithoutIndex) {
  shard("x.safetensors", {"a"});
  shard("y.safetensors", {"b"});
  EXPECT_EQ(Checkpoint::open(folder_.path())->tensor_count(), 2);
  shard("z.safetensors", {"b"});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("z.safetensors: tensor 'b' is in y.safetensors too")));
}

TEST_F(CheckpointTest, NothingThere) {
  EXPECT_THAT(refusal(), HasSubstr("holds no model.safetensors, model.safetensors.index.json or other *.safetensors"));
  EXPECT_THAT(Checkpoint::open(folder_ / "none").message(), HasSubstr("none: is not a folder"));
}

TEST_F(CheckpointTest, IndexAndFilesMustAgree) {
  shard("m-1.safetensors", {"a"});
  index({{"a", "m-1.safetensors"}, {"b", "m-2.safetensors"}});
  EXPECT_THAT(refusal(), HasSubstr("names m-2.safetensors for tensor 'b' and others, but there is no such file"));
  index({{"a", "m-1.safetensors"}, {"b", "m-1.safetensors"}});
  EXPECT_THAT(refusal(), HasSubstr("names m-1.safetensors for tensor 'b', but that file does not hold it"));
  shard("m-2.safetensors", {"b"});
  index({{"a", "m-2.safetensors"}, {"b", "m-1.safetensors"}});
  EXPECT_THAT(refusal(),
              HasSubstr("names m-2.safetensors for tensor 'a', but that file does not hold it (m-1.safetensors does)"));
  shard("m-1.safetensors", {"a", "extra"});
  index({{"a", "m-1.safetensors"}, {"b", "m-2.safetensors"}});
  EXPECT_THAT(refusal(),
              HasSubstr("m-1.safetensors: holds tensor 'extra', which model.safetensors.index.json does not name"));
}

TEST_F(CheckpointTest, ShardNamesStayInTheFolder) {
  shard("m.safetensors", {"a"});
  for (const char* name : {"../m.safetensors", "/etc/passwd", "sub/m.safetensors", "..\\m.safetensors", "..",
                           ".safetensors", "m.bin", "", "m.safetensors/..", "..safetensors"}) {
    index({{"a", name}});
    EXPECT_THAT(refusal(), HasSubstr("accepted: the name of a *.safetensors file in the same folder")) << name;
  }
  index({{"a", std::string(5000, 'm') + ".safetensors"}});
  EXPECT_THAT(refusal(), HasSubstr("accepted: the name of a *.safetensors file in the same folder"));
  index({{"a", std::string("m\0.safetensors", 14)}});
  EXPECT_THAT(refusal(), HasSubstr("accepted: the name of a *.safetensors file in the same folder"));
}

TEST_F(CheckpointTest, BadIndex) {
  shard("m.safetensors", {"a"});
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "not a JSON object"},
           {"[]", "not a JSON object"},
           {"{\"weight_map\": ", "not a JSON object"},
           {std::string(200000, '['), "not a JSON object"},
           {"{}", "weight_map is missing"},
           {R"({"weight_map": []})", "weight_map is missing or not an object"},
           {R"({"weight_map": {}})", "weight_map is empty"},
           {R"({"weight_map": {"a": 3}})", "weight_map['a'] is not a string"},
           {R"({"weight_map": {"a": "m.safetensors", "a": "m.safetensors"}})", "names tensor 'a' twice"}}) {
    index_text(text);
    EXPECT_THAT(refusal(), HasSubstr(message)) << text.substr(0, 60);
  }
}

TEST_F(CheckpointTest, ABadShardIsNamed) {
  shard("m.safetensors", {"a"});
  index({{"a", "m.safetensors"}});
  std::filesystem::resize_file(folder_ / "m.safetensors", std::filesystem::file_size(folder_ / "m.safetensors") - 1);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("m.safetensors: tensor 'a'"), HasSubstr("is the file cut short?")));
}

TEST_F(CheckpointTest, EveryBitFlipOfAnIndexIsReadOrRefused) {
  shard("m.safetensors", {"a", "b"});
  const std::string text = R"({"weight_map": {"a": "m.safetensors", "b": "m.safetensors"}})";
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    index_text(flipped);
    const Result<Checkpoint> opened = Checkpoint::open(folder_.path());
    // Flips inside the two names' keys, the metadata or white space may still be right; none may lose a tensor.
    if (opened.ok()) {
      EXPECT_EQ(opened->tensor_count(), 2) << flipped;
    }
  }
}

}  // namespace
}  // namespace strobe
