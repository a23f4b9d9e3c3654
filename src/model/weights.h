// The weights of a model, in the order and under the names of its recipe. Every field with its shape; norms are f32.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "load/tensor_source.h"
#include "model/recipe.h"
#include "ops/weight_arena.h"

namespace strobe::model {

struct MlaWeights {
  QuantTensor q_a;                       // [q_lora, hidden]; undefined when q_lora is 0
  Tensor q_a_norm;                       // [q_lora]
  QuantTensor q_b;                       // [heads * (nope + rope), q_lora or hidden]
  QuantTensor kv_a;                      // [latent + rope, hidden]
  Tensor kv_a_norm;                      // [latent]
  std::vector<QuantTensor> to_latent;    // per head [latent, nope]: kv_b's key part, transposed
  std::vector<QuantTensor> from_latent;  // per head [v, latent]: kv_b's value part
  std::vector<QuantTensor> latent_keys;  // per head [nope, latent]: kv_b's key part; only for a recipe that expands
  QuantTensor o;                         // [hidden, heads * v]
};

struct GqaWeights {
  QuantTensor q;  // [heads * head_dim, hidden]
  QuantTensor k;  // [kv_heads * head_dim, hidden]
  QuantTensor v;  // [kv_heads * head_dim, hidden]
  QuantTensor o;  // [hidden, heads * head_dim]
  Tensor q_norm;  // [head_dim], with qk_norm
  Tensor k_norm;  // [head_dim], with qk_norm
};

using DenseWeights = ops::Expert;

struct RoutedWeights {
  QuantTensor router;  // [experts, hidden]
  Tensor bias;         // [experts]
  ops::ExpertWeights experts;
  std::optional<DenseWeights> shared;

  // Whether the shared expert is computed in one call with the routed ones.
  [[nodiscard]] bool together() const { return shared && !experts.fused() && shared->gate.out == experts.inter; }
};

struct LayerWeights {
  Tensor attention_norm;  // [hidden]
  Tensor ffn_norm;        // [hidden]
  std::variant<MlaWeights, GqaWeights> attention;
  std::variant<DenseWeights, RoutedWeights> ffn;
  // What is read behind attention, and behind the routed experts, whatever the tokens are, in that order.
  std::vector<kernel::Upcoming> after_attention;
  std::vector<kernel::Upcoming> after_experts;
};

struct TargetWeights {
  QuantTensor embedding;  // [vocab, hidden], row-major
  std::vector<LayerWeights> layers;
  Tensor norm;                   // [hidden]
  QuantTensor head;              // [vocab, hidden]
  std::vector<float> kv_scales;  // per layer and plane of the cache; 1 where the file has none
};

struct DraftWeights {
  QuantTensor fc;      // [hidden, features * hidden]
  Tensor hidden_norm;  // [hidden]
  std::vector<LayerWeights> layers;
  Tensor norm;  // [hidden]
};

// Takes every tensor of a recipe from `source` (named as Hugging Face names them) into `arena`. Errors: see
// TensorSource. The caller ends with source.finish().
Result<TargetWeights> load_target_weights(const Recipe& recipe, TensorSource& source, ops::WeightArena& arena);
Result<DraftWeights> load_draft_weights(const Recipe& recipe, int64_t features, TensorSource& source,
                                        ops::WeightArena& arena);

}  // namespace strobe::model
