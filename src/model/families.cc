#include "model/families.h"

#include "base/check.h"

namespace strobe::model {
namespace {

MlaRecipe mla_recipe(const ModelConfig& config) {
  const MlaConfig& mla = *config.mla;
  return {.heads = config.heads,
          .q_lora = mla.q_lora_rank,
          .latent = mla.kv_lora_rank,
          .nope = mla.qk_nope_head_dim,
          .rope = mla.qk_rope_head_dim,
          .v = mla.v_head_dim,
          .scale = mla.softmax_scale};
}

RoutedRecipe routed_recipe(const MoeConfig& moe) {
  return {.experts = moe.experts,
          .inter = moe.intermediate_size,
          .shared_inter = moe.shared_experts * moe.intermediate_size,
          .router = {.top_k = moe.experts_per_token,
                     .groups = moe.groups,
                     .top_groups = moe.groups_kept,
                     .normalise = moe.norm_topk_prob,
                     .scale = static_cast<float>(moe.routed_scaling_factor)}};
}

// What the kernels are built for (kernel/args.h); beyond it a model is refused before anything is loaded.
Result<void> check_kernel_limits(const Recipe& recipe, const char* file) {
  for (const LayerRecipe& layer : recipe.layers) {
    int64_t key = 0, value = 0;
    if (const auto* mla = std::get_if<MlaRecipe>(&layer.attention)) {
      key = mla->latent + mla->rope;
      value = mla->latent;
    } else {
      key = value = std::get<GqaRecipe>(layer.attention).head_dim;
    }
    if (key > kernel::kMaxAttentionKeyDim || value > kernel::kMaxAttentionValueDim) {
      return error("{}: attention keys of {} and values of {} numbers; accepted: up to {} and {}", file, key, value,
                   kernel::kMaxAttentionKeyDim, kernel::kMaxAttentionValueDim);
    }
    const auto* routed = std::get_if<RoutedRecipe>(&layer.ffn);
    if (routed != nullptr && routed->experts > kernel::kMaxExperts) {
      return error("{}: n_routed_experts {}; accepted: up to {}", file, routed->experts, kernel::kMaxExperts);
    }
  }
  return {};
}

}  // namespace

Result<Recipe> target_recipe(const ModelConfig& config) {
  if (config.gqa && config.gqa->attention_bias) {
    return error("config.json: attention_bias true: models with attention biases cannot be served; accepted: false");
  }
  Recipe recipe{.vocab = config.vocab_size,
                .hidden = config.hidden_size,
                .epsilon = static_cast<float>(config.rms_norm_eps),
                .max_positions = config.max_positions,
                .tied_head = config.tie_word_embeddings};
  const bool interleaved = config.mla && config.mla->rope_interleave;
  recipe.rope = {.config = config.rope,
                 .dim = config.mla ? config.mla->qk_rope_head_dim : config.gqa->head_dim,
                 .amplitude = rope_amplitude(config.rope),
                 .style = interleaved ? kernel::RopeStyle::kInterleaved : kernel::RopeStyle::kHalfSplit};
  for (int64_t i = 0; i < config.layers; ++i) {
    LayerRecipe layer;
    if (config.mla) {
      layer.attention = mla_recipe(config);
    } else {
      layer.attention = GqaRecipe{.heads = config.heads,
                                  .kv_heads = config.gqa->kv_heads,
                                  .head_dim = config.gqa->head_dim,
                                  .qk_norm = config.gqa->qk_norm,
                                  .scale = config.gqa->softmax_scale};
    }
    if (config.routed_layer(i)) {
      layer.ffn = routed_recipe(*config.moe);
    } else {
      layer.ffn = DenseRecipe{.inter = config.intermediate_size};
    }
    recipe.layers.push_back(layer);
  }
  STROBE_TRY(check_kernel_limits(recipe, "config.json"));
  return recipe;
}

Result<Recipe> draft_recipe(const DraftConfig& config, const ModelConfig& target) {
  if (config.attention_bias) {
    return error(
        "draft config.json: attention_bias true: drafts with attention biases cannot be served; accepted: false");
  }
  Recipe recipe{.vocab = target.vocab_size,
                .hidden = config.hidden_size,
                .epsilon = static_cast<float>(config.rms_norm_eps),
                .max_positions = config.max_positions};
  recipe.rope = {.config = config.rope,
                 .dim = config.head_dim,
                 .amplitude = config.rope_amplitude,
                 .style = kernel::RopeStyle::kHalfSplit};
  for (const DraftLayer& kind : config.layer_types) {
    LayerRecipe layer;
    layer.attention = GqaRecipe{.heads = config.heads,
                                .kv_heads = config.kv_heads,
                                .head_dim = config.head_dim,
                                .qk_norm = true,
                                .scale = config.softmax_scale,
                                .causal = kind.causal,
                                .window = kind.window_left < 0 ? 0 : static_cast<int32_t>(kind.window_left + 1)};
    layer.ffn = DenseRecipe{.inter = config.intermediate_size};
    recipe.layers.push_back(layer);
  }
  STROBE_TRY(check_kernel_limits(recipe, "draft config.json"));
  return recipe;
}

cache::KvGeometry kv_geometry(const Recipe& recipe, DType dtype) {
  STROBE_CHECK(!recipe.layers.empty(), "no layers");
  cache::KvGeometry geometry{.layers = recipe.layer_count(), .dtype = dtype};
  if (const auto* mla = std::get_if<MlaRecipe>(&recipe.layers[0].attention)) {
    geometry.planes = 1;
    geometry.dim = mla->latent + mla->rope;
  } else {
    const auto& gqa = std::get<GqaRecipe>(recipe.layers[0].attention);
    geometry.planes = 2;
    geometry.dim = gqa.kv_heads * gqa.head_dim;
  }
  return geometry;
}

}  // namespace strobe::model
