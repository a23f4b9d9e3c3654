#include <algorithm>

#include "base/check.h"
#include "ops/ops.h"
#include "ops/rows.h"

namespace strobe::ops {
namespace {

// (token, choice) pairs sorted by expert: expert e owns sorted places [begin[e], begin[e + 1]).
struct Grouping {
  int32_t* begin;   // [experts + 1]
  int32_t* tokens;  // [tokens * top_k]: the token at each sorted place
  int32_t* slots;   // [tokens, top_k]: the sorted place of each pair
};

Grouping group_by_expert(WorkspaceFrame& frame, const int32_t* ids, int64_t tokens, int64_t top_k, int64_t experts) {
  Grouping grouping{frame.array<int32_t>(experts + 1), frame.array<int32_t>(tokens * top_k),
                    frame.array<int32_t>(tokens * top_k)};
  auto* next = frame.array<int32_t>(experts);
  std::fill_n(grouping.begin, experts + 1, 0);
  for (int64_t i = 0; i < tokens * top_k; ++i) ++grouping.begin[ids[i] + 1];
  for (int64_t e = 0; e < experts; ++e) {
    grouping.begin[e + 1] += grouping.begin[e];
    next[e] = grouping.begin[e];
  }
  for (int64_t i = 0; i < tokens * top_k; ++i) {
    const int32_t place = next[ids[i]]++;
    grouping.slots[i] = place;
    grouping.tokens[place] = static_cast<int32_t>(i / top_k);
  }
  return grouping;
}

// What routed_experts asks for, checked.
struct Call {
  const Router& router;
  const ExpertWeights& weights;
  const Tensor& x;
  const Tensor& h;
  int64_t tokens;
  int64_t experts;
  int64_t hidden;
  const int32_t* ids;          // [tokens, top_k]
  const float* token_weights;  // [tokens, top_k]
};

void run_fused(Exec& exec, WorkspaceFrame& frame, const Call& call) {
  const ExpertWeights& w = call.weights;
  kernel::FusedExperts args{.x = rows_of(call.x),
                            .ids = call.ids,
                            .weights = call.token_weights,
                            .gate_up = w.gate_up,
                            .down = w.down,
                            .gate_scales = w.gate_scales.as<float>(),
                            .up_scales = w.up_scales.as<float>(),
                            .down_scales = w.down_scales.as<float>(),
                            .y = rows_of(call.h),
                            .rows = call.tokens,
                            .top_k = call.router.top_k,
                            .experts = call.experts,
                            .hidden = call.hidden,
                            .inter = w.inter};
  args.scratch = frame.array<std::byte>(exec.kernels().fused_experts_scratch_bytes(args));
  exec.kernels().fused_experts(args);
}

// Each expert's weights are read once for all rows of the call that chose it.
void run_each(Exec& exec, WorkspaceFrame& frame, const Call& call) {
  STROBE_CHECK(exec.on_host(), "experts one by one on {}", to_string(exec.device()));
  const int64_t pairs = call.tokens * call.router.top_k;
  const int64_t inter = call.weights.inter;
  const Grouping grouping = group_by_expert(frame, call.ids, call.tokens, call.router.top_k, call.experts);
  const Tensor gate = frame.tensor(DType::kF32, {pairs, inter});
  const Tensor up = frame.tensor(DType::kF32, {pairs, inter});
  const Tensor mid = frame.tensor(exec.activation(), {pairs, inter});
  const Tensor out = frame.tensor(DType::kF32, {pairs, call.hidden});
  auto* problems = exec.products(2 * call.experts);
  int64_t used = 0;
  for (int64_t e = 0; e < call.experts; ++e) {
    const int64_t begin = grouping.begin[e], end = grouping.begin[e + 1];
    if (begin == end) continue;
    const Expert& expert = call.weights.each[static_cast<size_t>(e)];
    const kernel::GemmProblem problem{.x = rows_of(call.x),
                                      .x_rows = grouping.tokens + begin,
                                      .weight = expert.gate,
                                      .y = rows_of(gate.slice(0, begin, end)),
                                      .rows = end - begin};
    problems[used] = problem;
    problems[used + 1] = problem;
    problems[used + 1].weight = expert.up;
    problems[used + 1].y = rows_of(up.slice(0, begin, end));
    used += 2;
  }
  exec.kernels().gemm({problems, used});
  silu_mul(exec, gate, up, mid);
  used = 0;
  for (int64_t e = 0; e < call.experts; ++e) {
    const int64_t begin = grouping.begin[e], end = grouping.begin[e + 1];
    if (begin == end) continue;
    problems[used++] = {.x = rows_of(mid.slice(0, begin, end)),
                        .weight = call.weights.each[static_cast<size_t>(e)].down,
                        .y = rows_of(out.slice(0, begin, end)),
                        .rows = end - begin};
  }
  exec.kernels().gemm({problems, used});
  exec.kernels().combine({.x = out.as<float>(),
                          .slots = grouping.slots,
                          .weights = call.token_weights,
                          .y = rows_of(call.h),
                          .rows = call.tokens,
                          .top_k = call.router.top_k,
                          .dim = call.hidden});
}

}  // namespace

void routed_experts(Exec& exec, const Router& router, const ExpertWeights& weights, const Tensor& x,
                    const Tensor& router_logits, const Tensor& h) {
  Dims dims("routed_experts");
  dims.check("x", x, {"tokens", "hidden"})
      .check("router_logits", router_logits, {"tokens", "experts"})
      .check("h", h, {"tokens", "hidden"});
  const int64_t tokens = dims["tokens"];
  const int64_t count = dims["experts"];
  STROBE_CHECK(count == weights.count && router.top_k <= count, "{} experts, {} logits, top {}", weights.count, count,
               router.top_k);
  STROBE_CHECK(router_logits.contiguous(), "router_logits {}", router_logits.shape());
  if (tokens == 0) return;

  WorkspaceFrame frame(exec.workspace());
  auto* ids = frame.array<int32_t>(tokens * router.top_k);
  auto* token_weights = frame.array<float>(tokens * router.top_k);
  exec.kernels().route({.logits = router_logits.as<float>(),
                        .bias = router.bias.defined() ? router.bias.as<float>() : nullptr,
                        .ids = ids,
                        .weights = token_weights,
                        .rows = tokens,
                        .experts = count,
                        .top_k = router.top_k,
                        .groups = router.groups,
                        .top_groups = router.top_groups,
                        .normalise = router.normalise,
                        .scale = router.scale});
  const Call call{router, weights, x, h, tokens, count, dims["hidden"], ids, token_weights};
  weights.fused() ? run_fused(exec, frame, call) : run_each(exec, frame, call);
}

}  // namespace strobe::ops
