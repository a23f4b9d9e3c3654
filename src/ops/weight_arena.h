// WeightArena: where a model's weights live. Each matrix is written once, in the form that the device's kernels read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/kernels.h"
#include "tensor/buffer.h"
#include "tensor/quant_tensor.h"

namespace strobe::ops {

struct Expert {
  QuantTensor gate;  // [inter, hidden]
  QuantTensor up;    // [inter, hidden]
  QuantTensor down;  // [hidden, inter]
};

// The routed experts of one layer, in one of two forms.
struct ExpertWeights {
  int64_t count = 0;
  int64_t inter = 0;
  std::vector<Expert> each;       // one by one; empty when fused
  const void* gate_up = nullptr;  // all in two pieces (kernel/args.h, FusedExperts)
  const void* down = nullptr;
  Tensor gate_scales, up_scales, down_scales;  // [count] f32

  [[nodiscard]] bool fused() const { return each.empty(); }
};

class WeightArena {
 public:
  // Weights for `forms` in `memory`, which outlives the arena.
  WeightArena(const kernel::WeightForms& forms, Memory& memory) : forms_(forms), memory_(memory) {}
  // Of the CPU.
  explicit WeightArena(const kernel::CpuKernels& cpu) : WeightArena(kernel::weight_forms(cpu), host_memory()) {}
  // One for plans: it only counts. Data of what it is given and of what it gives is nullptr.
  static WeightArena counting(const kernel::WeightForms& forms, int64_t alignment);
  [[nodiscard]] bool counts_only() const { return counting_alignment_ > 0; }

  // Packs a row-major matrix for products (ops::linear).
  QuantTensor pack(const QuantTensor& weight);
  // Packs all experts of a layer, row-major ones of one shape and format.
  ExpertWeights pack_experts(std::span<const Expert> experts);
  // Copies a row-major matrix as it is (embedding tables).
  QuantTensor copy(const QuantTensor& weight);
  // Copies numbers (norm weights, tables).
  Tensor copy(const Tensor& tensor);

  // All bytes handed out so far.
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  // Blocks this large are backed by huge pages and shared by many small matrices.
  static constexpr int64_t kBlockBytes = int64_t{32} << 20;
  using Pack = QuantTensor (*)(const QuantTensor& weight, void* packed);

  [[nodiscard]] int64_t alignment() const { return counts_only() ? counting_alignment_ : memory_.alignment(); }
  void* take(int64_t bytes);
  QuantTensor place(const QuantTensor& weight, WeightFormat format, Pack write);
  void fuse(std::span<const Expert> experts, ExpertWeights& fused);
  Tensor copy_numbers(std::span<const float> numbers);

  kernel::WeightForms forms_;
  Memory& memory_;
  int64_t counting_alignment_ = 0;
  std::vector<Buffer> blocks_;
  std::vector<std::byte> staging_;  // what is packed for memory that the host cannot write
  int64_t used_in_last_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace strobe::ops
