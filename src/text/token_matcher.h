// Finding whole tokens (special or added ones) inside a text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace strobe {

// A set of strings with ids. find() gives the leftmost place where one of them stands, and of several at that place the
// longest.
class TokenMatcher {
 public:
  TokenMatcher() { nodes_.emplace_back(); }
  void add(std::string_view text, int32_t id);  // text not empty; the first id given to a text stays

  struct Match {
    size_t begin = 0, end = 0;
    int32_t id = -1;
  };
  [[nodiscard]] std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  // A trie with the children of a node as a list: nodes have few children, except the root, which `first_` guards.
  struct Node {
    int32_t id = -1;
    uint32_t first_child = 0, next_sibling = 0;  // 0: none
    char byte = 0;
  };
  [[nodiscard]] uint32_t child(uint32_t node, char byte) const;

  std::vector<Node> nodes_;
  std::array<bool, 256> first_{};  // bytes with which some string begins
};

}  // namespace strobe
