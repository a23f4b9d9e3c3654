// TargetPass: one pass of the target over rows of several sequences, put together on the host and run.
#pragma once

#include <cstdint>
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
  [[nodiscard]] const kernel::AttentionRequest& last() const { return requests_.back(); }

 private:
  static Tensor view(std::vector<int32_t>& numbers) {
    return Tensor(numbers.data(), DType::kI32, {static_cast<int64_t>(numbers.size())});
  }

  int32_t page_size_;
  std::vector<int32_t> ids_, positions_, slots_;
  std::vector<kernel::AttentionRequest> requests_;
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
  // [rows, layers * hidden] of the activation type, when the target captures.
  [[nodiscard]] const Tensor& features() const { return features_; }
  // Of the rows that asked for logits, `count` from the begin-th on.
  [[nodiscard]] RowLogits logits(int64_t begin, int64_t count) const;

 private:
  TargetModel target_;
  RowList rows_;
  std::vector<int32_t> logit_rows_;
  Tensor features_;
  Tensor logits_;  // [logit rows, vocab] f32
  Tensor argmax_;  // [logit rows] i32
};

}  // namespace strobe::engine
