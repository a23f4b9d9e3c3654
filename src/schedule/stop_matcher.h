// StopMatcher: finds stop strings in a text that grows (Knuth, Morris and Pratt): no byte is looked at again, so a
// token costs time in proportion to its own bytes and the number of stop strings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strobe::schedule {

class StopMatcher {
 public:
  // Empty strings are left out: they would end every text.
  explicit StopMatcher(std::vector<std::string> strings);

  struct Match {
    const std::string* string = nullptr;
    size_t from_end = 0;  // bytes from where it begins to the end of the text so far
  };

  // The text goes on by these bytes. The stop string that ends in them; when there are several, the one that begins
  // first, and of those that begin together the one named first.
  std::optional<Match> feed(std::string_view bytes);

  // How many of the text's last bytes are the beginning of a stop string, and so must wait for what follows.
  [[nodiscard]] size_t open_bytes() const;

 private:
  struct Pattern {
    std::string text;
    // borders[n]: the longest beginning of text, shorter than n, that its first n bytes end with
    std::vector<uint32_t> borders;
    size_t matched = 0;  // bytes of it that the text ends with, fewer than all
  };

  std::vector<Pattern> patterns_;
};

}  // namespace strobe::schedule
