#include "model/layers.h"

namespace strobe::model {

void dense_ffn(ops::Exec& exec, const DenseWeights& weights, const Tensor& x, const Tensor& h) {
  const int64_t tokens = x.dim(0);
  const int64_t inter = weights.gate.out;
  ops::WorkspaceFrame frame(exec.workspace());
  const Tensor gate = frame.tensor(DType::kF32, {tokens, inter});
  const Tensor up = frame.tensor(DType::kF32, {tokens, inter});
  const Tensor mid = frame.tensor(exec.activation(), {tokens, inter});
  const ops::Linear projections[] = {{x, weights.gate, gate}, {x, weights.up, up}};
  ops::linear(exec, projections);
  ops::silu_mul(exec, gate, up, mid);
  ops::linear_add(exec, {mid, weights.down, h});
}

void routed_ffn(ops::Exec& exec, const RoutedRecipe& routed, const RoutedWeights& weights, const Tensor& x,
                const Tensor& h, std::span<const kernel::Upcoming> upcoming) {
  ops::WorkspaceFrame frame(exec.workspace());
  const Tensor logits = frame.tensor(DType::kF32, {x.dim(0), routed.experts});
  ops::linear(exec, {x, weights.router, logits});
  ops::Router router = routed.router;
  router.bias = weights.bias;
  const bool together = weights.together();
  ops::routed_experts(exec, router, weights.experts, x, logits, h, together ? &*weights.shared : nullptr, upcoming);
  if (weights.shared && !together) dense_ffn(exec, *weights.shared, x, h);
}

}  // namespace strobe::model
