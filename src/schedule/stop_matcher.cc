#include "schedule/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace strobe::schedule {
namespace {

// How many bytes of `text` match when `matched` did and `next` follows.
size_t advance(const std::string& text, const std::vector<uint32_t>& borders, size_t matched, char next) {
  while (matched > 0 && text[matched] != next) matched = borders[matched];
  return text[matched] == next ? matched + 1 : 0;
}

std::vector<uint32_t> borders_of(const std::string& text) {
  std::vector<uint32_t> borders(text.size() + 1, 0);
  for (size_t n = 1; n < text.size(); ++n) {
    borders[n + 1] = static_cast<uint32_t>(advance(text, borders, borders[n], text[n]));
  }
  return borders;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> strings) {
  for (std::string& text : strings) {
    if (text.empty()) continue;
    std::vector<uint32_t> borders = borders_of(text);
    patterns_.push_back({.text = std::move(text), .borders = std::move(borders)});
  }
}

std::optional<StopMatcher::Match> StopMatcher::feed(std::string_view bytes) {
  std::optional<Match> first;
  for (Pattern& pattern : patterns_) {
    bool found = false;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (pattern.matched == 0) i = bytes.find(pattern.text[0], i);  // most tokens have no beginning of it
      if (i == std::string_view::npos) break;
      pattern.matched = advance(pattern.text, pattern.borders, pattern.matched, bytes[i]);
      if (pattern.matched < pattern.text.size()) continue;
      pattern.matched = pattern.borders[pattern.matched];
      const size_t from_end = pattern.text.size() + (bytes.size() - 1 - i);
      if (!std::exchange(found, true) && (!first || from_end > first->from_end)) {
        first = {.string = &pattern.text, .from_end = from_end};
      }
    }
  }
  return first;
}

size_t StopMatcher::open_bytes() const {
  size_t open = 0;
  for (const Pattern& pattern : patterns_) open = std::max(open, pattern.matched);
  return open;
}

}  // namespace strobe::schedule
