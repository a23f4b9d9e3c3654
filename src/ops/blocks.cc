#include "base/check.h"
#include "kernel/draw_law.h"
#include "ops/ops.h"

namespace strobe::ops {
namespace {

void check_rows(const char* where, const kernel::Blocks& blocks, std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* tensor : tensors) {
    STROBE_CHECK(tensor->shape() == Shape{blocks.sequences * blocks.block_rows}, "{}: {} for {} sequences of {} rows",
                 where, tensor->shape(), blocks.sequences, blocks.block_rows);
  }
}

}  // namespace

void fill_drafts(Exec& exec, const kernel::Blocks& blocks, const Tensor& drafted, const Tensor& ids) {
  check_rows("fill_drafts", blocks, {&drafted, &ids});
  exec.kernels().fill_drafts({.blocks = blocks, .drafted = drafted.as<int32_t>(), .ids = ids.as<int32_t>()});
}

void draw_tokens(Exec& exec, const DrawTokens& call) {
  Dims dims("draw_tokens");
  dims.check("logits", call.logits, {"rows", "vocab"})
      .check("positions", call.positions, {"rows"})
      .check("tokens", call.tokens, {"rows"});
  if (call.row_begin == nullptr) check_rows("draw_tokens", call.blocks, {&call.tokens});
  STROBE_CHECK(dims["vocab"] <= kernel::kMostDrawColumns, "logits {}", call.logits.shape());
  exec.kernels().draw_tokens({.blocks = call.blocks,
                              .row_begin = call.row_begin,
                              .params = call.params,
                              .logits = call.logits.as<float>(),
                              .stride = dims["vocab"],
                              .columns = dims["vocab"],
                              .positions = call.positions.as<int32_t>(),
                              .tokens = call.tokens.as<int32_t>()});
}

void accept_greedy(Exec& exec, const kernel::Blocks& blocks, const Tensor& ids, const Tensor& best, const Tensor& slots,
                   const Tensor& accepted, const Tensor& committed) {
  check_rows("accept_greedy", blocks, {&ids, &best, &slots, &committed});
  STROBE_CHECK(accepted.shape() == Shape{blocks.sequences}, "accepted {}", accepted.shape());
  exec.kernels().accept_greedy({.blocks = blocks,
                                .ids = ids.as<int32_t>(),
                                .best = best.as<int32_t>(),
                                .slots = slots.as<int32_t>(),
                                .accepted = accepted.as<int32_t>(),
                                .committed = committed.as<int32_t>()});
}

}  // namespace strobe::ops
