#include "base/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace strobe {
namespace {

// Edits that turn a into b.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names) {
  const size_t near = std::min<size_t>(2, word.size() / 2);
  std::string_view nearest;
  size_t best = near + 1;
  for (const std::string_view name : names) {
    if (word.size() > name.size() + near) continue;  // words of clients may be long
    const size_t distance = edit_distance(word, name);
    if (distance < best) {
      best = distance;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace strobe
