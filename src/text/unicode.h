// Characters: UTF-8 in both directions and the classes that pre-tokenizer patterns ask for (Unicode 16.0, the version
// inside the tiktoken package that is the reference for token ids).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strobe {

// \p{Lu}, \p{Ll}, \p{Lt}, \p{Lm}, \p{Lo}, \p{M}, \p{N}, \s (White_Space), and everything else.
enum class CharClass : uint8_t { kOther, kLu, kLl, kLt, kLm, kLo, kM, kN, kSpace };

struct CharProperties {
  CharClass char_class = CharClass::kOther;
  bool han = false;  // the Script property, as \p{Han} means it (not Script_Extensions)
};

// A code point above 0x10ffff has no class.
[[nodiscard]] CharProperties char_properties(char32_t c);

// The same as one byte per code point, for scanners: the class in the low 7 bits, bit 7 set for Han. 0x110000 entries.
[[nodiscard]] const uint8_t* char_property_bytes();
inline constexpr uint8_t kHanBit = 0x80;

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

struct Utf8Step {
  char32_t code_point = 0;
  uint8_t bytes = 1;
};

// The character that begins at text[at], at < text.size(). The text must be valid UTF-8 and `at` a character's start.
[[nodiscard]] inline Utf8Step utf8_step(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {(first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

void append_utf8(std::string& out, char32_t c);

// What begins at text[0] when any bytes may follow: a whole character, a broken one, or a beginning that needs more.
//   bytes     length of the character, or of the broken part (the longest prefix that could have begun a character, at
//             least 1: what Unicode calls a maximal subpart, and what Python and Rust replace by one U+FFFD)
struct Utf8Part {
  enum class Kind : uint8_t { kCharacter, kBroken, kUnfinished };
  Kind kind = Kind::kBroken;
  size_t bytes = 1;
};
[[nodiscard]] Utf8Part utf8_part(std::string_view text);  // text not empty

[[nodiscard]] bool is_valid_utf8(std::string_view text);

// Appends `bytes` with each broken part replaced by U+FFFD, as Python's bytes.decode("utf-8", "replace") does. With
// `keep_unfinished`, a character still unfinished at the end is left out. Returns how many bytes were taken.
size_t append_repaired_utf8(std::string& out, std::string_view bytes, bool keep_unfinished);

// The whole of `bytes` repaired.
[[nodiscard]] std::string repaired_utf8(std::string_view bytes);

}  // namespace strobe
