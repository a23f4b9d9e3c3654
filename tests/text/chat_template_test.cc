#include "text/chat_template.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "golden.h"
#include "scratch_folder.h"
#include "text/tokenizer_config.h"

namespace strobe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ChatTemplate make(const std::string& source, const TokenizerConfig& config = {}) {
  auto made = ChatTemplate::parse(source, config, "test.jinja");
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.message());
  return std::move(made).value();
}

std::string render(const std::string& source, const std::string& messages = "[]", const std::string& variables = "") {
  const auto text = make(source).render({.messages = messages, .variables = variables});
  return text.ok() ? *text : "ERROR: " + text.message();
}

TokenizerConfig golden_config() {
  TokenizerConfig config;
  config.bos = "[BOS]";
  config.eos = "[EOS]";
  config.pad = "[PAD]";
  config.unk = "[UNK]";
  return config;
}

std::string template_source(const nlohmann::ordered_json& item) {
  const auto name = item["name"].get<std::string>();
  if (item.contains("source")) return item["source"].get<std::string>();
  if (name.find('/') != std::string::npos) return testing::read_file(testing::source_path(name));
  return testing::read_file(std::filesystem::path(STROBE_TEMPLATE_FOLDER) / name);
}

TEST(ChatTemplate, RendersAsJinja2) {
  setenv("TZ", "UTC", 1);
  tzset();
  const auto golden = testing::golden("templates.json");
  size_t texts = 0;
  for (const auto& item : golden["templates"]) {
    const auto name = item["name"].get<std::string>();
    const auto made = ChatTemplate::parse(template_source(item), golden_config(), name);
    ASSERT_TRUE(made.ok()) << made.message();
    EXPECT_EQ(made->takes_content_parts(), item["reads_parts"].get<bool>()) << name;
    for (const auto& input : golden["cases"]) {
      const auto& expected = item["rendered"][input["name"].get<std::string>()];
      const auto text = made->render({.messages = input["messages"].dump(),
                                      .tools = input.contains("tools") ? input["tools"].dump() : "",
                                      .variables = input.contains("variables") ? input["variables"].dump() : "",
                                      .add_generation_prompt = input.value("add_generation_prompt", true),
                                      .now_s = golden["now"].get<int64_t>()});
      if (expected.contains("text")) {
        EXPECT_EQ(text.ok() ? *text : text.message(), expected["text"].get<std::string>())
            << name << " " << input["name"];
        ++texts;
      } else if (expected.contains("raises")) {
        ASSERT_FALSE(text.ok()) << name << " " << input["name"];
        EXPECT_EQ(text.message(), expected["raises"].get<std::string>());
      }
    }
  }
  EXPECT_GT(texts, 150U);
}

TEST(ChatTemplate, PocketModel) {
  const auto made = ChatTemplate::load(testing::source_path("models/pocket-k2/target"));
  ASSERT_TRUE(made.ok()) << made.message();
  const auto text = made->render({.messages = R"([{"role":"user","content":"Hi"}])"});
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_EQ(*text, "<|im_user|>user<|im_middle|>Hi<|im_end|><|im_assistant|>assistant<|im_middle|>");
}

TEST(ChatTemplate, LoadsFromTheConfig) {
  const testing::ScratchFolder folder;
  folder.write("tokenizer_config.json", R"({"bos_token":{"content":"<s>"},"chat_template":"{{bos_token}}one"})");
  EXPECT_EQ(*ChatTemplate::load(folder.path())->render({.messages = "[]"}), "<s>one");

  folder.write("tokenizer_config.json", R"({"chat_template":[{"name":"default","template":"plain"},
      {"name":"tool_use","template":"with tools"}]})");
  const auto named = ChatTemplate::load(folder.path());
  EXPECT_EQ(*named->render({.messages = "[]"}), "plain");
  EXPECT_EQ(*named->render({.messages = "[]", .tools = "[]"}), "plain");
  EXPECT_EQ(*named->render({.messages = "[]", .tools = R"([{"a":1}])"}), "with tools");

  folder.write("chat_template.jinja", "from the file");  // goes before
  EXPECT_EQ(*ChatTemplate::load(folder.path())->render({.messages = "[]"}), "from the file");
}

