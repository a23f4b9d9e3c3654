#include "text/split.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "text/unicode.h"

namespace strobe {
namespace {

uint16_t traits_of_class(CharClass c, bool han) {
  const uint16_t upper = han ? 0 : CharRun::kUpperNoHan;
  const uint16_t lower = han ? 0 : CharRun::kLowerNoHan;
  switch (c) {
    case CharClass::kLu:
    case CharClass::kLt:
      return CharRun::kLetter | upper;
    case CharClass::kLl:
      return CharRun::kLetter | lower;
    case CharClass::kLm:
    case CharClass::kLo:
      return CharRun::kLetter | upper | lower;
    case CharClass::kM:
      return CharRun::kMark | upper | lower;
    case CharClass::kN:
      return CharRun::kNumber;
    case CharClass::kSpace:
      return CharRun::kSpace | CharRun::kPythonSpace;
    case CharClass::kOther:
      return 0;
  }
  return 0;
}

std::array<uint16_t, 256> traits_by_property() {
  std::array<uint16_t, 256> table{};
  for (unsigned property = 0; property < 256; ++property) {
    const bool han = (property & kHanBit) != 0;
    if ((property & ~unsigned{kHanBit}) > static_cast<unsigned>(CharClass::kSpace)) continue;
    const uint16_t base = traits_of_class(static_cast<CharClass>(property & ~unsigned{kHanBit}), han);
    table[property] = static_cast<uint16_t>(base | (han ? CharRun::kHan : 0));
  }
  return table;
}

uint16_t extra_traits(char32_t c) {
  if (c == '\r' || c == '\n') return CharRun::kNewline;
  if (c == ' ') return CharRun::kPlainSpace;
  if (c >= 0x1C && c <= 0x1F) return CharRun::kPythonSpace;
  return 0;
}

// The patterns' building blocks over one window of a run. Each takes a position and gives the end of what it matched,
// or kNoMatch.
class Scanner {
 public:
  static constexpr size_t kNoMatch = SIZE_MAX;
  enum class Case { kExact, kAny };

  Scanner(const CharRun& run, size_t end) : run_(run), end_(end) {}

  [[nodiscard]] bool is(size_t i, unsigned mask) const { return i < end_ && run_.has(i, mask); }
  [[nodiscard]] bool is_not(size_t i, unsigned mask) const { return i < end_ && !run_.has(i, mask); }

  [[nodiscard]] size_t skip(size_t i, unsigned mask, size_t most = SIZE_MAX) const {
    const size_t stop = most < end_ - i ? i + most : end_;
    while (i < stop && run_.has(i, mask)) ++i;
    return i;
  }
  [[nodiscard]] size_t skip_not(size_t i, unsigned mask) const {
    while (i < end_ && !run_.has(i, mask)) ++i;
    return i;
  }

