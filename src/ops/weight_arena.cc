#include "ops/weight_arena.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace strobe::ops {

void* WeightArena::take(int64_t bytes) {
  constexpr int64_t kAlignment = 64;
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (blocks_.empty() || used_in_last_ + bytes > blocks_.back().bytes()) {
    blocks_.push_back(Buffer::host(std::max(bytes, kBlockBytes)));
    used_in_last_ = 0;
  }
  void* place = blocks_.back().at(used_in_last_);
  used_in_last_ += bytes;
  bytes_ += bytes;
  return place;
}

QuantTensor WeightArena::pack(const QuantTensor& weight) {
  const WeightFormat format = cpu_.packed_format(weight.format);
  if (format == weight.format) return copy(weight);
  return cpu_.pack(weight, take(weight_bytes(format, weight.out, weight.in)));
}

QuantTensor WeightArena::copy(const QuantTensor& weight) {
  // The reference kernels read weights as checkpoints hold them.
  return kernel::ref_kernels().pack(weight, take(weight_bytes(weight.format, weight.out, weight.in)));
}

Tensor WeightArena::copy(const Tensor& tensor) {
  STROBE_CHECK(tensor.contiguous(), "{}", tensor.shape());
  void* place = take(tensor.bytes());
  std::memcpy(place, tensor.data(), static_cast<size_t>(tensor.bytes()));
  return Tensor(place, tensor.dtype(), tensor.shape());
}

}  // namespace strobe::ops
