#include "cache/prefix_tree.h"

#include "base/check.h"

namespace strobe::cache {

class PrefixTree::Node {
 public:
  Node* parent = nullptr;  // nullptr: the root, which has no page and is never locked
  PageId page = 0;
  size_t depth = 0;  // pages on the way to its end, its own included
  int32_t locks = 0;
  Children children;
  Children::iterator place;               // in the parent's children
  std::list<Node*>::iterator unlocked{};  // valid while locks == 0
};

PrefixTree::PrefixTree(PagePool& pool, bool enabled)
    : pool_(pool), enabled_(enabled), root_(std::make_unique<Node>()) {}

PrefixTree::~PrefixTree() {
  evict(pages_);
}

void PrefixTree::lock(Node* node) {
  for (; node->parent != nullptr; node = node->parent) {
    if (node->locks++ == 0) unlocked_.erase(node->unlocked);
  }
}

void PrefixTree::unlock(Node* node) {
  if (node == nullptr) return;
  for (; node->parent != nullptr; node = node->parent) {
    STROBE_CHECK(node->locks > 0, "page {} is not locked", node->page);
    // A node above is locked at least as often, so it comes behind its children in the list.
    if (--node->locks == 0) node->unlocked = unlocked_.insert(unlocked_.end(), node);
  }
}

PrefixTree::Match PrefixTree::match_and_lock(std::span<const int32_t> tokens) {
  Match match;
  Node* node = root_.get();
  for (; tokens.size() >= page_size(); tokens = tokens.subspan(page_size())) {
    const auto child = node->children.find(tokens.first(page_size()));
    if (child == node->children.end()) break;
    node = child->second.get();
    pool_.retain(node->page);
    match.pages.push_back(node->page);
  }
  if (node == root_.get()) return match;
  lock(node);
  match.node = node;
  return match;
}

PrefixTree::Node* PrefixTree::insert_and_lock(std::span<const int32_t> tokens, std::span<PageId> pages, Node* held) {
  if (!enabled_) return nullptr;
  Node* node = held == nullptr ? root_.get() : held;
  const size_t whole = tokens.size() / page_size();
  STROBE_CHECK(node->depth <= whole && whole <= pages.size(), "{} tokens in {} pages, of which {} are held",
               tokens.size(), pages.size(), node->depth);
  if (node->depth == whole) return held;
  for (size_t i = node->depth; i < whole; ++i) {
    const auto key = tokens.subspan(i * page_size(), page_size());
    auto child = node->children.find(key);
    if (child == node->children.end()) {
      child = node->children.emplace(std::vector<int32_t>(key.begin(), key.end()), std::make_unique<Node>()).first;
      Node& made = *child->second;
      made.parent = node;
      made.page = pages[i];
      made.depth = i + 1;
      made.place = child;
      made.unlocked = unlocked_.insert(unlocked_.end(), &made);
      pool_.retain(made.page);
      ++pages_;
    } else if (child->second->page != pages[i]) {
      pool_.retain(child->second->page);
      pool_.release(pages[i]);
      pages[i] = child->second->page;
    }
    node = child->second.get();
  }
  lock(node);
  unlock(held);
  return node;
}

int32_t PrefixTree::evict(int32_t pages) {
  int32_t freed = 0;
  for (; freed < pages && !unlocked_.empty(); ++freed) {
    Node* node = unlocked_.front();
    STROBE_CHECK(node->children.empty(), "page {} is evicted before {} behind it", node->page, node->children.size());
    unlocked_.pop_front();
    pool_.release(node->page);
    --pages_;
    node->parent->children.erase(node->place);
  }
  return freed;
}

}  // namespace strobe::cache
