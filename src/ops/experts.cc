#include <algorithm>

#include "base/check.h"
#include "ops/ops.h"
#include "ops/rows.h"

namespace strobe::ops {
namespace {

// What routed_experts asks for, checked.
struct Call {
  const Router& router;
  const ExpertWeights& weights;
  const Tensor& x;
  const Tensor& h;
  int64_t tokens;
  int64_t experts;
  int64_t hidden;
  const Expert* shared;        // or nullptr
  const int32_t* ids;          // [tokens, top_k]
  const float* token_weights;  // [tokens, top_k]
  std::span<const kernel::Upcoming> upcoming;
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

// The problem of expert e over its pairs. The host knows how many they are where it can read the lists.
kernel::GemmProblem of_expert(const Exec& exec, const kernel::GroupByExpert& pairs, int64_t e) {
  if (!exec.on_host()) return {.rows = pairs.rows, .range = pairs.begin + e};  // experts of a token are different
  return {.rows = pairs.begin[e + 1] - pairs.begin[e]};
}

// The rows of a list of pairs that expert e has; on devices the problem's range finds them.
kernel::Rows pairs_of(const Exec& exec, const Tensor& list, const kernel::GroupByExpert& pairs, int64_t e) {
  return rows_of(exec.on_host() ? list.slice(0, pairs.begin[e], pairs.begin[e + 1]) : list);
}

// How many parts of a list the first of two products asks for: whole calls, with at least half of the bytes.
size_t first_half(std::span<const kernel::Upcoming> list) {
  int64_t bytes = 0, passed = 0;
  for (const kernel::Upcoming& part : list) bytes += part.bytes;
  size_t i = 0;
  for (; i < list.size(); passed += list[i++].bytes) {
    if (2 * passed >= bytes && i > 0 && list[i].call != list[i - 1].call) break;
  }
  return i;
}

// Each expert's weights are read once for all rows of the call that chose it. The shared expert's rows lie behind those
// of all pairs.
void run_each(Exec& exec, WorkspaceFrame& frame, const Call& call) {
  const int64_t count = call.tokens * call.router.top_k;
  const int64_t inter = call.weights.inter;
  const kernel::GroupByExpert pairs{.ids = call.ids,
                                    .rows = call.tokens,
                                    .top_k = call.router.top_k,
                                    .experts = call.experts,
                                    .begin = frame.array<int32_t>(call.experts + 1),
                                    .tokens = frame.array<int32_t>(count),
                                    .slots = frame.array<int32_t>(count)};
  exec.kernels().group_by_expert(pairs);
  const int64_t rows = count + (call.shared != nullptr ? call.tokens : 0);
  const Tensor gate = frame.tensor(DType::kF32, {rows, inter});
  const Tensor up = frame.tensor(DType::kF32, {rows, inter});
  const Tensor mid = frame.tensor(exec.activation(), {rows, inter});
  const Tensor out = frame.tensor(DType::kF32, {count, call.hidden});
  auto* problems = exec.products(2 * call.experts + 2);
  int64_t used = 0;
  if (call.shared != nullptr) {
    problems[used++] = to_problem({call.x, call.shared->gate, gate.slice(0, count, rows)});
    problems[used++] = to_problem({call.x, call.shared->up, up.slice(0, count, rows)});
  }
  for (int64_t e = 0; e < call.experts; ++e) {
    kernel::GemmProblem problem = of_expert(exec, pairs, e);
    if (problem.rows == 0) continue;
    const Expert& expert = call.weights.each[static_cast<size_t>(e)];
    problem.x = rows_of(call.x);
    problem.x_rows = exec.on_host() ? pairs.tokens + pairs.begin[e] : pairs.tokens;
    problem.weight = expert.gate;
    problem.y = pairs_of(exec, gate, pairs, e);
    problems[used] = problems[used + 1] = problem;
    problems[used + 1].weight = expert.up;
    problems[used + 1].y = pairs_of(exec, up, pairs, e);
    used += 2;
  }
  const auto soon = call.upcoming.first(first_half(call.upcoming));
  exec.kernels().gemm({problems, used, soon.data(), std::ssize(soon)});
  silu_mul(exec, gate, up, mid);
  used = 0;
  if (call.shared != nullptr) {
    problems[used] = to_problem({mid.slice(0, count, rows), call.shared->down, call.h});
    problems[used++].accumulate = true;
  }
  for (int64_t e = 0; e < call.experts; ++e) {
    kernel::GemmProblem problem = of_expert(exec, pairs, e);
    if (problem.rows == 0) continue;
    problem.x = pairs_of(exec, mid, pairs, e);
    problem.weight = call.weights.each[static_cast<size_t>(e)].down;
    problem.y = pairs_of(exec, out, pairs, e);
    problems[used++] = problem;
  }
  const auto later = call.upcoming.subspan(soon.size());
  exec.kernels().gemm({problems, used, later.data(), std::ssize(later)});
  exec.kernels().combine({.x = out.as<float>(),
                          .slots = pairs.slots,
                          .weights = call.token_weights,
                          .y = rows_of(call.h),
                          .rows = call.tokens,
                          .top_k = call.router.top_k,
                          .dim = call.hidden});
}

}  // namespace

void routed_experts(Exec& exec, const Router& router, const ExpertWeights& weights, const Tensor& x,
                    const Tensor& router_logits, const Tensor& h, const Expert* shared,
                    std::span<const kernel::Upcoming> upcoming) {
  Dims dims("routed_experts");
  dims.check("x", x, {"tokens", "hidden"})
      .check("router_logits", router_logits, {"tokens", "experts"})
      .check("h", h, {"tokens", "hidden"});
  const int64_t tokens = dims["tokens"];
  const int64_t count = dims["experts"];
  STROBE_CHECK(count == weights.count && router.top_k <= count, "{} experts, {} logits, top {}", weights.count, count,
               router.top_k);
  STROBE_CHECK(router_logits.contiguous(), "router_logits {}", router_logits.shape());
  STROBE_CHECK(shared == nullptr || (!weights.fused() && shared->gate.out == weights.inter),
               "a shared expert of {} beside {} of {}", shared->gate.out, weights.fused() ? "fused ones" : "ones",
               weights.inter);
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
  const Call call{router, weights, x, h, tokens, count, dims["hidden"], shared, ids, token_weights, upcoming};
  weights.fused() ? run_fused(exec, frame, call) : run_each(exec, frame, call);
}

}  // namespace strobe::ops
