#include "model/workspace_plan.h"

#include <algorithm>

#include "model/mla_expansion.h"

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

// A product of several problems is one launch for each kind of them (mla.cc, gqa.cc: their operations).
constexpr int64_t kProblemsPerLaunch = 128;
int64_t attention_launches(const LayerRecipe& layer) {
  if (const auto* mla = std::get_if<MlaRecipe>(&layer.attention)) {
    return 14 + 2 * ((mla->heads + kProblemsPerLaunch - 1) / kProblemsPerLaunch);
  }
  return 12 + 4;  // the draft's context: norm, rope, two stores
}

int64_t ffn_launches(const LayerRecipe& layer) {
  constexpr int64_t kDense = 4;
  const auto* routed = std::get_if<RoutedRecipe>(&layer.ffn);
  if (routed == nullptr) return kDense;
  return kDense + 6 + 3 * ((routed->experts + kProblemsPerLaunch - 1) / kProblemsPerLaunch);  // experts one by one
}

}  // namespace

int64_t step_launches(const Recipe& recipe) {
  int64_t launches = 14;  // embedding, head, choice of tokens, a draft's projections
  for (const LayerRecipe& layer : recipe.layers) launches += 3 + attention_launches(layer) + ffn_launches(layer);
  return launches;
}

int64_t step_expansion_bytes(const Recipe& recipe, const StepShape& shape) {
  if (recipe.expansion.min_rows == 0) return 0;
  int64_t bytes = 0;
  for (const LayerRecipe& layer : recipe.layers) {
    const auto* mla = std::get_if<MlaRecipe>(&layer.attention);
    if (mla == nullptr) continue;
    bytes =
        std::max(bytes, expansion_workspace_bytes(*mla, recipe.expansion, shape.rows, shape.keys, shape.activation));
  }
  return bytes;
}

int64_t step_workspace_bytes(const Recipe& recipe, const StepShape& shape) {
  const int64_t activation = size_bytes(shape.activation);
  int64_t layer_row = 0;
  for (const LayerRecipe& layer : recipe.layers) {
    layer_row = std::max({layer_row, attention_bytes(layer, activation), ffn_bytes(layer, recipe.hidden, activation)});
  }
  const int64_t residual_row = recipe.hidden * (kFloat + 2 * activation);
  return shape.rows * (residual_row + layer_row + shape.features * recipe.hidden * activation) +
         step_expansion_bytes(recipe, shape) +
         shape.logit_rows * (recipe.vocab * kFloat + recipe.hidden * (kFloat + activation));
}

}  // namespace strobe::model