  // 's|'t|'re|'ve|'m|'ll|'d; kAny as (?i:...), for which U+017F (long s) is an s too.
  [[nodiscard]] size_t contraction(size_t i, Case letter_case) const {
    if (letter(i, Case::kExact) != '\'') return kNoMatch;
    const char first = letter(i + 1, letter_case);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return i + 2;
    const char second = letter(i + 2, letter_case);
    const bool two =
        (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
    return two ? i + 3 : kNoMatch;
  }

  // [^\r\n\p{L}\p{N}]?U*L+ (then a contraction), U and L the Kimi classes. Greedy with backtracking: U* takes all it
  // can and gives back until some L follows; with the optional character in front first, then without it.
  [[nodiscard]] size_t kimi_word_with_lower(size_t i) const {
    const auto from = [this](size_t start) {
      size_t lower = skip(start, CharRun::kUpperNoHan);
      while (!is(lower, CharRun::kLowerNoHan)) {
        if (lower == start) return kNoMatch;
        --lower;
      }
      return kimi_suffix(skip(lower, CharRun::kLowerNoHan));
    };
    return with_or_without_prefix(i, from);
  }

  // [^\r\n\p{L}\p{N}]?U+L* (then a contraction)
  [[nodiscard]] size_t kimi_word_with_upper(size_t i) const {
    const auto from = [this](size_t start) {
      const size_t upper = skip(start, CharRun::kUpperNoHan);
      return upper == start ? kNoMatch : kimi_suffix(skip(upper, CharRun::kLowerNoHan));
    };
    return with_or_without_prefix(i, from);
  }

  // [^\r\n\p{L}\p{N}]?WORD+
  [[nodiscard]] size_t prefixed_word(size_t i, unsigned word) const {
    const auto from = [&](size_t start) {
      const size_t stop = skip(start, word);
      return stop == start ? kNoMatch : stop;
    };
    return with_or_without_prefix(i, from);
  }

  //  ?MASK+
  [[nodiscard]] size_t spaced(size_t i, unsigned mask) const {
    const size_t start = is(i, CharRun::kPlainSpace) ? i + 1 : i;
    const size_t stop = skip(start, mask);
    return stop == start ? kNoMatch : stop;
  }

  //  ?[^NOT]+ where NOT holds white space
  [[nodiscard]] size_t spaced_not(size_t i, unsigned mask) const {
    const size_t start = is(i, CharRun::kPlainSpace) ? i + 1 : i;
    const size_t stop = skip_not(start, mask);
    return stop == start ? kNoMatch : stop;
  }

  // \s*[\r\n]+
  [[nodiscard]] size_t lines(size_t i) const {
    size_t stop = skip(i, CharRun::kSpace);
    while (stop > i && !run_.has(stop - 1, CharRun::kNewline)) --stop;
    return stop == i ? kNoMatch : stop;
  }

  // \s+(?!\S)|\s+
  [[nodiscard]] size_t spaces(size_t i) const {
    const size_t stop = skip(i, CharRun::kSpace);
    if (stop == i) return kNoMatch;
    return stop < end_ && stop - i > 1 ? stop - 1 : stop;
  }

 private:
  template <class F>
  [[nodiscard]] size_t with_or_without_prefix(size_t i, const F& from) const {
    if (is_not(i, CharRun::kNewline | CharRun::kLetter | CharRun::kNumber)) {
      const size_t stop = from(i + 1);
      if (stop != kNoMatch) return stop;
    }
    return from(i);
  }

  [[nodiscard]] size_t kimi_suffix(size_t i) const {
    const size_t stop = contraction(i, Case::kAny);
    return stop == kNoMatch ? i : stop;
  }

  // The ASCII character at i; with kAny folded to lower case. 0 for anything else and past the end.
  [[nodiscard]] char letter(size_t i, Case letter_case) const {
    if (i >= end_) return 0;
    const std::string_view c = run_.text(i, i + 1);
    if (letter_case == Case::kAny) {
      if (c == "\xC5\xBF") return 's';
      if (c[0] >= 'A' && c[0] <= 'Z') return static_cast<char>(c[0] - 'A' + 'a');
    }
    return c.size() == 1 ? c[0] : '\0';
  }

  const CharRun& run_;
  size_t end_;
};

constexpr unsigned kNotSymbol = CharRun::kSpace | CharRun::kLetter | CharRun::kNumber;

size_t kimi_piece(const Scanner& scan, size_t i) {
  if (scan.is(i, CharRun::kHan)) return scan.skip(i, CharRun::kHan);
  size_t stop = scan.kimi_word_with_lower(i);
  if (stop == Scanner::kNoMatch) stop = scan.kimi_word_with_upper(i);
  if (stop != Scanner::kNoMatch) return stop;
  if (scan.is(i, CharRun::kNumber)) return scan.skip(i, CharRun::kNumber, 3);
  stop = scan.spaced_not(i, kNotSymbol);
  if (stop != Scanner::kNoMatch) return scan.skip(stop, CharRun::kNewline);
  stop = scan.lines(i);
  return stop != Scanner::kNoMatch ? stop : scan.spaces(i);
}

size_t gpt2_piece(const Scanner& scan, size_t i) {
  size_t stop = scan.contraction(i, Scanner::Case::kExact);
  if (stop == Scanner::kNoMatch) stop = scan.spaced(i, CharRun::kLetter);
  if (stop == Scanner::kNoMatch) stop = scan.spaced(i, CharRun::kNumber);
  if (stop == Scanner::kNoMatch) stop = scan.spaced_not(i, kNotSymbol);
  return stop != Scanner::kNoMatch ? stop : scan.spaces(i);
}

// The family of Qwen2 and Llama-3: what a word is made of and how many digits go together differ.
size_t cl100k_piece(const Scanner& scan, size_t i, unsigned word, size_t digits) {
  size_t stop = scan.contraction(i, Scanner::Case::kAny);
  if (stop == Scanner::kNoMatch) stop = scan.prefixed_word(i, word);
  if (stop != Scanner::kNoMatch) return stop;
  if (scan.is(i, CharRun::kNumber)) return scan.skip(i, CharRun::kNumber, digits);
  stop = scan.spaced_not(i, kNotSymbol | word);
  if (stop != Scanner::kNoMatch) return scan.skip(stop, CharRun::kNewline);
  stop = scan.lines(i);
  return stop != Scanner::kNoMatch ? stop : scan.spaces(i);
}

}  // namespace

void CharRun::assign(std::string_view text, size_t max_chars) {
  STROBE_CHECK(text.size() < UINT32_MAX || max_chars < UINT32_MAX / 4, "a text of {} bytes", text.size());
  static const std::array<uint16_t, 256> traits = traits_by_property();
  const uint8_t* properties = char_property_bytes();
  text_ = text;
  traits_.clear();
  offsets_.clear();
  size_t at = 0;
  while (at < text.size() && traits_.size() < max_chars) {
    const Utf8Step step = utf8_step(text, at);
    offsets_.push_back(static_cast<uint32_t>(at));
    traits_.push_back(static_cast<uint16_t>(traits[properties[step.code_point]] | extra_traits(step.code_point)));
    at += step.bytes;
  }
  offsets_.push_back(static_cast<uint32_t>(at));
}

size_t CharRun::char_at(size_t byte_offset) const {
  const auto found = std::lower_bound(offsets_.begin(), offsets_.end(), byte_offset);
  STROBE_CHECK(found != offsets_.end() && *found == byte_offset, "byte {} begins no character", byte_offset);
  return static_cast<size_t>(found - offsets_.begin());
}

size_t piece_end(SplitPattern pattern, const CharRun& run, size_t begin, size_t end) {
  STROBE_CHECK(begin < end && end <= run.size(), "begin {}, end {}, size {}", begin, end, run.size());
  const Scanner scan(run, end);
  size_t stop = Scanner::kNoMatch;
  switch (pattern) {
    case SplitPattern::kKimi:
      stop = kimi_piece(scan, begin);
      break;
    case SplitPattern::kGpt2:
      stop = gpt2_piece(scan, begin);
      break;
    case SplitPattern::kQwen2:
      stop = cl100k_piece(scan, begin, CharRun::kLetter, 1);
      break;
    case SplitPattern::kLlama3:
      stop = cl100k_piece(scan, begin, CharRun::kLetter, 3);
      break;
    case SplitPattern::kQwen35:
      stop = cl100k_piece(scan, begin, CharRun::kLetter | CharRun::kMark, 1);
      break;
  }
  STROBE_CHECK(stop != Scanner::kNoMatch && stop > begin && stop <= end, "piece at {} ends at {}", begin, stop);
  return stop;
}

}  // namespace strobe
