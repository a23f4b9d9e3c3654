#include "engine/target_pass.h"

#include "base/check.h"

namespace strobe::engine {

void RowList::clear() {
  ids_.clear();
  positions_.clear();
  slots_.clear();
  requests_.clear();
}

void RowList::add(std::span<const int32_t> tokens, int32_t first_position, std::span<const int32_t> pages) {
  const auto count = static_cast<int32_t>(tokens.size());
  STROBE_CHECK(static_cast<int64_t>(pages.size()) * page_size_ >= first_position + count, "{} pages, position {} + {}",
               pages.size(), first_position, count);
  requests_.push_back({.row_begin = static_cast<int32_t>(ids_.size()),
                       .row_count = count,
                       .first_position = first_position,
                       .key_count = first_position + count,
                       .pages = pages.data()});
  for (int32_t i = 0; i < count; ++i) {
    const int32_t position = first_position + i;
    ids_.push_back(tokens[static_cast<size_t>(i)]);
    positions_.push_back(position);
    slots_.push_back(pages[static_cast<size_t>(position / page_size_)] * page_size_ + position % page_size_);
  }
}

void TargetPass::clear() {
  rows_.clear();
  logit_rows_.clear();
  features_ = {};
  logits_ = {};
  argmax_ = {};
}

void TargetPass::add(std::span<const int32_t> tokens, int32_t first_position, std::span<const int32_t> pages,
                     int32_t logit_rows) {
  rows_.add(tokens, first_position, pages);
  const auto end = static_cast<int32_t>(rows_.rows());
  for (int32_t row = end - logit_rows; row < end; ++row) logit_rows_.push_back(row);
}

void TargetPass::run(ops::Exec& exec, ops::WorkspaceFrame& frame) {
  const model::Recipe& recipe = *target_.recipe;
  const int64_t rows = rows_.rows();
  const auto wanted = static_cast<int64_t>(logit_rows_.size());
  if (rows == 0) return;
  if (!target_.capture_layers.empty()) {
    features_ =
        frame.tensor(exec.activation(), {rows, static_cast<int64_t>(target_.capture_layers.size()) * recipe.hidden});
  }
  logits_ = frame.tensor(DType::kF32, {wanted, recipe.vocab});
  argmax_ = frame.tensor(DType::kI32, {wanted});

  ops::WorkspaceFrame scratch(exec.workspace());
  const Tensor h = scratch.tensor(DType::kF32, {rows, recipe.hidden});
  ops::embed(exec, target_.weights->embedding, rows_.ids(), h);
  const model::Batch batch{.positions = rows_.positions(), .slots = rows_.slots(), .requests = rows_.requests()};
  const model::Capture capture{target_.capture_layers, features_};
  model::run_layers(exec, recipe, target_.weights->layers, target_.rope, *target_.store, batch, h,
                    target_.capture_layers.empty() ? nullptr : &capture);
  if (wanted == 0) return;
  const Tensor picked = scratch.tensor(DType::kF32, {wanted, recipe.hidden});
  ops::gather_rows(exec, h, Tensor(logit_rows_.data(), DType::kI32, {wanted}), picked);
  model::run_head(exec, picked, target_.weights->norm, recipe.epsilon, target_.weights->head, logits_);
  ops::argmax(exec, logits_, argmax_);
}

RowLogits TargetPass::logits(int64_t begin, int64_t count) const {
  return {.logits = logits_.slice(0, begin, begin + count),
          .argmax = {argmax_.slice(0, begin, begin + count).as<int32_t>(), static_cast<size_t>(count)}};
}

}  // namespace strobe::engine
