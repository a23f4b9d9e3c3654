// Configs -> recipes. The only place that knows what a family of models looks like.
#pragma once

#include "base/result.h"
#include "cache/kv_store.h"
#include "load/draft_config.h"
#include "load/model_config.h"
#include "model/recipe.h"

namespace strobe::model {

// kimi_k2, deepseek_v3, kimi_k25: MLA and routed experts; llama, qwen3: GQA and dense FFNs.
// Error: a feature that no kernel here has (attention biases).
Result<Recipe> target_recipe(const ModelConfig& config);

// A DFlash draft: GQA layers over [context features | block]; embedding and head are the target's.
Result<Recipe> draft_recipe(const DraftConfig& config, const ModelConfig& target);

// What the cache of a recipe's layers looks like. All layers of a recipe have one geometry.
[[nodiscard]] cache::KvGeometry kv_geometry(const Recipe& recipe, DType dtype);

}  // namespace strobe::model
