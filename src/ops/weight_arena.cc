#include "ops/weight_arena.h"

#include <algorithm>

#include "base/check.h"

namespace strobe::ops {

WeightArena WeightArena::counting(const kernel::WeightForms& forms, int64_t alignment) {
  WeightArena arena(forms, host_memory());
  arena.counting_alignment_ = alignment;
  return arena;
}

void* WeightArena::take(int64_t bytes) {
  bytes = (bytes + alignment() - 1) / alignment() * alignment();
  bytes_ += bytes;
  if (counts_only()) return nullptr;
  if (blocks_.empty() || used_in_last_ + bytes > blocks_.back().bytes()) {
    blocks_.push_back(memory_.allocate(std::max(bytes, kBlockBytes)));
    used_in_last_ = 0;
  }
  void* place = blocks_.back().at(used_in_last_);
  used_in_last_ += bytes;
  return place;
}

QuantTensor WeightArena::place(const QuantTensor& weight, WeightFormat format, Pack write) {
  const int64_t bytes = weight_bytes(format, weight.out, weight.in);
  void* place = take(bytes);
  if (counts_only()) {  // only the form is known
    return {.format = format, .out = weight.out, .in = weight.in, .global_scale = weight.global_scale};
  }
  if (memory_.is_host()) return write(weight, place);
  staging_.resize(static_cast<size_t>(bytes));
  QuantTensor packed = write(weight, staging_.data());
  memory_.upload(place, staging_.data(), bytes);
  const auto moved = [&](const void* part) -> const void* {
    return static_cast<std::byte*>(place) + (static_cast<const std::byte*>(part) - staging_.data());
  };
  packed.data = moved(packed.data);
  if (packed.scales != nullptr) packed.scales = moved(packed.scales);
  packed.device = memory_.device();
  return packed;
}

QuantTensor WeightArena::pack(const QuantTensor& weight) {
  const WeightFormat format = forms_.packed_format(weight.format);
  return format == weight.format ? copy(weight) : place(weight, format, forms_.pack);
}

QuantTensor WeightArena::copy(const QuantTensor& weight) {
  // The reference kernels read weights as checkpoints hold them.
  return place(weight, weight.format, kernel::ref_kernels().pack);
}

Tensor WeightArena::copy(const Tensor& tensor) {
  STROBE_CHECK(tensor.contiguous(), "{}", tensor.shape());
  void* place = take(tensor.bytes());
  if (counts_only()) return Tensor(place, tensor.dtype(), tensor.shape());
  memory_.upload(place, tensor.data(), tensor.bytes());
  return Tensor(place, tensor.dtype(), tensor.shape(), memory_.device());
}

Tensor WeightArena::copy_numbers(std::span<const float> numbers) {
  // Tensors are views of what may be written; copy only reads.
  return copy(Tensor(const_cast<float*>(numbers.data()), DType::kF32, {static_cast<int64_t>(numbers.size())}));
}

ExpertWeights WeightArena::pack_experts(std::span<const Expert> experts) {
  STROBE_CHECK(!experts.empty(), "{} experts", experts.size());
  const QuantTensor& first = experts[0].gate;
  ExpertWeights weights{.count = static_cast<int64_t>(experts.size()), .inter = first.out};
  if (forms_.fuses_experts != nullptr && first.format == WeightFormat::kNvfp4 &&
      forms_.fuses_experts(first.in, first.out)) {
    fuse(experts, weights);
    return weights;
  }
  for (const Expert& expert : experts) {
    weights.each.push_back({pack(expert.gate), pack(expert.up), pack(expert.down)});
  }
  return weights;
}

void WeightArena::fuse(std::span<const Expert> experts, ExpertWeights& fused) {
  const int64_t hidden = experts[0].gate.in;
  const int64_t gate_up_bytes = forms_.fused_bytes(2 * fused.inter, hidden);
  const int64_t down_bytes = forms_.fused_bytes(hidden, fused.inter);
  auto* gate_up = static_cast<std::byte*>(take(fused.count * gate_up_bytes));
  auto* down = static_cast<std::byte*>(take(fused.count * down_bytes));
  std::vector<float> gate_scales, up_scales, down_scales;
  for (const Expert& expert : experts) {
    gate_scales.push_back(expert.gate.global_scale);
    up_scales.push_back(expert.up.global_scale);
    down_scales.push_back(expert.down.global_scale);
    if (counts_only()) continue;
    const auto index = static_cast<int64_t>(gate_scales.size()) - 1;
    staging_.resize(static_cast<size_t>(std::max(gate_up_bytes, down_bytes)));
    forms_.pack_gate_up(expert.gate, expert.up, staging_.data());
    memory_.upload(gate_up + index * gate_up_bytes, staging_.data(), gate_up_bytes);
    forms_.pack_down(expert.down, staging_.data());
    memory_.upload(down + index * down_bytes, staging_.data(), down_bytes);
  }
  fused.gate_up = gate_up;
  fused.down = down;
  fused.gate_scales = copy_numbers(gate_scales);
  fused.up_scales = copy_numbers(up_scales);
  fused.down_scales = copy_numbers(down_scales);
}

}  // namespace strobe::ops
