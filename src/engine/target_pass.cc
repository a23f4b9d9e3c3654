#include "engine/target_pass.h"

#include <algorithm>

#include "base/check.h"
#include "cache/page_pool.h"

namespace strobe::engine {
namespace {

constexpr int32_t kOnePage = 0;  // the list of pages of a store of one

}  // namespace

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
    slots_.push_back(cache::slot_of(pages, position, page_size_));
  }
}

void RowList::find_prompts(int64_t prompt_rows) {
  prompts_.clear();
  alone_.clear();
  others_.clear();
  if (prompt_rows == 0) return;
  for (const kernel::AttentionRequest& request : requests_) {
    if (request.row_count < prompt_rows) {
      others_.push_back(request);
      continue;
    }
    prompts_.push_back({.request = request});
    alone_.push_back(request);
    alone_.back().row_begin = 0;
    alone_.back().pages = &kOnePage;
  }
}

RowList::Placed RowList::place(ops::Exec& exec, ops::WorkspaceFrame& frame, std::span<const int32_t> first_visible,
                               int64_t prompt_rows) {
  find_prompts(prompt_rows);
  if (exec.on_host()) {
    for (size_t i = 0; i < prompts_.size(); ++i) prompts_[i].alone = &alone_[i];
    return {ids(), {view(positions_), slots(), requests_, first_visible, prompts_, others_}};
  }
  // One copy: requests, prompts, others, then whole numbers: ids, positions, slots, first visible positions, pages.
  int64_t page_count = prompts_.empty() ? 0 : 1;
  for (const auto& request : requests_) page_count += cache::pages_for(request.key_count, page_size_);
  const size_t others = prompts_.empty() ? 0 : others_.size();
  const auto list_bytes = static_cast<int64_t>((requests_.size() + alone_.size() + others) * sizeof requests_[0]);
  const int64_t visible = static_cast<int64_t>(first_visible.size());
  const int64_t numbers = 3 * rows() + visible + page_count;
  const int64_t bytes = list_bytes + numbers * static_cast<int64_t>(sizeof(int32_t));
  staging_.resize(static_cast<size_t>(bytes));
  auto* device = frame.array<std::byte>(bytes);
  auto* list = reinterpret_cast<kernel::AttentionRequest*>(staging_.data());
  auto* next = reinterpret_cast<int32_t*>(staging_.data() + list_bytes);
  const auto on_device = [&](const int32_t* place) {
    return reinterpret_cast<int32_t*>(device + (reinterpret_cast<const std::byte*>(place) - staging_.data()));
  };
  const auto add = [&](std::span<const int32_t> list_of) {
    int32_t* begin = next;
    next = std::copy(list_of.begin(), list_of.end(), next);
    return Tensor(on_device(begin), DType::kI32, {static_cast<int64_t>(list_of.size())}, exec.device());
  };
  Placed placed;
  placed.ids = add(ids_);
  placed.batch.positions = add(positions_);
  placed.batch.slots = add(slots_);
  if (visible > 0) placed.batch.first_visible = {add(first_visible).as<int32_t>(), first_visible.size()};
  const auto* device_list = reinterpret_cast<kernel::AttentionRequest*>(device);
  kernel::AttentionRequest* alone = list + requests_.size();
  kernel::AttentionRequest* other = alone + alone_.size();
  const int32_t* one_page = prompts_.empty() ? nullptr : add({&kOnePage, 1}).as<int32_t>();
  size_t prompt = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    list[i] = requests_[i];
    const auto count = static_cast<size_t>(cache::pages_for(list[i].key_count, page_size_));
    list[i].pages = add({requests_[i].pages, count}).as<int32_t>();
    if (prompts_.empty()) continue;
    if (list[i].row_count < prompt_rows) {
      *other++ = list[i];
      continue;
    }
    prompts_[prompt].request.pages = list[i].pages;
    prompts_[prompt].alone = device_list + requests_.size() + prompt;
    alone[prompt] = alone_[prompt];
    alone[prompt++].pages = one_page;
  }
  placed.batch.requests = {device_list, requests_.size()};
  placed.batch.prompts = prompts_;
  placed.batch.others = {device_list + requests_.size() + alone_.size(), others};
  exec.memory().upload(device, staging_.data(), bytes);
  return placed;
}

void TargetPass::clear() {
  rows_.clear();
  logit_rows_.clear();
  outputs_ = {};
  placed_ = {};
}

void TargetPass::add(std::span<const int32_t> tokens, int32_t first_position, std::span<const int32_t> pages,
                     int32_t logit_rows) {
  rows_.add(tokens, first_position, pages);
  const auto end = static_cast<int32_t>(rows_.rows());
  for (int32_t row = end - logit_rows; row < end; ++row) logit_rows_.push_back(row);
}

void run_target(ops::Exec& exec, const TargetModel& target, const Tensor& ids, const model::Batch& batch,
                const std::optional<Tensor>& picks, const TargetOutputs& outputs) {
  const model::Recipe& recipe = *target.recipe;
  ops::WorkspaceFrame frame(exec.workspace());
  const Tensor h = frame.tensor(DType::kF32, {ids.dim(0), recipe.hidden});
  ops::embed(exec, target.weights->embedding, ids, h);
  const model::Capture capture{target.capture_layers, outputs.features};
  model::run_layers(exec, recipe, target.weights->layers, target.rope, *target.store, batch, h,
                    target.capture_layers.empty() ? nullptr : &capture);
  Tensor last = h;
  if (picks) {
    if (picks->dim(0) == 0) return;
    last = frame.tensor(DType::kF32, {picks->dim(0), recipe.hidden});
    ops::gather_rows(exec, h, *picks, last);
  }
  model::run_head(exec, last, target.weights->norm, recipe.epsilon, target.weights->head, outputs.logits);
  ops::argmax(exec, outputs.logits, outputs.best);
}

TargetOutputs make_outputs(ops::Exec& exec, ops::WorkspaceFrame& frame, const TargetModel& target, int64_t rows,
                           int64_t picks) {
  TargetOutputs outputs;
  if (!target.capture_layers.empty()) {
    const auto layers = static_cast<int64_t>(target.capture_layers.size());
    outputs.features = frame.tensor(exec.activation(), {rows, layers * target.recipe->hidden});
  }
  outputs.logits = frame.tensor(DType::kF32, {picks, target.recipe->vocab});
  outputs.best = frame.tensor(DType::kI32, {picks});
  return outputs;
}

void TargetPass::run(ops::Exec& exec, ops::WorkspaceFrame& frame) {
  const auto wanted = static_cast<int64_t>(logit_rows_.size());
  if (rows_.rows() == 0) return;
  outputs_ = make_outputs(exec, frame, target_, rows_.rows(), wanted);
  placed_ = rows_.place(exec, frame, {}, target_.recipe->expansion.min_rows);
  const Tensor picks = ops::to_device(exec, frame, Tensor(logit_rows_.data(), DType::kI32, {wanted}));
  run_target(exec, target_, placed_.ids, placed_.batch, picks, outputs_);
}

}  // namespace strobe::engine
