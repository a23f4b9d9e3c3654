#include "text/token_matcher.h"

#include "base/check.h"

namespace strobe {

uint32_t TokenMatcher::child(uint32_t node, char byte) const {
  uint32_t at = nodes_[node].first_child;
  while (at != 0 && nodes_[at].byte != byte) at = nodes_[at].next_sibling;
  return at;
}

void TokenMatcher::add(std::string_view text, int32_t id) {
  STROBE_CHECK(!text.empty(), "an empty text for token {}", id);
  first_[static_cast<unsigned char>(text[0])] = true;
  uint32_t node = 0;
  for (const char byte : text) {
    uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({-1, 0, nodes_[node].first_child, byte});
      nodes_[node].first_child = next;
    }
    node = next;
  }
  if (nodes_[node].id < 0) nodes_[node].id = id;
}

std::optional<TokenMatcher::Match> TokenMatcher::find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!first_[static_cast<unsigned char>(text[begin])]) continue;
    Match best;
    uint32_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      node = child(node, text[at]);
      if (node == 0) break;
      if (nodes_[node].id >= 0) best = {begin, at + 1, nodes_[node].id};
    }
    if (best.id >= 0) return best;
  }
  return std::nullopt;
}

}  // namespace strobe
