#include "model/dflash_draft.h"

#include <utility>

#include "base/check.h"

namespace strobe::model {

DflashDraft::DflashDraft(Recipe recipe, DraftWeights weights, ops::RopeTable rope, const QuantTensor& embedding,
                         const QuantTensor& head, int32_t mask_token)
    : recipe_(std::move(recipe)),
      weights_(std::move(weights)),
      rope_(rope),
      embedding_(embedding),
      head_(head),
      mask_token_(mask_token) {
  STROBE_CHECK(embedding.in == recipe_.hidden && head.in == recipe_.hidden, "embedding {}, head {}, draft {}",
               embedding.in, head.in, recipe_.hidden);
}

void DflashDraft::write_context(ops::Exec& exec, const Tensor& features, const Tensor& positions, const Tensor& slots,
                                const cache::KvStore& store) const {
  const int64_t tokens = features.dim(0);
  const int64_t layers = recipe_.layer_count();
  if (tokens == 0) return;
  const auto& gqa = std::get<GqaRecipe>(recipe_.layers[0].attention);
  const int64_t kv = gqa.kv_heads * gqa.head_dim;
  ops::WorkspaceFrame frame(exec.workspace());

  const Tensor projected = frame.tensor(DType::kF32, {tokens, recipe_.hidden});
  const Tensor context = frame.tensor(exec.activation(), {tokens, recipe_.hidden});
  ops::linear(exec, {features, weights_.fc, projected});
  ops::rms_norm(exec, projected, weights_.hidden_norm, recipe_.epsilon, context);

  std::vector<ops::Linear> projections;
  projections.reserve(static_cast<size_t>(2 * layers));
  for (const LayerWeights& layer : weights_.layers) {
    const auto& weights = std::get<GqaWeights>(layer.attention);
    projections.push_back({context, weights.k, frame.tensor(DType::kF32, {tokens, kv})});
    projections.push_back({context, weights.v, frame.tensor(DType::kF32, {tokens, kv})});
  }
  ops::linear(exec, projections);

  for (int64_t i = 0; i < layers; ++i) {
    const auto& weights = std::get<GqaWeights>(weights_.layers[static_cast<size_t>(i)].attention);
    const Tensor& k = projections[static_cast<size_t>(2 * i)].y;
    const Tensor& v = projections[static_cast<size_t>(2 * i + 1)].y;
    const Tensor k_heads = k.split_last(gqa.kv_heads, gqa.head_dim);
    ops::rms_norm(exec, k_heads, weights.k_norm, recipe_.epsilon, k_heads);
    ops::rope(exec, rope_, positions, k_heads);
    ops::store_rows(exec, k, slots, store.plane(i, 0));
    ops::store_rows(exec, v, slots, store.plane(i, 1));
  }
}

void DflashDraft::draft(ops::Exec& exec, const Tensor& ids, const Batch& batch, const cache::KvStore& store,
                        const Tensor& tokens, const Tensor& hidden) const {
  const int64_t rows = ids.dim(0);
  if (rows == 0) return;
  ops::WorkspaceFrame frame(exec.workspace());
  const Tensor h = frame.tensor(DType::kF32, {rows, recipe_.hidden});
  ops::embed(exec, embedding_, ids, h);
  run_layers(exec, recipe_, weights_.layers, rope_, store, batch, h);
  if (hidden.defined()) ops::rms_norm(exec, h, weights_.norm, recipe_.epsilon, hidden);
  const Tensor logits = frame.tensor(DType::kF32, {rows, head_.out});
  run_head(exec, h, weights_.norm, recipe_.epsilon, head_, logits);
  ops::argmax(exec, logits, tokens);
}

}  // namespace strobe::model
