// Messages through a real chat template.
#include "tool/text_adapter.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../text/scratch_folder.h"

namespace strobe::tool {
namespace {

using nlohmann::ordered_json;

// A token is a byte.
class ByteTokenizer : public Tokenizer {
 public:
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text, SpecialTokens /*special*/) const override {
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  [[nodiscard]] int32_t vocab_size() const override { return 256; }
  [[nodiscard]] std::string_view token_bytes(int32_t id) const override {
    return {&bytes_[static_cast<size_t>(id)], 1};
  }
  [[nodiscard]] std::optional<int32_t> token_id(std::string_view bytes) const override {
    return bytes.size() == 1 ? std::optional<int32_t>(static_cast<unsigned char>(bytes[0])) : std::nullopt;
  }
  [[nodiscard]] bool is_special(int32_t /*id*/) const override { return false; }
  [[nodiscard]] const SpecialIds& special_ids() const override { return ids_; }

 private:
  static std::string all_bytes() {
    std::string bytes;
    for (int c = 0; c < 256; ++c) bytes.push_back(static_cast<char>(c));
    return bytes;
  }
  const std::string bytes_ = all_bytes();
  SpecialIds ids_;
};

std::string rendered(const std::string& source, const std::string& messages, const std::string& args = "{}") {
  const strobe::testing::ScratchFolder folder;
  folder.write("chat_template.jinja", source);
  const ByteTokenizer tokenizer;
  const auto text = make_text_service(tokenizer, folder.path());
  const auto ids = text->encode_chat(ordered_json::parse(messages), ordered_json::parse(args));
  return ids.ok() ? text->decode(*ids, false) : ids.message();
}

// Templates print the arguments of tool calls; in another order they are another text than the one that the client, or
// the model itself, wrote.
TEST(TextService, TemplatesPrintObjectsInTheOrderOfTheClient) {
  const std::string arguments = R"({"zone": "UTC", "at": {"minute": 5, "hour": 9}, "list": [{"b": 1, "a": 2}]})";
  const std::string messages =
      R"([{"role": "user", "content": "x"}, {"role": "assistant", "content": null, "tool_calls":
      [{"type": "function", "function": {"name": "clock", "arguments": )" +
      arguments + "}}]}]";
  EXPECT_EQ(rendered("{%- for m in messages %}{%- for call in m.tool_calls or [] %}"
                     "{{ call.function.name }}:{{ call.function.arguments | tojson }}{%- endfor %}{%- endfor %}",
                     messages),
            "clock:" + arguments);
  EXPECT_EQ(
      rendered("{{ options | tojson }}", R"([{"role": "user", "content": "x"}])", R"({"options": {"y": 1, "x": 2}})"),
      R"({"y": 1, "x": 2})");
}

TEST(TextService, TokenBytesAreNotRepaired) {
  const strobe::testing::ScratchFolder folder;
  const ByteTokenizer tokenizer;
  EXPECT_EQ(make_text_service(tokenizer, folder.path())->token_bytes(0xC3), "\xC3");
}

}  // namespace
}  // namespace strobe::tool
