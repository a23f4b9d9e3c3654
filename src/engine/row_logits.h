// RowLogits: what a pass of the target says at consecutive rows of one sequence. HostRows: of all rows of a pass, where
// the host can read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/exec.h"
#include "tensor/tensor.h"

namespace strobe::engine {

// A view; whoever ran the pass owns the numbers.
struct RowLogits {
  Tensor logits;                    // [rows, vocab] f32; undefined when nobody needs them (choice_work)
  std::span<const int32_t> argmax;  // [rows]: of each row of logits, ties to the lowest id

  [[nodiscard]] std::span<const float> row(int64_t i) const {
    const Tensor one = logits.slice(0, i, i + 1);
    return {one.as<float>(), static_cast<size_t>(one.dim(1))};
  }
};

class HostRows {
 public:
  // Waits for the device. best: [rows] i32. logits: [rows, vocab] f32, brought along when `with_logits`.
  void fetch(ops::Exec& exec, const Tensor& logits, const Tensor& best, bool with_logits);
  void clear() { logits_ = best_ = {}; }
  [[nodiscard]] RowLogits rows(int64_t begin, int64_t count) const;

 private:
  Tensor logits_, best_;
  std::vector<std::byte> logits_storage_, best_storage_;
};

}  // namespace strobe::engine
