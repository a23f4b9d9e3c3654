#include "model/layers.h"

namespace strobe::model {

// Absorbed in prefill, decode and verify alike: one formula for a token wherever it is computed. The row is stored
// before it is attended to, so a token sees its own rounded key, as every later token will.
void mla_attention(ops::Exec& exec, const LayerContext& context, const MlaRecipe& mla, const MlaWeights& weights,
                   const Tensor& x, const Tensor& h) {
  const int64_t tokens = x.dim(0);
  const int64_t qk = mla.nope + mla.rope;
  const int64_t row = mla.latent + mla.rope;
  const DType activation = exec.activation();
  const float epsilon = context.recipe.epsilon;
  ops::WorkspaceFrame frame(exec.workspace());

  const Tensor kv = frame.tensor(DType::kF32, {tokens, row});
  const Tensor q = frame.tensor(DType::kF32, {tokens, mla.heads * qk});
  if (mla.q_lora > 0) {
    const Tensor q_a = frame.tensor(DType::kF32, {tokens, mla.q_lora});
    const Tensor q_a_normed = frame.tensor(activation, {tokens, mla.q_lora});
    const ops::Linear down[] = {{x, weights.q_a, q_a}, {x, weights.kv_a, kv}};
    ops::linear(exec, down);
    ops::rms_norm(exec, q_a, weights.q_a_norm, epsilon, q_a_normed);
    ops::linear(exec, {q_a_normed, weights.q_b, q});
  } else {
    const ops::Linear down[] = {{x, weights.q_b, q}, {x, weights.kv_a, kv}};
    ops::linear(exec, down);
  }

  const Tensor latent = kv.slice(1, 0, mla.latent);
  ops::rms_norm(exec, latent, weights.kv_a_norm, epsilon, latent);
  ops::rope(exec, context.rope, context.batch.positions, kv.slice(1, mla.latent, row).split_last(1, mla.rope));
  const kernel::PagedStore store = context.store.plane(context.layer);
  ops::store_rows(exec, kv, context.batch.slots, store);

  const Tensor q_heads = q.split_last(mla.heads, qk);
  const Tensor q_rope = q_heads.slice(2, mla.nope, qk);
  ops::rope(exec, context.rope, context.batch.positions, q_rope);
  const Tensor q_absorbed = frame.tensor(activation, {tokens, mla.heads, row});
  ops::linear_heads(exec, q_heads.slice(2, 0, mla.nope), weights.to_latent, q_absorbed.slice(2, 0, mla.latent));
  ops::copy(exec, q_rope, q_absorbed.slice(2, mla.latent, row));

  const Tensor attended = frame.tensor(activation, {tokens, mla.heads, mla.latent});
  ops::mla_attention(exec, q_absorbed, store, context.batch.requests, mla.scale, attended, context.after_attention);
  const Tensor values = frame.tensor(activation, {tokens, mla.heads, mla.v});
  ops::linear_heads(exec, attended, weights.from_latent, values);
  ops::linear_add(exec, {values.reshape({tokens, mla.heads * mla.v}), weights.o, h});
}

}  // namespace strobe::model
