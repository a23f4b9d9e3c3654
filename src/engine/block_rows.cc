#include "engine/block_rows.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/mix.h"
#include "cache/page_pool.h"
#include "engine/sampling.h"

namespace strobe::engine {
namespace {

using kernel::AttentionRequest;
using kernel::DrawParams;

int32_t page_count(const StepSequence& sequence, int32_t page_size) {
  return cache::pages_for(sequence.first_position + sequence.block_tokens, page_size);
}

}  // namespace

bool only_decodes(const StepPlan& plan) {
  return !plan.sequences.empty() && std::all_of(plan.sequences.begin(), plan.sequences.end(), [](const auto& sequence) {
    return sequence.wants_token && sequence.tokens.size() == 1;
  });
}

int64_t recorded_sequences(int64_t sequences) {
  // Powers of two and the steps half way between: at most a third of the rows is padding.
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(sequences)));
  return sequences <= power / 4 * 3 ? power / 4 * 3 : power;
}

int64_t recorded_sizes(int64_t sequences) {
  int64_t sizes = 0;
  for (int64_t n = 1; n <= sequences; n = recorded_sequences(n) + 1) ++sizes;
  return sizes;
}

void BlockRows::place(const StepPlan& plan, int32_t filler, std::span<const int32_t> first_visible) {
  const int64_t sequences = recorded_sequences(static_cast<int64_t>(plan.sequences.size()));
  const int64_t rows = sequences * block_rows_;
  int64_t pages = 0;
  for (const StepSequence& sequence : plan.sequences) pages += page_count(sequence, page_size_);
  // Requests, how they draw, then whole numbers: ids twice, positions, slots, tokens of blocks, first visible
  // positions, pages.
  const auto list_bytes = sequences * static_cast<int64_t>(sizeof(AttentionRequest) + sizeof(DrawParams));
  const int64_t bytes = list_bytes + (4 * rows + 2 * sequences + pages) * static_cast<int64_t>(sizeof(int32_t));
  staging_.resize(static_cast<size_t>(bytes));
  if (memory_.bytes() < bytes) {
    exec_.kernels().wait();
    exec_.kernels().forget_recorded();
    memory_ = exec_.memory().allocate(2 * bytes);
  }
  auto* requests = reinterpret_cast<AttentionRequest*>(staging_.data());
  auto* draw_params = reinterpret_cast<DrawParams*>(requests + sequences);
  auto* ids = reinterpret_cast<int32_t*>(staging_.data() + list_bytes);
  int32_t* filled_ids = ids + rows;
  int32_t* positions = filled_ids + rows;
  int32_t* slots = positions + rows;
  int32_t* block_tokens = slots + rows;
  int32_t* visible = block_tokens + sequences;
  int32_t* next_page = visible + sequences;
  const auto on_device = [&](const void* place) {
    return memory_.at(reinterpret_cast<const std::byte*>(place) - staging_.data());
  };
  std::fill(ids, positions, filler);
  std::fill(positions, slots, 0);
  std::fill(slots, block_tokens, -1);
  std::fill(block_tokens, next_page, 0);
  std::fill_n(requests, sequences, AttentionRequest{});
  std::fill_n(draw_params, sequences, DrawParams{});
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const StepSequence& sequence = plan.sequences[i];
    const int32_t tokens = sequence.block_tokens;
    STROBE_CHECK(tokens >= 1 && tokens <= block_rows_, "a block of {}, {} at most", tokens, block_rows_);
    const auto first = static_cast<int32_t>(i) * block_rows_;
    ids[first] = filled_ids[first] = sequence.tokens[0];
    for (int32_t t = 0; t < tokens; ++t) {
      const int32_t position = sequence.first_position + t;
      positions[first + t] = position;
      slots[first + t] = cache::slot_of(sequence.pages, position, page_size_);
    }
    block_tokens[i] = tokens;
    draw_params[i] = engine::draw_params(*sequence.sampling);
    if (!first_visible.empty()) visible[i] = first_visible[i];
    requests[i] = {.row_begin = first,
                   .row_count = tokens,
                   .first_position = sequence.first_position,
                   .key_count = sequence.first_position + tokens,
                   .pages = reinterpret_cast<const int32_t*>(on_device(next_page))};
    next_page = std::copy_n(sequence.pages.begin(), page_count(sequence, page_size_), next_page);
  }
  exec_.memory().upload(memory_.data(), staging_.data(), bytes);

  const auto tensor = [&](const int32_t* place, int64_t count) {
    return Tensor(on_device(place), DType::kI32, {count}, exec_.device());
  };
  ids_ = tensor(ids, rows);
  filled_ids_ = tensor(filled_ids, rows);
  draw_params_ = reinterpret_cast<const DrawParams*>(on_device(draw_params));
  blocks_ = {
      .block_tokens = tensor(block_tokens, sequences).as<int32_t>(), .sequences = sequences, .block_rows = block_rows_};
  batch_ = {.positions = tensor(positions, rows),
            .slots = tensor(slots, rows),
            .requests = {reinterpret_cast<const AttentionRequest*>(memory_.data()), static_cast<size_t>(sequences)}};
  if (!first_visible.empty()) {
    batch_.first_visible = {tensor(visible, sequences).as<int32_t>(), static_cast<size_t>(sequences)};
  }
}

void BlockRows::draw(const Tensor& logits, const Tensor& tokens) const {
  ops::draw_tokens(
      exec_,
      {.blocks = blocks_, .params = draw_params_, .logits = logits, .positions = batch_.positions, .tokens = tokens});
}

uint64_t BlockRows::tag() const {
  return mix(mix(recorder_, reinterpret_cast<uint64_t>(memory_.data())), static_cast<uint64_t>(blocks_.sequences));
}

}  // namespace strobe::engine
