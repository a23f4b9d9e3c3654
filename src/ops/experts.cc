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

}  // namespace

void routed_experts(Exec& exec, const Router& router, std::span<const Expert> experts, const Tensor& x,
                    const Tensor& router_logits, const Tensor& h) {
  Dims dims("routed_experts");
  dims.check("x", x, {"tokens", "hidden"})
      .check("router_logits", router_logits, {"tokens", "experts"})
      .check("h", h, {"tokens", "hidden"});
  const int64_t tokens = dims["tokens"];
  const int64_t count = dims["experts"];
  const int64_t inter = experts[0].gate.out;
  const int64_t pairs = tokens * router.top_k;
  STROBE_CHECK(count == static_cast<int64_t>(experts.size()) && router.top_k <= count, "{} experts, {} logits, top {}",
               experts.size(), count, router.top_k);
  STROBE_CHECK(router_logits.contiguous(), "router_logits {}", router_logits.shape());
  if (tokens == 0) return;

  WorkspaceFrame frame(exec.workspace());
  auto* ids = frame.array<int32_t>(pairs);
  auto* weights = frame.array<float>(pairs);
  exec.cpu().route(exec.pool(), {.logits = router_logits.as<float>(),
                                 .bias = router.bias.defined() ? router.bias.as<float>() : nullptr,
                                 .ids = ids,
                                 .weights = weights,
                                 .rows = tokens,
                                 .experts = count,
                                 .top_k = router.top_k,
                                 .groups = router.groups,
                                 .top_groups = router.top_groups,
                                 .normalise = router.normalise,
                                 .scale = router.scale});
  const Grouping grouping = group_by_expert(frame, ids, tokens, router.top_k, count);

  const Tensor gate = frame.tensor(DType::kF32, {pairs, inter});
  const Tensor up = frame.tensor(DType::kF32, {pairs, inter});
  const Tensor mid = frame.tensor(exec.activation(), {pairs, inter});
  const Tensor out = frame.tensor(DType::kF32, {pairs, dims["hidden"]});
  auto* problems = frame.array<kernel::GemmProblem>(2 * count);
  int64_t used = 0;
  for (int64_t e = 0; e < count; ++e) {
    const int64_t begin = grouping.begin[e], end = grouping.begin[e + 1];
    if (begin == end) continue;
    const Expert& expert = experts[static_cast<size_t>(e)];
    const kernel::GemmProblem problem{.x = rows_of(x),
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
  exec.cpu().gemm(exec.pool(), {problems, used});
  silu_mul(exec, gate, up, mid);
  used = 0;
  for (int64_t e = 0; e < count; ++e) {
    const int64_t begin = grouping.begin[e], end = grouping.begin[e + 1];
    if (begin == end) continue;
    problems[used++] = {.x = rows_of(mid.slice(0, begin, end)),
                        .weight = experts[static_cast<size_t>(e)].down,
                        .y = rows_of(out.slice(0, begin, end)),
                        .rows = end - begin};
  }
  exec.cpu().gemm(exec.pool(), {problems, used});
  exec.cpu().combine(exec.pool(), {.x = out.as<float>(),
                                   .slots = grouping.slots,
                                   .weights = weights,
                                   .y = rows_of(h),
                                   .rows = tokens,
                                   .top_k = router.top_k,
                                   .dim = dims["hidden"]});
}

}  // namespace strobe::ops
