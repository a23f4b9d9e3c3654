#include "cache/kv_store.h"

#include <utility>

#include "base/check.h"

namespace strobe::cache {

KvStore::KvStore(const KvGeometry& geometry, int32_t pages, int32_t page_size, std::vector<float> scales,
                 Memory& memory)
    : memory_(memory), geometry_(geometry), pages_(pages), page_size_(page_size), scales_(std::move(scales)) {
  STROBE_CHECK(scales_.empty() || static_cast<int64_t>(scales_.size()) == geometry.layers * geometry.planes,
               "{} scales, {} layers, {} planes", scales_.size(), geometry.layers, geometry.planes);
  const int64_t plane_bytes = int64_t{pages} * page_size * geometry.dim * size_bytes(geometry.dtype);
  for (int64_t i = 0; i < geometry.layers * geometry.planes; ++i) buffers_.push_back(memory_.allocate(plane_bytes));
}

int64_t KvStore::bytes() const {
  return int64_t{pages_} * page_size_ * geometry_.bytes_per_token();
}

kernel::PagedStore KvStore::plane(int64_t layer, int64_t plane) const {
  const auto index = static_cast<size_t>(layer * geometry_.planes + plane);
  STROBE_CHECK(index < buffers_.size(), "layer {}, plane {}", layer, plane);
  return {.data = buffers_[index].data(),
          .dtype = geometry_.dtype,
          .dim = geometry_.dim,
          .page_size = page_size_,
          .scale = scales_.empty() ? 1.0F : scales_[index]};
}

void KvStore::poison(int32_t page) {
  STROBE_CHECK(page >= 0 && page < pages_, "page {} of {}", page, pages_);
  const int64_t bytes = page_size_ * geometry_.dim * size_bytes(geometry_.dtype);
  // All bits set is a NaN in f32, bf16 and e4m3 alike.
  for (const auto& buffer : buffers_) memory_.fill(buffer.at(page * bytes), 0xff, bytes);
}

}  // namespace strobe::cache
