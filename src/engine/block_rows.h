// BlockRows: the rows of a decode step in a layout that only depends on how many sequences there are, at an address
// that stays, for devices that record a step once and replay it: sequence s has rows [s * B, (s + 1) * B), B the
// largest block. Rows behind a sequence's own block, and sequences added to reach a size that repeats, belong to no
// request and store nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/step.h"
#include "model/decoder.h"
#include "ops/exec.h"
#include "tensor/buffer.h"

namespace strobe::engine {

// Whether every sequence of a plan feeds one token and wants tokens.
[[nodiscard]] bool only_decodes(const StepPlan& plan);

// As many sequences as a recording is made for.
[[nodiscard]] int64_t recorded_sequences(int64_t sequences);
// How many such numbers there are for 1 to `sequences` sequences.
[[nodiscard]] int64_t recorded_sizes(int64_t sequences);

class BlockRows {
 public:
  BlockRows(ops::Exec& exec, int32_t block_rows, int32_t page_size)
      : exec_(exec), recorder_(exec.kernels().new_recorder()), block_rows_(block_rows), page_size_(page_size) {}

  // Lays a plan out (only_decodes) and brings it to the device. Row 0 of a block holds the fed token, the others
  // `filler`. first_visible: for each sequence, or empty.
  void place(const StepPlan& plan, int32_t filler, std::span<const int32_t> first_visible = {});

  // Of what place laid out; all on the device.
  [[nodiscard]] int64_t sequences() const { return blocks_.sequences; }
  [[nodiscard]] int64_t rows() const { return blocks_.sequences * block_rows_; }
  [[nodiscard]] const kernel::Blocks& blocks() const { return blocks_; }
  [[nodiscard]] const Tensor& ids() const { return ids_; }  // [rows] i32, fed tokens and fillers
  // The same once more, for a pass whose ids are filled in on the way.
  [[nodiscard]] const Tensor& filled_ids() const { return filled_ids_; }
  [[nodiscard]] const model::Batch& batch() const { return batch_; }
  // ops::draw_tokens over these rows. logits: [rows, vocab] f32; tokens: [rows] i32, in: the most likely ones
  void draw(const Tensor& logits, const Tensor& tokens) const;
  // What sets recordings over these rows apart from all others.
  [[nodiscard]] uint64_t tag() const;

 private:
  ops::Exec& exec_;
  uint64_t recorder_;
  int32_t block_rows_;
  int32_t page_size_;
  std::vector<std::byte> staging_;
  Buffer memory_;
  kernel::Blocks blocks_;
  const kernel::DrawParams* draw_params_ = nullptr;
  Tensor ids_, filled_ids_;
  model::Batch batch_;
};

}  // namespace strobe::engine
