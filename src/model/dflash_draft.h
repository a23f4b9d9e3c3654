// The DFlash draft: a small block-diffusion model (arXiv 2602.06036) that sees the target's hidden states as its
// context.
//
// Two things are asked of it:
//   write_context  keys and values of committed tokens, from the features captured in the target's pass. Only fc,
//   hidden_norm
//                  and the k and v projections; no layer depends on another, so all layers' projections are one launch.
//                  The layer's input norm is NOT applied to the context (it is to block tokens).
//   draft          the block [last token, MASK x (B - 1)] through all layers in one pass; row i predicts the token AT
//   its own
//                  position, i = 1 .. B - 1, through the target's head. Always the argmax.
#pragma once

#include <vector>

#include "model/decoder.h"

namespace strobe::model {

class DflashDraft {
 public:
  // `embedding` and `head` are the target's; all are borrowed.
  DflashDraft(Recipe recipe, DraftWeights weights, ops::RopeTable rope, const QuantTensor& embedding,
              const QuantTensor& head, int32_t mask_token);

  [[nodiscard]] const Recipe& recipe() const { return recipe_; }
  [[nodiscard]] int32_t mask_token() const { return mask_token_; }

  // features: [tokens, features * hidden] A;  positions, slots: [tokens] i32 (slot -1: the row is not committed)
  void write_context(ops::Exec& exec, const Tensor& features, const Tensor& positions, const Tensor& slots,
                     const cache::KvStore& store) const;

  // ids: [tokens] i32, blocks one after another as batch.requests says;  tokens: [tokens] i32: for every row the argmax
  // of its logits (of a block's first row too, which means nothing). hidden, when defined: [tokens, hidden] f32 after
  // the last norm, for tests. The blocks' own keys and values are written at batch.slots; the commit overwrites those
  // of accepted tokens.
  void draft(ops::Exec& exec, const Tensor& ids, const Batch& batch, const cache::KvStore& store, const Tensor& tokens,
             const Tensor& hidden = {}) const;

 private:
  Recipe recipe_;
  DraftWeights weights_;
  ops::RopeTable rope_;
  QuantTensor embedding_;
  QuantTensor head_;
  int32_t mask_token_;
};

}  // namespace strobe::model
