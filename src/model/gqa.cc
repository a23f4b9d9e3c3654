#include "model/layers.h"

namespace strobe::model {

void gqa_attention(ops::Exec& exec, const LayerContext& context, const GqaRecipe& gqa, const GqaWeights& weights,
                   const Tensor& x, const Tensor& h) {
  const int64_t tokens = x.dim(0);
  const float epsilon = context.recipe.epsilon;
  const Tensor& positions = context.batch.positions;
  ops::WorkspaceFrame frame(exec.workspace());

  const Tensor q = frame.tensor(DType::kF32, {tokens, gqa.heads * gqa.head_dim});
  const Tensor k = frame.tensor(DType::kF32, {tokens, gqa.kv_heads * gqa.head_dim});
  const Tensor v = frame.tensor(DType::kF32, {tokens, gqa.kv_heads * gqa.head_dim});
  const ops::Linear projections[] = {{x, weights.q, q}, {x, weights.k, k}, {x, weights.v, v}};
  ops::linear(exec, projections);

  const Tensor q_heads = q.split_last(gqa.heads, gqa.head_dim);
  const Tensor k_heads = k.split_last(gqa.kv_heads, gqa.head_dim);
  if (gqa.qk_norm) {
    ops::rms_norm(exec, q_heads, weights.q_norm, epsilon, q_heads);
    ops::rms_norm(exec, k_heads, weights.k_norm, epsilon, k_heads);
  }
  ops::rope(exec, context.rope, positions, q_heads);
  ops::rope(exec, context.rope, positions, k_heads);
  const kernel::PagedStore k_store = context.store.plane(context.layer, 0);
  const kernel::PagedStore v_store = context.store.plane(context.layer, 1);
  ops::store_rows(exec, k, context.batch.slots, k_store);
  ops::store_rows(exec, v, context.batch.slots, v_store);

  const Tensor attended = frame.tensor(exec.activation(), {tokens, gqa.heads, gqa.head_dim});
  ops::gqa_attention(exec, q_heads, k_store, v_store, context.batch.requests,
                     {.scale = gqa.scale,
                      .causal = gqa.causal,
                      .window = gqa.window,
                      .first_visible = context.batch.first_visible,
                      .upcoming = context.after_attention},
                     attended);
  ops::linear_add(exec, {attended.reshape({tokens, gqa.heads * gqa.head_dim}), weights.o, h});
}

}  // namespace strobe::model
