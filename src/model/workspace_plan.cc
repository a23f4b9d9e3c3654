#include "model/workspace_plan.h"

#include <algorithm>

namespace strobe::model {
namespace {

constexpr int64_t kFloat = 4;

// Bytes a row of one layer's attention (mla.cc, gqa.cc: the tensors of their frames).
int64_t attention_bytes(const LayerRecipe& layer, int64_t activation) {
  if (const auto* mla = std::get_if<MlaRecipe>(&layer.attention)) {
    const int64_t row = mla->latent + mla->rope;
    return kFloat * (row + mla->heads * (mla->nope + mla->rope) + mla->q_lora) +
           activation * (mla->q_lora + mla->heads * (row + mla->latent + mla->v));
  }
  const auto& gqa = std::get<GqaRecipe>(layer.attention);
  return (2 * kFloat + 2 * activation) * (gqa.heads + 2 * gqa.kv_heads) * gqa.head_dim;
}

int64_t dense_bytes(int64_t inter, int64_t activation) {
  return inter * (2 * kFloat + activation);
}

// Bytes a row of one layer's FFN (ffn.cc, ops/experts.cc).
int64_t ffn_bytes(const LayerRecipe& layer, int64_t hidden, int64_t activation) {
  const auto* routed = std::get_if<RoutedRecipe>(&layer.ffn);
  if (routed == nullptr) return dense_bytes(std::get<DenseRecipe>(layer.ffn).inter, activation);
  const int64_t chosen = routed->router.top_k;
  const int64_t lists = 4 * kFloat;  // ids, weights, and their order by expert
  return routed->experts * kFloat + chosen * (lists + dense_bytes(routed->inter, activation) + hidden * kFloat) +
         dense_bytes(routed->shared_inter, activation);
}

}  // namespace

int64_t step_workspace_bytes(const Recipe& recipe, const StepShape& shape) {
  const int64_t activation = size_bytes(shape.activation);
  int64_t layer_row = 0;
  for (const LayerRecipe& layer : recipe.layers) {
    layer_row = std::max({layer_row, attention_bytes(layer, activation), ffn_bytes(layer, recipe.hidden, activation)});
  }
  const int64_t residual_row = recipe.hidden * (kFloat + 2 * activation);
  return shape.rows * (residual_row + layer_row + shape.features * recipe.hidden * activation) +
         shape.logit_rows * (recipe.vocab * kFloat + recipe.hidden * (kFloat + activation));
}

}  // namespace strobe::model
