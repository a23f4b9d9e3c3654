#include "engine/row_draws.h"

#include <algorithm>

#include "engine/sampling.h"

namespace strobe::engine {

void RowDraws::clear() {
  params_.clear();
  for (auto* list : {&block_tokens_, &row_begin_, &positions_}) list->clear();
}

void RowDraws::add(const StepSequence& sequence, int32_t drafts) {
  params_.push_back(draw_params(*sequence.sampling));
  block_tokens_.push_back(drafts + 1);
  row_begin_.push_back(static_cast<int32_t>(positions_.size()));
  const int32_t last = sequence.first_position + static_cast<int32_t>(sequence.tokens.size()) - 1;
  for (int32_t t = 0; t < block_tokens_.back(); ++t) positions_.push_back(last + t);
}

void RowDraws::run(ops::Exec& exec, ops::WorkspaceFrame& frame, const Tensor& logits, const Tensor& best) {
  const auto sequences = static_cast<int64_t>(params_.size());
  if (sequences == 0) return;
  constexpr auto kParamWords = static_cast<int64_t>(sizeof(kernel::DrawParams) / sizeof(int32_t));
  const auto place = [&](const void* list, int64_t count) {
    return ops::to_device(exec, frame, Tensor(const_cast<void*>(list), DType::kI32, {count}));
  };
  const auto rows = static_cast<int64_t>(positions_.size());
  const Tensor params = place(params_.data(), sequences * kParamWords);
  ops::draw_tokens(exec, {.blocks = {.block_tokens = place(block_tokens_.data(), sequences).as<int32_t>(),
                                     .sequences = sequences,
                                     .block_rows = *std::max_element(block_tokens_.begin(), block_tokens_.end())},
                          .params = reinterpret_cast<const kernel::DrawParams*>(params.data()),
                          .row_begin = place(row_begin_.data(), sequences).as<int32_t>(),
                          .logits = logits,
                          .positions = place(positions_.data(), rows),
                          .tokens = best});
}

}  // namespace strobe::engine