TEST(ChatTemplate, LoadNamesWhatIsMissing) {
  const testing::ScratchFolder folder;
  EXPECT_THAT(ChatTemplate::load(folder.path()).message(), HasSubstr("no chat template"));
  folder.write("tokenizer_config.json", R"({"chat_template":[{"name":"rag","template":"x"}]})");
  EXPECT_THAT(ChatTemplate::load(folder.path()).message(), HasSubstr("'default'"));
  folder.write("tokenizer_config.json", R"({"chat_template":5})");
  EXPECT_THAT(ChatTemplate::load(folder.path()).message(), HasSubstr("chat_template is number"));
  folder.write("chat_template.jinja", "{% if %}");
  folder.write("tokenizer_config.json", "{}");
  EXPECT_THAT(ChatTemplate::load(folder.path()).message(), HasSubstr("chat_template.jinja: "));
  folder.write("chat_template.jinja", std::string((1 << 20) + 1, 'x'));
  EXPECT_THAT(ChatTemplate::load(folder.path()).message(), HasSubstr("at most 1048576"));
}

TEST(ChatTemplate, KeysKeepTheirOrder) {
  EXPECT_EQ(make("{{ tools | tojson }}").render({.messages = "[]", .tools = R"([{"z":1,"a":{"y":2,"b":3}}])"}).value(),
            R"([{"z": 1, "a": {"y": 2, "b": 3}}])");
}

TEST(ChatTemplate, VariablesOverNamedTokensButNotOverTheRequest) {
  TokenizerConfig config;
  config.bos = "<s>";
  config.other_special_texts["image_token"] = "<img>";
  const auto made = make("{{ bos_token }}{{ image_token }}{{ eos_token is defined }}{{ x }}", config);
  EXPECT_EQ(*made.render({.messages = "[]", .variables = R"({"x":1})"}), "<s><img>False1");
  EXPECT_EQ(*made.render({.messages = "[]", .variables = R"({"x":1,"bos_token":"b"})"}), "b<img>False1");
  for (const char* name : {"messages", "tools", "documents", "add_generation_prompt"}) {
    const auto text = made.render({.messages = "[]", .variables = fmt::format(R"({{"{}":1}})", name)});
    ASSERT_FALSE(text.ok()) << name;
    EXPECT_THAT(text.message(), HasSubstr(name));
  }
}

TEST(ChatTemplate, ContentParts) {
  const std::string parts = R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])";
  EXPECT_EQ(render("{{ messages[0].content }}", parts), "a b");
  EXPECT_EQ(render("{% for p in messages[0].content %}<{{ p.text }}>{% endfor %}", parts), "<a><b>");
  EXPECT_EQ(render("{{ messages[0].content }}", R"([{"role":"user","content":[]}])"), "");
  EXPECT_THAT(render("{{ messages }}", R"([{"role":"user","content":[{"type":"image_url"}]}])"),
              AllOf(HasSubstr("messages[0].content[0]"), HasSubstr("image_url")));
  EXPECT_THAT(render("{{ messages }}", R"([{"role":"user","content":[{"type":"text"}]}])"), HasSubstr("text"));
  EXPECT_THAT(render("{{ messages }}", R"([{"role":"user","content":["x"]}])"), HasSubstr("messages[0].content[0]"));
}

