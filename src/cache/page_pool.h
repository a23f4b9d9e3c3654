// PagePool: which pages are free. It knows ids only, no memory: target and draft stores share one pool, so that a slot
// id means the same token in both.
//
// Page 0 is never handed out: it takes the writes of padding rows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace strobe::cache {

using PageId = int32_t;

// Pages that hold so many tokens.
[[nodiscard]] constexpr int32_t pages_for(int64_t tokens, int32_t page_size) {
  return static_cast<int32_t>((tokens + page_size - 1) / page_size);
}
// Where a position of a sequence lies whose tokens are in `pages`.
[[nodiscard]] inline int32_t slot_of(std::span<const PageId> pages, int32_t position, int32_t page_size) {
  return pages[static_cast<size_t>(position / page_size)] * page_size + position % page_size;
}

class PagePool {
 public:
  // pages: all pages of the stores, page 0 included; page_size: slots a page.
  PagePool(int32_t pages, int32_t page_size);

  [[nodiscard]] int32_t page_size() const { return page_size_; }
  [[nodiscard]] int32_t capacity_pages() const { return static_cast<int32_t>(references_.size()) - 1; }
  [[nodiscard]] int32_t free_pages() const { return static_cast<int32_t>(free_.size()); }
  [[nodiscard]] int32_t pages_for(int64_t tokens) const { return cache::pages_for(tokens, page_size_); }

  // One free page with one reference, or nothing when none is left.
  [[nodiscard]] std::optional<PageId> take();
  // One more owner of a page in use (a shared prefix).
  void retain(PageId page);
  // One owner less; the last one frees it.
  void release(PageId page);
  void release(std::span<const PageId> pages);
  // Called with each page that becomes free, on the thread that frees it: the scheduler's, or its lookahead's while a
  // step runs. For tests, which fill the page with NaN before the next step: nothing may read what was not written.
  void on_free(std::function<void(PageId)> callback) { on_free_ = std::move(callback); }
  [[nodiscard]] int32_t references(PageId page) const { return references_[static_cast<size_t>(page)]; }

 private:
  int32_t page_size_;
  std::vector<int32_t> references_;  // by page
  std::function<void(PageId)> on_free_;
  std::vector<PageId> free_;  // taken from the back; starts in descending order, so low pages go first
};

}  // namespace strobe::cache
