#include "cache/page_pool.h"

#include "base/check.h"

namespace strobe::cache {

PagePool::PagePool(int32_t pages, int32_t page_size) : page_size_(page_size) {
  STROBE_CHECK(pages >= 2 && page_size >= 1, "pages = {}, page_size = {}", pages, page_size);
  references_.assign(static_cast<size_t>(pages), 0);
  references_[0] = 1;
  free_.reserve(static_cast<size_t>(pages));
  for (PageId page = pages - 1; page >= 1; --page) free_.push_back(page);
}

std::optional<PageId> PagePool::take() {
  if (free_.empty()) return std::nullopt;
  const PageId page = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(page)] = 1;
  return page;
}

void PagePool::retain(PageId page) {
  STROBE_CHECK(page > 0 && references_.at(static_cast<size_t>(page)) > 0, "page {} is not in use", page);
  ++references_[static_cast<size_t>(page)];
}

void PagePool::release(PageId page) {
  STROBE_CHECK(page > 0 && references_.at(static_cast<size_t>(page)) > 0, "page {} is not in use", page);
  if (--references_[static_cast<size_t>(page)] > 0) return;
  if (on_free_) on_free_(page);
  free_.push_back(page);
}

void PagePool::release(std::span<const PageId> pages) {
  for (const PageId page : pages) release(page);
}

}  // namespace strobe::cache
