#include "base/json_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/ordered_json.h"

namespace strobe {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The message of what must be an error.
template <class T>
std::string refusal(const Result<T>& result) {
  return result.ok() ? "it was accepted" : result.message();
}

class JsonFieldsTest : public ::testing::Test {
 protected:
  static JsonFields fields_of(const json& value) { return *JsonFields::of(value, "config.json"); }
};

TEST_F(JsonFieldsTest, ReadsTypedValues) {
  const json value = {{"i", 7}, {"d", 1e-5}, {"b", true}, {"s", "silu"}, {"whole", 64.0}, {"n", nullptr}};
  const JsonFields fields = fields_of(value);
  EXPECT_EQ(*fields.get<int>("i"), 7);
  EXPECT_EQ(*fields.get<int64_t>("whole"), 64);
  EXPECT_EQ(*fields.get<double>("i"), 7.0);
  EXPECT_EQ(*fields.get<double>("d"), 1e-5);
  EXPECT_TRUE(*fields.get<bool>("b"));
  EXPECT_EQ(*fields.get<std::string>("s"), "silu");
  EXPECT_FALSE(fields.has("n"));
  EXPECT_EQ(*fields.get_or<int>("n", 3), 3);
  EXPECT_FALSE(fields.get_if<int>("absent")->has_value());
}

TEST_F(JsonFieldsTest, MessagesNamePathValueAndWhatIsAccepted) {
  const json value = {{"rope_scaling", {{"factor", -4}}}, {"layers", "61"}, {"heads", 64.5}, {"flag", 1}};
  const JsonFields fields = fields_of(value);
  const JsonFields rope = *fields.object("rope_scaling");
  EXPECT_EQ(refusal(rope.get<double>("factor", {1, 65536})),
            "config.json: rope_scaling.factor is -4; accepted: a number from 1 to 65536");
  EXPECT_EQ(refusal(fields.get<int>("layers", {1, 1024})),
            "config.json: layers is \"61\"; accepted: an integer from 1 to 1024");
  EXPECT_EQ(refusal(fields.get<int>("heads", {.min = 1})),
            "config.json: heads is 64.5; accepted: an integer of at least 1");
  EXPECT_EQ(refusal(fields.get<bool>("flag")), "config.json: flag is 1; accepted: true or false");
  EXPECT_EQ(refusal(fields.get<int>("absent")), "config.json: absent is missing; accepted: an integer");
  EXPECT_EQ(refusal(fields.get<int>("rope_scaling")), "config.json: rope_scaling is an object; accepted: an integer");
  EXPECT_EQ(refusal(fields.object("layers")), "config.json: layers is \"61\"; accepted: an object");
  EXPECT_EQ(refusal(JsonFields::of(json::array({1, 2}), "body")), "body: it is an array of 2; accepted: a JSON object");
}

TEST_F(JsonFieldsTest, BoundsAreInclusive) {
  const json value = {{"a", 1}, {"b", 10}, {"c", 11}, {"d", 0}};
  const JsonFields fields = fields_of(value);
  EXPECT_TRUE(fields.get<int>("a", {1, 10}).ok());
  EXPECT_TRUE(fields.get<int>("b", {1, 10}).ok());
  EXPECT_FALSE(fields.get<int>("c", {1, 10}).ok());
  EXPECT_FALSE(fields.get<int>("d", {1, 10}).ok());
}

TEST_F(JsonFieldsTest, NumbersThatDoNotFitAreRefused) {
  const json value =
      *parse_json(R"({"u": 18446744073709551615, "big": 3000000000, "huge": 1e300, "edge": 9007199254740994.0})", "t");
  const JsonFields fields = fields_of(value);
  EXPECT_FALSE(fields.get<int64_t>("u").ok());
  EXPECT_FALSE(fields.get<int>("big").ok());
  EXPECT_TRUE(fields.get<int64_t>("big").ok());
  EXPECT_FALSE(fields.get<int64_t>("huge").ok());
  EXPECT_FALSE(fields.get<int64_t>("edge").ok()) << "a double above 2^53 does not name one integer";
  EXPECT_TRUE(fields.get<double>("huge").ok());
}

TEST_F(JsonFieldsTest, Lists) {
  const json value = {{"ids", {1, 12, 24}}, {"bad", {1, "x"}}, {"one", 5}, {"empty", json::array()}};
  const JsonFields fields = fields_of(value);
  EXPECT_THAT(*fields.list<int64_t>("ids"), ElementsAre(1, 12, 24));
  EXPECT_TRUE(fields.list<int64_t>("empty")->empty());
  EXPECT_FALSE(fields.list_if<int64_t>("absent")->has_value());
  EXPECT_EQ(refusal(fields.list<int64_t>("bad")), "config.json: bad[1] is \"x\"; accepted: an integer");
  EXPECT_EQ(refusal(fields.list<int64_t>("ids", {0, 20})),
            "config.json: ids[2] is 24; accepted: an integer from 0 to 20");
  EXPECT_EQ(refusal(fields.list<int64_t>("one")), "config.json: one is 5; accepted: an array, each element an integer");
  EXPECT_FALSE(fields.list<int64_t>("absent").ok());
}

TEST_F(JsonFieldsTest, Choices) {
  const json value = {{"act", "gelu"}};
  const JsonFields fields = fields_of(value);
  EXPECT_EQ(refusal(fields.choice("act", {"silu", "relu"})), "config.json: act is \"gelu\"; accepted: silu, relu");
  EXPECT_EQ(*fields.choice("absent", {"silu"}, "silu"), "silu");
  EXPECT_FALSE(fields.choice("absent", {"silu"}).ok());
}

TEST_F(JsonFieldsTest, LongStringsAreCutAndControlCharactersEscaped) {
  const json value = {{"s", std::string(100000, 'x')}, {"c", "a\n\x01"}};
  const JsonFields fields = fields_of(value);
  EXPECT_LT(refusal(fields.get<int>("s")).size(), 200U);
  EXPECT_THAT(refusal(fields.get<int>("c")), HasSubstr(R"("a\n\u0001")"));
  const json wide = {{"s", std::string(79, 'x') + "\xe4\xb8\xad" + "yyyy"}};  // the cut falls inside a character
  EXPECT_FALSE(fields_of(wide).get<int>("s").ok());
}

TEST(ParseJson, RefusesWhatIsNotOneValue) {
  EXPECT_TRUE(parse_json(" {\"a\": [1, 2]} ", "f").ok());
  for (const char* text :
       {"", " ", "{", "{\"a\":}", "{} {}", "{\"a\": NaN}", "[1,]", "{\"a\": 1e999}", "\xff", "\"\xc3\x28\"", "nul"}) {
    EXPECT_THAT(refusal(parse_json(text, "f.json")), ::testing::StartsWith("f.json: not valid JSON: ")) << text;
  }
}

TEST(ParseJson, MessageHoldsNoForeignBytes) {
  const std::string message = refusal(parse_json("{\"a\": \xff\xfe}", "f"));
  for (const char c : message) EXPECT_LT(static_cast<unsigned char>(c), 0x80U);
}

TEST(ParseJson, RefusesDeepNesting) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(64), "f").ok());
  EXPECT_THAT(refusal(parse_json(nested(65), "f")), HasSubstr("nested deeper than 64"));
  EXPECT_FALSE(parse_json(nested(1000000), "f").ok());
  EXPECT_FALSE(parse_json(std::string(1000000, '{'), "f").ok());
}

