#include "serve/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace strobe::serve {
namespace {

using nlohmann::json;

std::string written(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonWriter, WritesWhatAParserReadsBack) {
  JsonWriter writer;
  writer.begin_object().field("text", "a\"b").field("int", -5).field("big", uint32_t{4000000000}).field("yes", true);
  writer.null_field("none").field("real", 0.25).key("list").begin_array().integer(1).string("two").begin_object();
  writer.end_object().begin_array().end_array().end_array().raw_field("raw", "[1,2]").end_object();
  const json expected = {{"text", "a\"b"},
                         {"int", -5},
                         {"big", 4000000000u},
                         {"yes", true},
                         {"none", {}},
                         {"real", 0.25},
                         {"list", json::array({1, "two", json::object(), json::array()})},
                         {"raw", {1, 2}}};
  EXPECT_EQ(json::parse(writer.text()), expected);
}

TEST(JsonWriter, NumbersThatJsonCannotSayBecomeNull) {
  JsonWriter writer;
  writer.begin_array().number(NAN).number(INFINITY).number(-INFINITY).number(1e300).end_array();
  EXPECT_EQ(json::parse(writer.text()), json::array({nullptr, nullptr, nullptr, 1e300}));
}

TEST(JsonWriter, EveryAsciiCharacterComesBack) {
  for (int c = 0; c < 128; ++c) {
    const std::string text = {'a', static_cast<char>(c), 'b'};
    EXPECT_EQ(json::parse(written(text)).get<std::string>(), text) << c;
  }
}

TEST(JsonWriter, WellFormedUtf8IsUntouched) {
  for (const std::string text : {"é", "汉字", "😀", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF4\x8F\xBF\xBF", "\xC2\x80"}) {
    EXPECT_EQ(written(text), "\"" + text + "\"");
  }
}

TEST(JsonWriter, BrokenUtf8IsReplaced) {
  // Lone continuation, cut sequences, overlong forms, surrogates, beyond U+10FFFF, bytes that never occur.
  for (const std::string text : {"\x80", "\xC3", "\xE4\xBD", "\xF0\x9F\x98", "\xC0\xAF", "\xE0\x80\xAF",
                                 "\xF0\x80\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFE", "\xFF"}) {
    const std::string out = written("a" + text + "z");
    const std::string back = json::parse(out).get<std::string>();  // throws when it is not UTF-8
    EXPECT_TRUE(back.starts_with("a\xEF\xBF\xBD") && back.ends_with("z")) << out;
  }
  EXPECT_EQ(written("\xE4\xBDx"), "\"\xEF\xBF\xBD\xEF\xBF\xBDx\"");
}

// nlohmann's parser judges: what it accepts must be left as it is, what it rejects must be replaced.
TEST(JsonWriter, AgreesWithTheParserOnAllPairsOfBytes) {
  for (int a = 0x80; a < 256; ++a) {
    for (int b = 0x80; b < 256; ++b) {
      const std::string text = {static_cast<char>(a), static_cast<char>(b)};
      const bool valid = json::accept("\"" + text + "\"");
      EXPECT_EQ(written(text) == "\"" + text + "\"", valid) << a << " " << b;
      EXPECT_TRUE(json::accept(written(text))) << a << " " << b;
    }
  }
}

}  // namespace
}  // namespace strobe::serve