TEST(ChatTemplate, RefusesBrokenRequests) {
  const auto made = make("{{ messages | length }}");
  const auto complaint = [&](const ChatRequest& request) {
    const auto text = made.render(request);
    return text.ok() ? "rendered: " + *text : text.message();
  };
  EXPECT_THAT(complaint({.messages = "[1"}), HasSubstr("messages: "));
  EXPECT_THAT(complaint({.messages = ""}), HasSubstr("messages: "));
  EXPECT_THAT(complaint({.messages = "{}"}), HasSubstr("an array is expected"));
  EXPECT_THAT(complaint({.messages = "[1]"}), HasSubstr("messages[0]"));
  EXPECT_THAT(complaint({.messages = R"([{"role":"user"},{"content":"x"}])"}), HasSubstr("messages[1]"));
  EXPECT_THAT(complaint({.messages = R"([{"role":5}])"}), HasSubstr("role"));
  EXPECT_THAT(complaint({.messages = "[{\"role\":\"user\",\"content\":\"\xff\"}]"}), HasSubstr("UTF-8"));
  EXPECT_THAT(complaint({.messages = "[]", .tools = "{}"}), HasSubstr("tools: an array"));
  EXPECT_THAT(complaint({.messages = "[]", .variables = "[]"}), HasSubstr("chat_template_kwargs: an object"));
  const std::string deep = std::string(100'000, '[');
  EXPECT_THAT(complaint({.messages = deep}), HasSubstr("messages: nested"));
  EXPECT_THAT(complaint({.messages = "[]", .tools = deep}), HasSubstr("tools: nested"));
}

TEST(ChatTemplate, RaisedMessagesComeAlone) {
  EXPECT_EQ(render("{{ raise_exception('Roles must alternate: ' ~ messages | length) }}"),
            "ERROR: Roles must alternate: 0");
}

TEST(ChatTemplate, FaultsSayWhere) {
  EXPECT_THAT(render("line one\n{{ 1 + messages.x.y.z() }}"), AllOf(HasSubstr("test.jinja"), HasSubstr("line 2")));
  EXPECT_THAT(render("{% break %}"), HasSubstr("break"));
  for (const char* broken :
       {"{% if x %}", "{{ x", "{{ 'abc }}", "{% unknown %}", "{{ 1 +* 2 }}", "{% for x %}{% endfor %}", "{# never ends",
        "{% endif %}", "{{ x | }}", "{{ [1, 2 }}", "{%", "{{", "{% set x = %}"}) {
    const auto made = ChatTemplate::parse(broken, {}, "broken.jinja");
    ASSERT_FALSE(made.ok()) << broken;
    EXPECT_THAT(made.message(), HasSubstr("broken.jinja: ")) << broken;
  }
}

TEST(ChatTemplate, EndlessTemplatesEnd) {
  const std::string forever =
      "{% for a in range(100) %}{% for b in range(100) %}{% for c in range(100) %}"
      "{% endfor %}{% endfor %}{% endfor %}";
  EXPECT_THAT(render(forever), HasSubstr("steps"));
  EXPECT_THAT(render("{% for a in range(1000000000) %}{% endfor %}"), HasSubstr("range"));
  EXPECT_THAT(render("{% for a in range(0, -1000000000, -1) %}{% endfor %}"), HasSubstr("range"));
  EXPECT_THAT(render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("deep"));
  EXPECT_THAT(render("{% macro f() %}{% call f() %}x{% endcall %}{% endmacro %}{{ f() }}"), HasSubstr("deep"));
  EXPECT_THAT(render("{{ 'abc' * 1000000000 }}"), HasSubstr("repeats"));
  EXPECT_THAT(render("{{ 1000000000 * '' }}"), HasSubstr("repeats"));
}

// What doubles in a loop ends while it is small, however it doubles. Sixty doublings of anything would fill any
// machine.
TEST(ChatTemplate, DoublingTemplatesEnd) {
  const auto loop = [](const std::string& start, const std::string& body) {
    return render("{% set ns = namespace(s=" + start + ") %}{% for i in range(60) %}" + body + "{% endfor %}done");
  };
  const std::string big = R"({"b":")" + std::string(2'000'000, 'b') + R"("})";
  for (const char* start : {"'ab'", "''", "[1]"}) {
    EXPECT_THAT(loop(start, "{% set ns.s = ns.s + ns.s %}"), HasSubstr("bytes")) << start;
  }
  EXPECT_THAT(loop("'ab'", "{% set ns.s = ns.s ~ ns.s %}"), HasSubstr("bytes"));
  EXPECT_THAT(loop("''", "{% set ns.s = ns.s * 2 %}"), HasSubstr("repeats"));
  EXPECT_THAT(loop("'ab'", "{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}"), HasSubstr("bytes"));
  EXPECT_THAT(loop("'ab'", "{% set ns.s = namespace(s=ns.s.s + ns.s.s) if i else namespace(s='ab') %}"),
              HasSubstr("bytes"));
  EXPECT_THAT(render("{% macro f(s, n) %}{{ f(s + s, n + 1) }}{% endmacro %}{{ f('ab', 0) }}"), HasSubstr("bytes"));
  // A list in a list in a list: it is small until it is printed.
  EXPECT_THAT(loop("['ab']", "{% set ns.s = [ns.s, ns.s] %}"), HasSubstr("done"));
  EXPECT_THAT(loop("['ab']", "{% set ns.s = [ns.s, ns.s] %}{{ ns.s }}"), HasSubstr("bytes"));
  EXPECT_THAT(loop("['ab']", "{% set ns.s = [ns.s, ns.s] %}{% set x = '' ~ ns.s %}"), HasSubstr("bytes"));
  EXPECT_THAT(
      render("{% set ns = namespace(s=[]) %}{% for i in range(300) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}"),
      HasSubstr("deep"));
  // No single value is large, all together are.
  EXPECT_THAT(render("{% for i in range(300) %}{{ b }}{% endfor %}", "[]", big), HasSubstr("prints more than"));
  EXPECT_THAT(render("{% for i in range(1000) %}{% set x = b ~ i %}{% endfor %}", "[]", big), HasSubstr("in all"));
}

TEST(ChatTemplate, BoundsLeaveOrdinaryTemplatesAlone) {
  EXPECT_EQ(
      render("{% for a in range(3) %}{% for b in range(1, 4, 2) if b > a %}{{ a }}{{ b }} {% endfor %}{% endfor %}"),
      "01 03 13 23 ");
  EXPECT_EQ(render("{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) | length }}"),
            "72");
  EXPECT_EQ(render("{{ '=' * 80 }}{{ 2 * 3 }}{{ -2 * 2.5 }}{{ 'x' * -1 }}"), std::string(80, '=') + "6-5.0");
  EXPECT_EQ(render("{% set x %}a{% set y %}b{% endset %}{{ y }}{% endset %}{{ x }}"), "ab");
  EXPECT_EQ(render("{% macro m(a, b=2) %}[{{ a }}{{ b }}{{ caller() }}]{% endmacro %}{% call m(1) %}z{% endcall %}"),
            "[12z]");
  EXPECT_EQ(render("{% for k, v in d.items() %}{{ k }}{{ v }}{% break %}{% endfor %}", "[]", R"({"d":{"b":1,"a":2}})"),
            "b1");
  EXPECT_EQ(render("{% filter upper %}abc{% endfilter %}"), "ABC");
  // Five hundred messages of a thousand bytes gathered in one string.
  EXPECT_EQ(render("{% set ns = namespace(s='') %}{% for i in range(500) %}{% set ns.s = ns.s ~ c %}{% endfor %}"
                   "{{ ns.s | length }}",
                   "[]", R"({"c":")" + std::string(1000, 'c') + R"("})"),
            "500000");
}

TEST(ChatTemplate, DeeplyNestedTemplatesAreRefused) {
  const auto complaint = [](const std::string& source) {
    const auto made = ChatTemplate::parse(source, {}, "deep.jinja");
    return made.ok() ? "parsed" : made.message();
  };
  const auto repeat = [](const std::string& text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
  };
  EXPECT_THAT(complaint("{{ " + repeat("(", 100'000)), HasSubstr("brackets"));
  EXPECT_THAT(complaint("{{ " + repeat("[", 100'000)), HasSubstr("brackets"));
  EXPECT_THAT(complaint("{{ " + repeat("not ", 100'000) + "x }}"), HasSubstr("tokens"));
  EXPECT_THAT(complaint("{{ " + repeat("- ", 100'000) + "x }}"), HasSubstr("tokens"));
  EXPECT_THAT(complaint("{{ x" + repeat("|f", 100'000) + " }}"), HasSubstr("tokens"));
  EXPECT_THAT(complaint("{{ 1" + repeat("+1", 100'000) + " }}"), HasSubstr("tokens"));
  EXPECT_THAT(complaint(repeat("{% if x %}", 10'000)), HasSubstr("statements"));
  EXPECT_THAT(complaint(repeat("{% set x %}", 10'000)), HasSubstr("statements"));
  EXPECT_THAT(complaint("{% if x %}" + repeat("{% elif y %}", 10'000) + "{% endif %}"), HasSubstr("elifs"));
  // Long is not deep.
  EXPECT_EQ(complaint(repeat("{% if x %}a{% endif %}{{ (x) }}{% set x = [1] %}", 5'000)), "parsed");
}

}  // namespace
}  // namespace strobe
