#include "tool/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../text/scratch_folder.h"

namespace strobe::tool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Prompts : public ::testing::Test {
 protected:
  Result<std::vector<Prompt>> read(const std::string& text) {
    folder_.write("p.jsonl", text);
    return read_prompts(path());
  }
  std::string refusal(const std::string& text) {
    const auto prompts = read(text);
    EXPECT_FALSE(prompts.ok()) << text;
    return prompts.ok() ? "" : prompts.message();
  }
  [[nodiscard]] std::string path() const { return folder_.path() / "p.jsonl"; }

 private:
  strobe::testing::ScratchFolder folder_;
};

TEST_F(Prompts, TextsAndConversations) {
  const auto prompts = read(
      "{\"prompt\": \"Once upon\", \"id\": 7}\n"
      "\n"
      " \t\r\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"answer\": \"42\", \"tags\": [1]}\r\n"
      "{\"prompt\": \"\"}");
  ASSERT_TRUE(prompts.ok()) << prompts.message();
  ASSERT_EQ(prompts->size(), 3U);
  const Prompt& text = (*prompts)[0];
  EXPECT_FALSE(text.chat());
  EXPECT_EQ(text.text, "Once upon");
  EXPECT_EQ(text.passed, (nlohmann::ordered_json{{"id", 7}}));
  const Prompt& chat = (*prompts)[1];
  EXPECT_TRUE(chat.chat());
  EXPECT_EQ(chat.messages[0]["content"], "Hi");
  EXPECT_EQ(chat.passed, (nlohmann::ordered_json{{"answer", "42"}, {"tags", {1}}}));
  EXPECT_EQ((*prompts)[2].text, "") << "an empty text is the tokenizer's business";
  EXPECT_TRUE((*prompts)[2].passed.is_object());
}

TEST_F(Prompts, NamesKeepTheirOrder) {
  const std::string messages = R"([{"role":"user","zeta":1,"content":"x","alpha":{"b":1,"a":2}}])";
  const auto prompts = read(R"({"tag": 1, "messages": )" + messages + R"(, "answer": {"y": 0, "x": 0}})");
  ASSERT_TRUE(prompts.ok()) << prompts.message();
  EXPECT_EQ((*prompts)[0].messages.dump(), messages);
  EXPECT_EQ((*prompts)[0].passed.dump(), R"({"tag":1,"answer":{"y":0,"x":0}})");
}

TEST_F(Prompts, ErrorsNameTheFileAndTheLine) {
  const std::string good = "{\"prompt\": \"a\"}\n\n";
  EXPECT_THAT(refusal(good + "{\"prompt\": "), StartsWith(path() + ":3: not valid JSON"));
  EXPECT_THAT(refusal("{\"prompt\": \"a\"} {\"prompt\": \"b\"}"), StartsWith(path() + ":1: not valid JSON"));
  EXPECT_THAT(refusal("{\"prompt\": \"\xff\"}"), AllOf(StartsWith(path() + ":1: not valid JSON"), HasSubstr("UTF-8")));
  EXPECT_THAT(refusal("{\"prompt\": \"a\", \"prompt\": \"b\"}"), StartsWith(path() + ":1: "));
  EXPECT_THAT(refusal(std::string(5000, '[')), StartsWith(path() + ":1: "));
  EXPECT_EQ(refusal("[1]"), path() + ":1: array where a JSON object is needed");
  EXPECT_THAT(refusal(good + "{\"text\": \"a\"}"),
              AllOf(HasSubstr(":3: needs exactly one"), HasSubstr("`messages`"), HasSubstr("`prompt`")));
  EXPECT_THAT(refusal("{\"prompt\": \"a\", \"messages\": []}"), HasSubstr(":1: needs exactly one"));
}

TEST_F(Prompts, ErrorsNameTheField) {
  EXPECT_THAT(refusal("{\"prompt\": 5}"), HasSubstr(":1: `prompt` is number; a string is needed"));
  EXPECT_THAT(refusal("{\"prompt\": null}"), HasSubstr("`prompt` is null"));
  for (const char* messages : {"[]", "{}", "\"Hi\"", "null"}) {
    EXPECT_THAT(refusal(fmt::format("{{\"messages\": {}}}", messages)),
                HasSubstr("`messages` must be an array of at least one message"))
        << messages;
  }
  for (const char* message : {"1", "{}", "{\"role\": 3}", "{\"content\": \"Hi\"}"}) {
    EXPECT_THAT(refusal(fmt::format("{{\"messages\": [{{\"role\": \"user\"}}, {}]}}", message)),
                HasSubstr("each of `messages` needs a string `role`"))
        << message;
  }
}

TEST_F(Prompts, NothingToReadIsAnError) {
  EXPECT_EQ(refusal(""), "--jsonl " + path() + ": no prompts in it");
  EXPECT_EQ(refusal("\n \n"), "--jsonl " + path() + ": no prompts in it");
  const auto missing = read_prompts(path() + ".not");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.message(), "--jsonl " + path() + ".not: cannot be read");
}

TEST(ChatPrompt, IsOneUserTurn) {
  const Prompt prompt = chat_prompt("How many \"pens\"?");
  EXPECT_TRUE(prompt.chat());
  EXPECT_EQ(prompt.messages.dump(), R"([{"role":"user","content":"How many \"pens\"?"}])");
}

}  // namespace
}  // namespace strobe::tool
