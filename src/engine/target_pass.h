// TargetPass: one pass of the target over rows of several sequences, put together on the host and run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cache/kv_store.h"
#include "engine/row_logits.h"
#include "model/decoder.h"
#include "ops/exec.h"

namespace strobe::engine {

// Everything a pass needs of a target, borrowed.
struct TargetModel {
  const model::Recipe* recipe = nullptr;
  const model::TargetWeights* weights = nullptr;
  ops::RopeTable rope;
  const cache::KvStore* store = nullptr;
  std::vector<int64_t> capture_layers;  // empty: no features
};

// What a pass yields, in memory of the caller.
struct TargetOutputs {
  Tensor features;  // [rows, layers * hidden] of the activation type; undefined when the target captures none
  Tensor logits;    // [picks, vocab] f32
  Tensor best;      // [picks] i32: of each row of logits, ties to the lowest id
};

[[nodiscard]] TargetOutputs make_outputs(ops::Exec& exec, ops::WorkspaceFrame& frame, const TargetModel& target,
                                         int64_t rows, int64_t picks);

// One pass of the target. ids: [rows] i32. Logits are of the rows that `picks` [picks] i32 names, or of all without it.
// All on the device.
void run_target(ops::Exec& exec, const TargetModel& target, const Tensor& ids, const model::Batch& batch,
                const std::optional<Tensor>& picks, const TargetOutputs& outputs);

// Rows of sequences, in the order they were added.
class RowList {
 public:
  explicit RowList(int32_t page_size) : page_size_(page_size) {}
  void clear();
  // Tokens at consecutive positions of one sequence; `pages` covers them.
  void add(std::span<const int32_t> tokens, int32_t first_position, std::span<const int32_t> pages);

  [[nodiscard]] int64_t rows() const { return static_cast<int64_t>(ids_.size()); }
  // Views of the list's memory, valid until it changes.
  [[nodiscard]] Tensor ids() { return view(ids_); }
  [[nodiscard]] Tensor positions() { return view(positions_); }
  [[nodiscard]] Tensor slots() { return view(slots_); }
  [[nodiscard]] std::span<const kernel::AttentionRequest> requests() const { return requests_; }

  // The rows as the device takes them: views of the list's memory where the device can read it, else copies in `frame`.
  // Sequences of prompt_rows rows and more are listed as prompts (model::MlaExpansion); 0: none is.
  struct Placed {
    Tensor ids;  // [rows] i32
    model::Batch batch;
  };
  [[nodiscard]] Placed place(ops::Exec& exec, ops::WorkspaceFrame& frame, std::span<const int32_t> first_visible = {},
                             int64_t prompt_rows = 0);

 private:
  // Fills the lists of prompts; their pages are the host's, `alone` is not set yet.
  void find_prompts(int64_t prompt_rows);
  static Tensor view(std::vector<int32_t>& numbers) {
    return Tensor(numbers.data(), DType::kI32, {static_cast<int64_t>(numbers.size())});
  }

  int32_t page_size_;
  std::vector<int32_t> ids_, positions_, slots_;
  std::vector<kernel::AttentionRequest> requests_;
  // Of requests that are prompts, and of those that are not.
  std::vector<model::PromptRequest> prompts_;
  std::vector<kernel::AttentionRequest> alone_, others_;
  std::vector<std::byte> staging_;
};

class TargetPass {
 public:
  TargetPass(TargetModel target, int32_t page_size) : target_(std::move(target)), rows_(page_size) {}

  void clear();
  // Adds a sequence's rows; the last `logit_rows` of them get logits.
  void add(std::span<const int32_t> tokens, int32_t first_position, std::span<const int32_t> pages, int32_t logit_rows);
  // Runs. Results live in `frame`.
  void run(ops::Exec& exec, ops::WorkspaceFrame& frame);

  [[nodiscard]] RowList& rows() { return rows_; }
  [[nodiscard]] const TargetModel& target() const { return target_; }
  // The rows where the device has them.
  [[nodiscard]] const model::Batch& batch() const { return placed_.batch; }
  [[nodiscard]] const TargetOutputs& outputs() const { return outputs_; }

 private:
  TargetModel target_;
  RowList rows_;
  std::vector<int32_t> logit_rows_;
  RowList::Placed placed_;
  TargetOutputs outputs_;
};

}  // namespace strobe::engine
