#include "text/unicode.h"

#include <simdjson.h>

#include <algorithm>
#include <memory>

#include "base/check.h"

namespace strobe {
namespace {

constexpr uint32_t kCodePoints = 0x110000;

constexpr uint32_t kRanges[] = {
#include "text/unicode_ranges.inc"
};

std::unique_ptr<uint8_t[]> spread_ranges() {
  auto table = std::make_unique<uint8_t[]>(kCodePoints);
  const size_t count = std::size(kRanges);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t end = i + 1 < count ? kRanges[i + 1] >> 8 : kCodePoints;
    for (uint32_t c = kRanges[i] >> 8; c < end; ++c) table[c] = static_cast<uint8_t>(kRanges[i]);
  }
  return table;
}

// Of few bytes; simdjson is called for the rest, and for long texts, of which it makes short work.
bool is_ascii(std::string_view text) {
  constexpr size_t kFew = 16;
  return text.size() <= kFew && std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

}  // namespace

const uint8_t* char_property_bytes() {
  static const std::unique_ptr<uint8_t[]> table = spread_ranges();
  return table.get();
}

CharProperties char_properties(char32_t c) {
  if (c >= kCodePoints) return {};
  const uint8_t byte = char_property_bytes()[c];
  return {static_cast<CharClass>(byte & ~kHanBit), (byte & kHanBit) != 0};
}

void append_utf8(std::string& out, char32_t c) {
  STROBE_CHECK(c < kCodePoints, "code point {:#x}", static_cast<uint32_t>(c));
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

// Table 3-7 of the Unicode Standard (well-formed UTF-8 byte sequences): only the second byte's range depends on the
// first.
Utf8Part utf8_part(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {Utf8Part::Kind::kCharacter, 1};
  if (first < 0xC2 || first > 0xF4) return {Utf8Part::Kind::kBroken, 1};
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < 2) return {Utf8Part::Kind::kUnfinished, 1};
  const auto second = static_cast<unsigned char>(text[1]);
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (second < low || second > high) return {Utf8Part::Kind::kBroken, 1};
  for (size_t i = 2; i < length; ++i) {
    if (i == text.size()) return {Utf8Part::Kind::kUnfinished, i};
    if (!is_continuation(text[i])) return {Utf8Part::Kind::kBroken, i};
  }
  return {Utf8Part::Kind::kCharacter, length};
}

bool is_valid_utf8(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

size_t append_repaired_utf8(std::string& out, std::string_view bytes, bool keep_unfinished) {
  if (is_ascii(bytes) || is_valid_utf8(bytes)) {
    out += bytes;
    return bytes.size();
  }
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Part part = utf8_part(bytes.substr(at));
    if (part.kind == Utf8Part::Kind::kCharacter) {
      out += bytes.substr(at, part.bytes);
    } else if (part.kind == Utf8Part::Kind::kUnfinished && keep_unfinished) {
      return at;
    } else {
      append_utf8(out, kReplacementCharacter);
    }
    at += part.bytes;
  }
  return at;
}

std::string repaired_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  append_repaired_utf8(out, bytes, false);
  return out;
}

}  // namespace strobe
