// Pre-tokenizers: cutting a text into the pieces that byte-pair encoding works on, one by one.
//
// The patterns are regular expressions in the model files. Here each is a hand-written scanner that gives the same
// pieces in linear time without recursion, whatever the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace strobe {

enum class SplitPattern : uint8_t {
  // Kimi-K2 (TikTokenTokenizer.pat_str): Han runs; words by case without Han, with an optional character in front and
  // an
  // optional English contraction behind; numbers by three; symbols; white space.
  //   [\p{Han}]+
  //   [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
  //   [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
  //   \p{N}{1,3}
  //    ?[^\s\p{L}\p{N}]+[\r\n]*
  //   \s*[\r\n]+
  //   \s+(?!\S)
  //   \s+
  kKimi,
  // GPT-2 and SmolLM2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kGpt2,
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  kQwen2,
  // Qwen2's with \p{N}{1,3}
  kLlama3,
  // Qwen2's with [\p{L}\p{M}]+ for \p{L}+ and [^\s\p{L}\p{M}\p{N}]+ for [^\s\p{L}\p{N}]+
  kQwen35,
};

// A text as characters, with what the patterns ask of each. Texts must be valid UTF-8 and below 4 GiB.
class CharRun {
 public:
  // Takes at most `max_chars` characters of `text` (a view that must outlive the run) and replaces what was held
  // before.
  void assign(std::string_view text, size_t max_chars = SIZE_MAX);

  [[nodiscard]] size_t size() const { return traits_.size(); }
  // Byte offset of character i; i = size() gives the end of what was taken.
  [[nodiscard]] size_t offset(size_t i) const { return offsets_[i]; }
  // The character that begins at a byte offset.
  [[nodiscard]] size_t char_at(size_t byte_offset) const;
  [[nodiscard]] std::string_view text(size_t begin, size_t end) const {
    return text_.substr(offsets_[begin], offsets_[end] - offsets_[begin]);
  }

  // Sets of characters; a mask may join several.
  enum Trait : uint16_t {
    kLetter = 1,
    kMark = 2,
    kNumber = 4,
    kSpace = 8,        // \s
    kNewline = 16,     // \r or \n
    kPlainSpace = 32,  // U+0020
    kHan = 64,
    kUpperNoHan = 128,   // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]
    kLowerNoHan = 256,   // [\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]
    kPythonSpace = 512,  // str.isspace(): \s and U+001C to U+001F
  };
  [[nodiscard]] bool has(size_t i, unsigned mask) const { return (traits_[i] & mask) != 0; }

 private:
  std::string_view text_;
  std::vector<uint32_t> offsets_ = {0};
  std::vector<uint16_t> traits_;
};

// Where the piece that begins at `begin` ends, in characters, begin < end <= run.size(). The pattern sees [begin, end)
// as the rest of the text: nothing beyond `end` counts for its look-ahead.
[[nodiscard]] size_t piece_end(SplitPattern pattern, const CharRun& run, size_t begin, size_t end);

}  // namespace strobe
