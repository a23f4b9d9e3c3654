#include "text/unicode.h"

#include <gtest/gtest.h>

#include "golden.h"

namespace strobe {
namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

TEST(Utf8, RepairsAsPythonDoes) {
  for (const auto& item : testing::golden("utf8.json")) {
    const std::string bytes = from_hex(item["hex"]);
    EXPECT_EQ(repaired_utf8(bytes), item["text"].get<std::string>()) << item["hex"];
    EXPECT_EQ(is_valid_utf8(bytes), item["text"].get<std::string>() == bytes) << item["hex"];
  }
}

TEST(Utf8, KeepsOnlyAnUnfinishedCharacterBack) {
  const auto keep = [](std::string_view bytes) {
    std::string out;
    const size_t taken = append_repaired_utf8(out, bytes, true);
    return std::pair(out, taken);
  };
  EXPECT_EQ(keep(""), std::pair(std::string(), size_t{0}));
  EXPECT_EQ(keep("a\xe4\xbd"), std::pair(std::string("a"), size_t{1}));
  EXPECT_EQ(keep("a\xf0\x9f\x98"), std::pair(std::string("a"), size_t{1}));
  EXPECT_EQ(keep("\xe4\xbd\x41"), std::pair(std::string("\xef\xbf\xbd\x41"), size_t{3}));
  EXPECT_EQ(keep("\xe0\x80"), std::pair(std::string("\xef\xbf\xbd\xef\xbf\xbd"), size_t{2}));  // never a beginning
  EXPECT_EQ(keep("\xff"), std::pair(std::string("\xef\xbf\xbd"), size_t{1}));
}

TEST(Utf8, EveryCodePointThereAndBack) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_TRUE(is_valid_utf8(text)) << std::hex << static_cast<uint32_t>(c);
    const Utf8Step step = utf8_step(text, 0);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.bytes, text.size());
    const Utf8Part part = utf8_part(text);
    ASSERT_EQ(part.kind, Utf8Part::Kind::kCharacter);
    ASSERT_EQ(part.bytes, text.size());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const Utf8Part head = utf8_part(text.substr(0, cut));
      ASSERT_EQ(head.kind, Utf8Part::Kind::kUnfinished);
      ASSERT_EQ(head.bytes, cut);
    }
  }
}

// By the Unicode 16.0 data files; the table as a whole is held by split_test against tiktoken.
TEST(CharProperties, KnownCharacters) {
  struct Known {
    char32_t c;
    CharClass char_class;
    bool han;
  };
  for (const Known& known : {Known{'A', CharClass::kLu, false},         Known{'z', CharClass::kLl, false},
                             Known{'0', CharClass::kN, false},          Known{' ', CharClass::kSpace, false},
                             Known{'_', CharClass::kOther, false},      Known{0x85, CharClass::kSpace, false},
                             Known{0x1C, CharClass::kOther, false},     Known{0x1C5, CharClass::kLt, false},
                             Known{0x2B0, CharClass::kLm, false},       Known{0x301, CharClass::kM, false},
                             Known{0x3001, CharClass::kOther, false},   Known{0x3005, CharClass::kLm, true},
                             Known{0x3007, CharClass::kN, true},        Known{0x3042, CharClass::kLo, false},
                             Known{0x4E2D, CharClass::kLo, true},       Known{0x2E80, CharClass::kOther, true},
                             Known{0x16FF0, CharClass::kM, true},       Known{0x1C89, CharClass::kLu, false},
                             Known{0x10FFFF, CharClass::kOther, false}, Known{0x110000, CharClass::kOther, false}}) {
    const CharProperties found = char_properties(known.c);
    EXPECT_EQ(found.char_class, known.char_class) << std::hex << static_cast<uint32_t>(known.c);
    EXPECT_EQ(found.han, known.han) << std::hex << static_cast<uint32_t>(known.c);
  }
}

}  // namespace
}  // namespace strobe
