// RowLogits: what a pass of the target says at consecutive rows of one sequence.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace strobe::engine {

// A view; whoever ran the pass owns the numbers.
struct RowLogits {
  Tensor logits;                    // [rows, vocab] f32
  std::span<const int32_t> argmax;  // [rows]: of each row of logits, ties to the lowest id

  [[nodiscard]] std::span<const float> row(int64_t i) const {
    const Tensor one = logits.slice(0, i, i + 1);
    return {one.as<float>(), static_cast<size_t>(one.dim(1))};
  }
};

}  // namespace strobe::engine
