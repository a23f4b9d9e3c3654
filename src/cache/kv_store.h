// KvStore: the memory of a paged cache: for each layer one buffer of slots (MLA), or two (K and V). Its type and
// geometry are its own; which slots are in use is the PagePool's business.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/args.h"
#include "tensor/memory.h"

namespace strobe::cache {

struct KvGeometry {
  int64_t layers = 0;
  int64_t planes = 1;  // buffers a layer: 1 for a latent that is key and value at once, 2 for K and V
  int64_t dim = 0;     // numbers a slot and plane: latent + rope, or kv_heads * head_dim
  DType dtype = DType::kBf16;

  [[nodiscard]] int64_t bytes_per_token() const { return layers * planes * dim * size_bytes(dtype); }
};

class KvStore {
 public:
  // scales: per layer and plane, of stored e4m3 values; empty = all 1. `memory` outlives the store.
  KvStore(const KvGeometry& geometry, int32_t pages, int32_t page_size, std::vector<float> scales = {},
          Memory& memory = host_memory());

  [[nodiscard]] const KvGeometry& geometry() const { return geometry_; }
  [[nodiscard]] int64_t bytes() const;
  [[nodiscard]] Memory& memory() const { return memory_; }
  [[nodiscard]] kernel::PagedStore plane(int64_t layer, int64_t plane = 0) const;

  // Fills a page of every layer with NaN (tests: nothing may read what was not written).
  void poison(int32_t page);

 private:
  Memory& memory_;
  KvGeometry geometry_;
  int32_t pages_;
  int32_t page_size_;
  std::vector<float> scales_;
  std::vector<Buffer> buffers_;  // [layers * planes]
};

}  // namespace strobe::cache
