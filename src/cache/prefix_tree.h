// PrefixTree: which prefixes of token texts have their keys and values in pages, so that a request with a known
// beginning need not compute it again.
//
// A node is one whole page: page_size tokens behind its parent's. The tree owns one reference to each of its pages (the
// PagePool counts); requests that use a page own further ones. A node on the way to a locked node is locked too; what
// is not locked can be evicted, the longest unused first and leaves before their parents.
//
// Pages are valid for the target's store and the draft's alike: both are written in the same steps. Only tokens whose
// keys are committed may be inserted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "cache/page_pool.h"

namespace strobe::cache {

class PrefixTree {
 public:
  class Node;  // a handle for callers

  // enabled = false: nothing is ever stored or found.
  PrefixTree(PagePool& pool, bool enabled);
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  struct Match {
    std::vector<PageId> pages;  // one reference to each is the caller's
    Node* node = nullptr;       // locked; nullptr when nothing matched
  };
  // The longest stored prefix of `tokens`, in whole pages.
  [[nodiscard]] Match match_and_lock(std::span<const int32_t> tokens);

  // Stores the whole pages of `tokens`: pages[i] holds tokens [i * page_size, (i + 1) * page_size). Where a page with
  // these tokens is stored already, pages[i] becomes that one (references move along). `held`: the locked node of an
  // earlier part of these tokens, behind which the work begins, or nullptr; it is unlocked. Returns the locked last
  // node; nullptr when nothing is stored.
  Node* insert_and_lock(std::span<const int32_t> tokens, std::span<PageId> pages, Node* held);

  void unlock(Node* node);  // nullptr: nothing

  // Frees up to `pages` pages that nobody uses; returns how many.
  int32_t evict(int32_t pages);

  [[nodiscard]] int32_t pages() const { return pages_; }  // stored
  [[nodiscard]] int32_t evictable_pages() const {
    return static_cast<int32_t>(unlocked_.size());
  }  // of which nobody uses

 private:
  struct TokensLess {
    using is_transparent = void;
    bool operator()(std::span<const int32_t> a, std::span<const int32_t> b) const {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
    }
  };
  using Children = std::map<std::vector<int32_t>, std::unique_ptr<Node>, TokensLess>;

  void lock(Node* node);  // and all above it
  [[nodiscard]] size_t page_size() const { return static_cast<size_t>(pool_.page_size()); }

  PagePool& pool_;
  const bool enabled_;
  std::unique_ptr<Node> root_;
  std::list<Node*> unlocked_;  // the longest unused first; a child always before its parent
  int32_t pages_ = 0;
};

}  // namespace strobe::cache