TEST(ParseJson, RefusesANameTwice) {
  EXPECT_THAT(refusal(parse_json(R"({"a": 1, "b": {"a": 1, "a": 2}})", "f")), HasSubstr("the name \"a\" occurs twice"));
  EXPECT_TRUE(parse_json(R"({"a": {"x": 1}, "b": {"x": 1}})", "f").ok());
  EXPECT_TRUE(parse_json(R"([{"x": 1}, {"x": 1}])", "f").ok());
}

TEST(ParseOrderedJson, KeepsTheOrderAndRefusesWhatParseJsonRefuses) {
  const std::string text = R"({"z":1,"a":{"y":2,"b":[{"x":0,"c":0}]}})";
  const auto value = parse_ordered_json(text, "f");
  ASSERT_TRUE(value.ok()) << value.message();
  EXPECT_EQ(value->dump(), text);
  for (const char* bad : {"", "{", R"({"a": 1, "a": 2})", "{\"a\": \"\xff\"}", "[1] 2"}) {
    EXPECT_EQ(refusal(parse_ordered_json(bad, "f")), refusal(parse_json(bad, "f"))) << bad;
  }
  EXPECT_FALSE(parse_ordered_json(std::string(65, '[') + std::string(65, ']'), "f").ok());
}

// Reading one costs the square of its names.
TEST(ParseOrderedJson, ObjectsHaveABoundedNumberOfNames) {
  const auto names = [](size_t count) {
    std::string text = "[{\"a\": 0";
    for (size_t i = 1; i < count; ++i) text += fmt::format(", \"{}\": 0", i);
    return text + "}, {\"a\": 0}]";
  };
  EXPECT_TRUE(parse_ordered_json(names(kOrderedNamesMax), "f").ok());
  EXPECT_THAT(refusal(parse_ordered_json(names(kOrderedNamesMax + 1), "f")), HasSubstr("more than 1024 names"));
  EXPECT_TRUE(parse_json(names(kOrderedNamesMax + 1), "f").ok());
}

}  // namespace
}  // namespace strobe
