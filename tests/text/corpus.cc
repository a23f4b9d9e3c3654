#include "corpus.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <stdexcept>

#include "golden.h"
#include "text/unicode.h"

namespace strobe::testing {
namespace {

constexpr std::array<std::u32string_view, 8> kSeparators = {U"", U" ", U" ", U"\n", U"\n\n", U"  ", U"\t", U"\r\n"};
constexpr std::array<char32_t, 10> kSpaces = {0x20, 0x20, 0x0A, 0x0D, 0x09, 0xA0, 0x3000, 0x2028, 0x85, 0x1C};
constexpr std::array<char32_t, 5> kDigits = {0x30, 0x30, 0x660, 0x966, 0xFF10};
constexpr std::array<std::u32string_view, 10> kContractions = {U"'s", U"'T",      U"'RE", U"'ve",     U"'LL",
                                                               U"'d", U"'\u017f", U"'x",  U"\u2019s", U"'"};
constexpr std::array<std::u32string_view, 7> kControls = {
    U"<|im_end|>", U"[EOS]", U"<|im_user|>", U"<|im_end|", U"<|", U"[", U"<|im_middle|>user<|im_end|>"};
struct Block {
  char32_t first, last;
};
constexpr std::array<Block, 16> kBlocks = {{{0x20, 0x7E},
                                            {0xA0, 0x24F},
                                            {0x2B0, 0x36F},
                                            {0x370, 0x52F},
                                            {0x5D0, 0x6FF},
                                            {0x900, 0xDFF},
                                            {0xE00, 0xE7F},
                                            {0x1100, 0x11FF},
                                            {0x2000, 0x214F},
                                            {0x2E80, 0x2FDF},
                                            {0x3000, 0x30FF},
                                            {0x4E00, 0x9FFF},
                                            {0xAC00, 0xD7A3},
                                            {0x16FE0, 0x16FFF},
                                            {0x1F300, 0x1FAFF},
                                            {0x20000, 0x20FFF}}};

class Maker {
 public:
  Maker(uint64_t seed, int32_t first_control) : random_(seed), first_control_(first_control) {
    std::ifstream file(golden_path("sentences.txt"));
    for (std::string line; std::getline(file, line);) lines_.push_back(from_utf8(line));
    if (lines_.empty()) throw std::runtime_error("no sentences.txt");
  }

  Text part() {
    const size_t kind = random_.below(16);
    if (kind < 7) {
      const Text& line = pick(lines_);
      return line + Text(pick(kSeparators));
    }
    switch (kind) {
      case 7: {
        const Text first = piece_of_line();
        return first + piece_of_line();
      }
      case 8: {
        const char32_t zero = pick(kDigits);
        return repeat(12, [&] { return static_cast<char32_t>(zero + random_.below(10)); });
      }
      case 9:
        return repeat(8, [&] { return pick(kSpaces); });
      case 10:
        return repeat(16, [&] { return any_character(random_); });
      case 11:
        return repeat(16, [&] {
          const Block block = pick(kBlocks);
          return static_cast<char32_t>(block.first + random_.below(block.last - block.first + 1));
        });
      case 12: {
        const Text word = piece_of_line();
        return word + Text(pick(kContractions));
      }
      case 13: {
        if (random_.below(2) == 0) return Text(pick(kControls));
        const auto id = first_control_ - 8 + static_cast<int32_t>(random_.below(300));
        return from_utf8(fmt::format("<|reserved_token_{}|>", id));
      }
      case 14: {
        Text text = piece_of_line();
        for (char32_t& c : text) {
          const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
          if (random_.below(2) == 1 && letter) c ^= 0x20;
        }
        return text;
      }
      default: {
        const char32_t c = piece_of_line()[0];
        return Text(1 + random_.below(40), c);
      }
    }
  }

 private:
  template <class Items>
  const typename Items::value_type& pick(const Items& items) {
    return items[random_.below(items.size())];
  }
  template <class F>
  Text repeat(size_t most, F&& make) {
    Text text;
    for (size_t left = 1 + random_.below(most); left > 0; --left) text += make();
    return text;
  }
  Text piece_of_line() {
    const Text& line = pick(lines_);
    const size_t begin = random_.below(line.size());
    return line.substr(begin, 1 + random_.below(20));
  }

  Random random_;
  int32_t first_control_;
  std::vector<Text> lines_;
};

}  // namespace

uint64_t Random::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::string to_utf8(const Text& text) {
  std::string out;
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}

Text from_utf8(std::string_view text) {
  Text out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    out += step.code_point;
    at += step.bytes;
  }
  return out;
}

char32_t any_character(Random& random) {
  const auto c = static_cast<char32_t>(random.below(0x110000 - 0x800));
  return c < 0xD800 ? c : c + 0x800;
}

std::string corpus(uint64_t seed, size_t bytes, int32_t first_control) {
  Maker maker(seed, first_control);
  std::string out;
  while (out.size() < bytes) out += to_utf8(maker.part());
  return out;
}

uint64_t fnv1a(std::string_view bytes, uint64_t state) {
  for (const char c : bytes) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return state;
}

std::string hex_digest(uint64_t value) {
  return fmt::format("{:016x}", value);
}

std::string text_digest(std::string_view text) {
  return hex_digest(fnv1a(text));
}

std::string ids_digest(std::span<const int32_t> ids) {
  uint64_t state = fnv1a("");
  for (const int32_t id : ids) {
    const auto bits = static_cast<uint32_t>(id);
    const std::array<char, 4> bytes = {static_cast<char>(bits), static_cast<char>(bits >> 8),
                                       static_cast<char>(bits >> 16), static_cast<char>(bits >> 24)};
    state = fnv1a(std::string_view(bytes.data(), 4), state);
  }
  return hex_digest(state);
}

}  // namespace strobe::testing
