// RowDraws: the tokens of a step's rows drawn where their logits are, for steps that are not recorded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/step.h"
#include "kernel/args.h"
#include "ops/ops.h"

namespace strobe::engine {

class RowDraws {
 public:
  void clear();
  // The rows of logits that come next: of a sequence that wants tokens, a row for its last token and one for each
  // draft.
  void add(const StepSequence& sequence, int32_t drafts);
  // logits: [rows, vocab] f32.  best: [rows] i32, the most likely tokens; becomes the drawn ones (kernel::DrawTokens).
  void run(ops::Exec& exec, ops::WorkspaceFrame& frame, const Tensor& logits, const Tensor& best);

 private:
  std::vector<kernel::DrawParams> params_;
  std::vector<int32_t> block_tokens_, row_begin_, positions_;
};

}  // namespace strobe::engine
