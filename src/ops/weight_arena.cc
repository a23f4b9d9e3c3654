#include "ops/weight_arena.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace strobe::ops {

namespace {

// A weight of which only the form is known.
QuantTensor form(const QuantTensor& weight, WeightFormat format) {
  return {.format = format, .out = weight.out, .in = weight.in, .global_scale = weight.global_scale};
}

}  // namespace

WeightArena WeightArena::counting(const kernel::CpuKernels& cpu) {
  WeightArena arena(cpu);
  arena.counts_only_ = true;
  return arena;
}

void* WeightArena::take(int64_t bytes) {
  constexpr int64_t kAlignment = 64;
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (counts_only_) {
    bytes_ += bytes;
    return nullptr;
  }
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
  void* place = take(weight_bytes(format, weight.out, weight.in));
  return counts_only_ ? form(weight, format) : cpu_.pack(weight, place);
}

QuantTensor WeightArena::copy(const QuantTensor& weight) {
  // The reference kernels read weights as checkpoints hold them.
  void* place = take(weight_bytes(weight.format, weight.out, weight.in));
  return counts_only_ ? form(weight, weight.format) : kernel::ref_kernels().pack(weight, place);
}

Tensor WeightArena::copy(const Tensor& tensor) {
  STROBE_CHECK(tensor.contiguous(), "{}", tensor.shape());
  void* place = take(tensor.bytes());
  if (!counts_only_) std::memcpy(place, tensor.data(), static_cast<size_t>(tensor.bytes()));
  return Tensor(place, tensor.dtype(), tensor.shape());
}

}  // namespace strobe::ops
