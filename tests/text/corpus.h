// The test corpus of tests/golden/text_corpus.py, made again here: endless multilingual text from a seed. Change both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strobe::testing {

// SplitMix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  size_t below(size_t bound) { return static_cast<size_t>(next() % bound); }

 private:
  uint64_t state_;
};

using Text = std::u32string;
std::string to_utf8(const Text& text);
Text from_utf8(std::string_view text);  // valid UTF-8 only

// Any code point but surrogates.
char32_t any_character(Random& random);

// Text of at least `bytes` bytes. `first_control` is the first control token's id in the vocabulary it is made for.
std::string corpus(uint64_t seed, size_t bytes, int32_t first_control);

// FNV-1a as the goldens have it: 16 hexadecimal digits, of the text or of the ids as little-endian 32-bit numbers.
uint64_t fnv1a(std::string_view bytes, uint64_t state = 0xcbf29ce484222325ULL);
std::string hex_digest(uint64_t value);
std::string text_digest(std::string_view text);
std::string ids_digest(std::span<const int32_t> ids);

}  // namespace strobe::testing
