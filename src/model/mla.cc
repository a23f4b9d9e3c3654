#include <algorithm>
#include <vector>

#include "base/check.h"
#include "model/layers.h"
#include "model/mla_expansion.h"

namespace strobe::model {
namespace {

// What the parts of a layer's attention share.
struct Part {
  ops::Exec& exec;
  const LayerContext& context;
  const MlaRecipe& mla;
  const MlaWeights& weights;
  kernel::PagedStore store;
  Tensor q;       // [tokens, heads, nope + rope] f32, rotated
  Tensor values;  // [tokens, heads, v] A
};

// f(begin, end) for the runs of rows that belong to no prompt.
template <class F>
void for_rows_of_others(const Batch& batch, int64_t tokens, const F& f) {
  int64_t begin = 0;
  for (const PromptRequest& prompt : batch.prompts) {
    const int64_t end = prompt.request.row_begin;
    STROBE_CHECK(begin <= end, "a prompt from row {} on, the one before ends at {}", end, begin);
    if (begin < end) f(begin, end);
    begin = end + prompt.request.row_count;
  }
  STROBE_CHECK(begin <= tokens, "a prompt ends at row {} of {}", begin, tokens);
  if (begin < tokens) f(begin, tokens);
}

// Queries go into the latent space, attend to the stored rows, and results come out of it.
void attend_absorbed(const Part& part) {
  ops::Exec& exec = part.exec;
  const MlaRecipe& mla = part.mla;
  const Batch& batch = part.context.batch;
  const int64_t tokens = part.q.dim(0), row = mla.latent + mla.rope;
  ops::WorkspaceFrame frame(exec.workspace());
  const Tensor q_absorbed = frame.tensor(exec.activation(), {tokens, mla.heads, row});
  for_rows_of_others(batch, tokens, [&](int64_t begin, int64_t end) {
    const Tensor from = part.q.slice(0, begin, end), to = q_absorbed.slice(0, begin, end);
    ops::linear_heads(exec, from.slice(2, 0, mla.nope), part.weights.to_latent, to.slice(2, 0, mla.latent));
    ops::copy(exec, from.slice(2, mla.nope, mla.nope + mla.rope), to.slice(2, mla.latent, row));
  });
  const Tensor attended = frame.tensor(exec.activation(), {tokens, mla.heads, mla.latent});
  ops::mla_attention(exec, q_absorbed, part.store, batch.prompts.empty() ? batch.requests : batch.others, mla.scale,
                     attended, part.context.after_attention);
  for_rows_of_others(batch, tokens, [&](int64_t begin, int64_t end) {
    ops::linear_heads(exec, attended.slice(0, begin, end), part.weights.from_latent, part.values.slice(0, begin, end));
  });
}

// Keys [keys of the latent part | rope part] and values of some heads after the others, made from the stored rows.
void attend_expanded(const Part& part, const PromptRequest& prompt) {
  ops::Exec& exec = part.exec;
  const MlaRecipe& mla = part.mla;
  const MlaWeights& weights = part.weights;
  STROBE_CHECK(std::ssize(weights.latent_keys) == mla.heads, "{} heads, weights of {}", mla.heads,
               weights.latent_keys.size());
  const int64_t begin = prompt.request.row_begin, end = begin + prompt.request.row_count;
  const int64_t keys = prompt.request.key_count, qk = mla.nope + mla.rope;
  const DType activation = exec.activation();
  ops::WorkspaceFrame frame(exec.workspace());
  const Tensor latent = frame.tensor(activation, {keys, mla.latent});
  ops::load_rows(exec, part.store, prompt.request.pages, latent.split_last(1, mla.latent));
  const Tensor q = frame.tensor(activation, {end - begin, mla.heads, qk});
  ops::copy(exec, part.q.slice(0, begin, end), q);

  const int64_t at_once = expanded_heads_at_once(mla, part.context.recipe.expansion, keys, activation);
  std::vector<ops::Linear> products;
  for (int64_t head = 0; head < mla.heads; head += at_once) {
    const int64_t heads = std::min(at_once, mla.heads - head);
    ops::WorkspaceFrame heads_frame(exec.workspace());
    const Tensor k = heads_frame.tensor(activation, {keys, heads * qk});
    const Tensor v = heads_frame.tensor(activation, {keys, heads * mla.v});
    products.clear();
    for (int64_t h = 0; h < heads; ++h) {
      const auto of = static_cast<size_t>(head + h);
      products.push_back({latent, weights.latent_keys[of], k.slice(1, h * qk, h * qk + mla.nope)});
      products.push_back({latent, weights.from_latent[of], v.slice(1, h * mla.v, (h + 1) * mla.v)});
    }
    ops::linear(exec, products);
    ops::load_rows(exec, part.store, prompt.request.pages, k.split_last(heads, qk).slice(2, mla.nope, qk), mla.latent);
    const auto one_page = [&](const Tensor& rows) {
      return kernel::PagedStore{
          .data = rows.data(), .dtype = activation, .dim = rows.dim(1), .page_size = static_cast<int32_t>(keys)};
    };
    ops::gqa_attention(exec, q.slice(1, head, head + heads), one_page(k), one_page(v), {prompt.alone, 1},
                       {.scale = mla.scale, .prompt = true},
                       part.values.slice(0, begin, end).slice(1, head, head + heads));
  }
}

}  // namespace

// Absorbed in prefill, decode and verify alike: one formula for a token wherever it is computed; but for prompts where
// the recipe expands them. The row is stored before it is attended to, so a token sees its own rounded key, as every
// later token will.
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
  ops::rope(exec, context.rope, context.batch.positions, q_heads.slice(2, mla.nope, qk));
  const Tensor values = frame.tensor(activation, {tokens, mla.heads, mla.v});
  const Part part{exec, context, mla, weights, store, q_heads, values};
  for (const PromptRequest& prompt : context.batch.prompts) attend_expanded(part, prompt);
  if (context.batch.prompts.empty() || !context.batch.others.empty()) attend_absorbed(part);
  ops::linear_add(exec, {values.reshape({tokens, mla.heads * mla.v}), weights.o, h});
}

}  // namespace strobe::model
