#include "model/weights.h"

#include <fmt/format.h>

#include "base/check.h"

namespace strobe::model {
namespace {

// One checkpoint being moved into one arena.
struct Loader {
  TensorSource& source;
  ops::WeightArena& arena;
  bool expands_mla = false;

  Result<QuantTensor> matrix(const std::string& module, int64_t out, int64_t in) {
    STROBE_ASSIGN(const QuantTensor raw, source.take_matrix(module, out, in));
    return arena.pack(raw);
  }
  Result<Tensor> vector(const std::string& name, int64_t dim) {
    STROBE_ASSIGN(const Tensor raw, source.take_f32(name, {dim}));
    return arena.copy(raw);
  }
};

// Splits kv_b [heads * (nope + v), latent] into the per-head matrices of the absorbed form, and of the expanded one.
Result<void> absorb(Loader& loader, const std::string& module, const MlaRecipe& mla, MlaWeights& weights) {
  STROBE_ASSIGN(const QuantTensor kv_b, loader.source.take_matrix(module, mla.heads * (mla.nope + mla.v), mla.latent));
  if (kv_b.format != WeightFormat::kBf16) {
    return error("{}.weight is {}; the absorbed form of MLA needs it as bf16", module, to_string(kv_b.format));
  }
  if (loader.arena.counts_only()) {
    for (int64_t h = 0; h < mla.heads; ++h) {
      loader.arena.pack({.format = WeightFormat::kBf16, .out = mla.latent, .in = mla.nope});
      loader.arena.pack({.format = WeightFormat::kBf16, .out = mla.v, .in = mla.latent});
      if (loader.expands_mla) loader.arena.pack({.format = WeightFormat::kBf16, .out = mla.nope, .in = mla.latent});
    }
    return {};
  }
  std::vector<Bf16> transposed(static_cast<size_t>(mla.latent * mla.nope));
  for (int64_t h = 0; h < mla.heads; ++h) {
    const int64_t begin = h * (mla.nope + mla.v);
    const QuantTensor key_part = kv_b.rows(begin, begin + mla.nope);
    const auto* keys = static_cast<const Bf16*>(key_part.data);
    for (int64_t i = 0; i < mla.nope; ++i) {
      for (int64_t j = 0; j < mla.latent; ++j)
        transposed[static_cast<size_t>(j * mla.nope + i)] = keys[i * mla.latent + j];
    }
    weights.to_latent.push_back(loader.arena.pack(
        {.format = WeightFormat::kBf16, .out = mla.latent, .in = mla.nope, .data = transposed.data()}));
    weights.from_latent.push_back(loader.arena.pack(kv_b.rows(begin + mla.nope, begin + mla.nope + mla.v)));
    if (loader.expands_mla) weights.latent_keys.push_back(loader.arena.pack(key_part));
  }
  return {};
}

Result<MlaWeights> load_mla(Loader& loader, const std::string& prefix, const MlaRecipe& mla, int64_t hidden) {
  MlaWeights weights;
  const int64_t q_out = mla.heads * (mla.nope + mla.rope);
  if (mla.q_lora > 0) {
    STROBE_ASSIGN(weights.q_a, loader.matrix(prefix + "q_a_proj", mla.q_lora, hidden));
    STROBE_ASSIGN(weights.q_a_norm, loader.vector(prefix + "q_a_layernorm.weight", mla.q_lora));
    STROBE_ASSIGN(weights.q_b, loader.matrix(prefix + "q_b_proj", q_out, mla.q_lora));
  } else {
    STROBE_ASSIGN(weights.q_b, loader.matrix(prefix + "q_proj", q_out, hidden));
  }
  STROBE_ASSIGN(weights.kv_a, loader.matrix(prefix + "kv_a_proj_with_mqa", mla.latent + mla.rope, hidden));
  STROBE_ASSIGN(weights.kv_a_norm, loader.vector(prefix + "kv_a_layernorm.weight", mla.latent));
  STROBE_TRY(absorb(loader, prefix + "kv_b_proj", mla, weights));
  STROBE_ASSIGN(weights.o, loader.matrix(prefix + "o_proj", hidden, mla.heads * mla.v));
  return weights;
}

Result<GqaWeights> load_gqa(Loader& loader, const std::string& prefix, const GqaRecipe& gqa, int64_t hidden) {
  GqaWeights weights;
  STROBE_ASSIGN(weights.q, loader.matrix(prefix + "q_proj", gqa.heads * gqa.head_dim, hidden));
  STROBE_ASSIGN(weights.k, loader.matrix(prefix + "k_proj", gqa.kv_heads * gqa.head_dim, hidden));
  STROBE_ASSIGN(weights.v, loader.matrix(prefix + "v_proj", gqa.kv_heads * gqa.head_dim, hidden));
  STROBE_ASSIGN(weights.o, loader.matrix(prefix + "o_proj", hidden, gqa.heads * gqa.head_dim));
  if (gqa.qk_norm) {
    STROBE_ASSIGN(weights.q_norm, loader.vector(prefix + "q_norm.weight", gqa.head_dim));
    STROBE_ASSIGN(weights.k_norm, loader.vector(prefix + "k_norm.weight", gqa.head_dim));
  }
  return weights;
}

Result<DenseWeights> load_dense(Loader& loader, const std::string& prefix, int64_t inter, int64_t hidden) {
  DenseWeights weights;
  STROBE_ASSIGN(weights.gate, loader.matrix(prefix + "gate_proj", inter, hidden));
  STROBE_ASSIGN(weights.up, loader.matrix(prefix + "up_proj", inter, hidden));
  STROBE_ASSIGN(weights.down, loader.matrix(prefix + "down_proj", hidden, inter));
  return weights;
}

// As the checkpoint holds it.
Result<ops::Expert> take_expert(TensorSource& source, const std::string& prefix, int64_t inter, int64_t hidden) {
  ops::Expert expert;
  STROBE_ASSIGN(expert.gate, source.take_matrix(prefix + "gate_proj", inter, hidden));
  STROBE_ASSIGN(expert.up, source.take_matrix(prefix + "up_proj", inter, hidden));
  STROBE_ASSIGN(expert.down, source.take_matrix(prefix + "down_proj", hidden, inter));
  return expert;
}

Result<RoutedWeights> load_routed(Loader& loader, const std::string& prefix, const RoutedRecipe& routed,
                                  int64_t hidden) {
  RoutedWeights weights;
  STROBE_ASSIGN(weights.router, loader.matrix(prefix + "gate", routed.experts, hidden));
  STROBE_ASSIGN(weights.bias, loader.vector(prefix + "gate.e_score_correction_bias", routed.experts));
  std::vector<ops::Expert> experts;
  for (int64_t e = 0; e < routed.experts; ++e) {
    STROBE_ASSIGN(ops::Expert expert,
                  take_expert(loader.source, fmt::format("{}experts.{}.", prefix, e), routed.inter, hidden));
    experts.push_back(expert);
  }
  weights.experts = loader.arena.pack_experts(experts);
  if (routed.shared_inter > 0) {
    STROBE_ASSIGN(weights.shared, load_dense(loader, prefix + "shared_experts.", routed.shared_inter, hidden));
  }
  return weights;
}

Result<LayerWeights> load_layer(Loader& loader, const std::string& prefix, const LayerRecipe& layer, int64_t hidden) {
  LayerWeights weights;
  STROBE_ASSIGN(weights.attention_norm, loader.vector(prefix + "input_layernorm.weight", hidden));
  STROBE_ASSIGN(weights.ffn_norm, loader.vector(prefix + "post_attention_layernorm.weight", hidden));
  if (const auto* mla = std::get_if<MlaRecipe>(&layer.attention)) {
    STROBE_ASSIGN(weights.attention, load_mla(loader, prefix + "self_attn.", *mla, hidden));
  } else {
    STROBE_ASSIGN(weights.attention,
                  load_gqa(loader, prefix + "self_attn.", std::get<GqaRecipe>(layer.attention), hidden));
  }
  if (const auto* routed = std::get_if<RoutedRecipe>(&layer.ffn)) {
    STROBE_ASSIGN(weights.ffn, load_routed(loader, prefix + "mlp.", *routed, hidden));
  } else {
    STROBE_ASSIGN(weights.ffn, load_dense(loader, prefix + "mlp.", std::get<DenseRecipe>(layer.ffn).inter, hidden));
  }
  return weights;
}

// Lists of what is read, call by call (layers.h), whatever the tokens are: so without routed experts.
class ReadingOrder {
 public:
  void call(std::initializer_list<const QuantTensor*> weights) {
    for (const QuantTensor* weight : weights) add(*weight);
    ++call_;
  }
  void heads(const std::vector<QuantTensor>& weights) {
    for (const QuantTensor& weight : weights) add(weight);
    ++call_;
  }
  void dense(const DenseWeights& dense) {
    call({&dense.gate, &dense.up});
    call({&dense.down});
  }
  // In one call with the experts that a token chooses, before them (ffn.cc): as many of the same shape, as a rule.
  void beside_routed(const DenseWeights& shared, const RoutedRecipe& routed) {
    const auto chosen = [&](const QuantTensor& weight) {
      list_.push_back({nullptr, routed.router.top_k * weight_bytes(weight.format, weight.out, weight.in), call_});
    };
    add(shared.gate);
    add(shared.up);
    chosen(shared.gate);
    chosen(shared.up);
    ++call_;
    add(shared.down);
    chosen(shared.down);
    ++call_;
  }
  void before_attention(const LayerWeights& layer) {
    if (const auto* mla = std::get_if<MlaWeights>(&layer.attention)) {
      mla->q_a.defined() ? call({&mla->q_a, &mla->kv_a}) : call({&mla->q_b, &mla->kv_a});
      if (mla->q_a.defined()) call({&mla->q_b});
      heads(mla->to_latent);
    } else {
      const auto& gqa = std::get<GqaWeights>(layer.attention);
      call({&gqa.q, &gqa.k, &gqa.v});
    }
  }
  void after_attention(const LayerRecipe& recipe, const LayerWeights& layer) {
    if (const auto* mla = std::get_if<MlaWeights>(&layer.attention)) {
      heads(mla->from_latent);
      call({&mla->o});
    } else {
      call({&std::get<GqaWeights>(layer.attention).o});
    }
    if (const auto* routed = std::get_if<RoutedWeights>(&layer.ffn)) {
      call({&routed->router});
      if (routed->together()) beside_routed(*routed->shared, std::get<RoutedRecipe>(recipe.ffn));
      if (routed->shared && !routed->together()) dense(*routed->shared);
    } else {
      dense(std::get<DenseWeights>(layer.ffn));
    }
  }
  void after_experts(const RoutedWeights& routed) {
    if (routed.shared && !routed.together()) dense(*routed.shared);
  }
  [[nodiscard]] std::vector<kernel::Upcoming> take() { return std::move(list_); }

 private:
  void add(const QuantTensor& weight) {
    list_.push_back({weight.data, weight_bytes(weight.format, weight.out, weight.in), call_});
  }

  std::vector<kernel::Upcoming> list_;
  int32_t call_ = 0;
};

// Fills LayerWeights::after_attention and after_experts: up to the next layer's attention; behind the last layer's
// experts comes the head, if there is one.
void note_reading_order(const Recipe& recipe, std::vector<LayerWeights>& layers, const QuantTensor* head) {
  for (size_t i = 0; i < layers.size(); ++i) {
    LayerWeights& layer = layers[i];
    ReadingOrder attention, experts;
    attention.after_attention(recipe.layers[i], layer);
    if (i + 1 < layers.size()) attention.before_attention(layers[i + 1]);
    layer.after_attention = attention.take();
    if (!std::holds_alternative<RoutedWeights>(layer.ffn)) continue;
    experts.after_experts(std::get<RoutedWeights>(layer.ffn));
    if (i + 1 < layers.size()) experts.before_attention(layers[i + 1]);
    if (i + 1 == layers.size() && head != nullptr) experts.call({head});
    layer.after_experts = experts.take();
  }
}

// One scale for each plane of the layer's cache.
Result<void> add_kv_scales(TensorSource& source, const std::string& module, bool mla, std::vector<float>& list) {
  if (mla) {
    STROBE_ASSIGN(const float scale, source.take_latent_scale(module));
    list.push_back(scale);
  } else {
    STROBE_ASSIGN(const KvScales scales, source.take_kv_scales(module));
    list.insert(list.end(), {scales.k, scales.v});
  }
  return {};
}

}  // namespace

Result<TargetWeights> load_target_weights(const Recipe& recipe, TensorSource& source, ops::WeightArena& arena) {
  Loader loader{source, arena, recipe.expansion.min_rows > 0};
  TargetWeights weights;
  STROBE_ASSIGN(const QuantTensor embedding, source.take_matrix("model.embed_tokens", recipe.vocab, recipe.hidden));
  if (embedding.format == WeightFormat::kNvfp4) return error("model.embed_tokens.weight is NVFP4; accepted: bf16, f32");
  weights.embedding = arena.copy(embedding);
  for (int64_t i = 0; i < recipe.layer_count(); ++i) {
    const LayerRecipe& layer = recipe.layers[static_cast<size_t>(i)];
    const std::string prefix = fmt::format("model.layers.{}.", i);
    STROBE_ASSIGN(LayerWeights loaded, load_layer(loader, prefix, layer, recipe.hidden));
    weights.layers.push_back(std::move(loaded));
    STROBE_TRY(add_kv_scales(source, prefix + "self_attn", std::holds_alternative<MlaRecipe>(layer.attention),
                             weights.kv_scales));
  }
  STROBE_ASSIGN(weights.norm, loader.vector("model.norm.weight", recipe.hidden));
  if (recipe.tied_head && !source.has("lm_head.weight")) {
    weights.head = arena.pack(embedding);
  } else {
    STROBE_ASSIGN(weights.head, loader.matrix("lm_head", recipe.vocab, recipe.hidden));
  }
  if (!arena.counts_only()) note_reading_order(recipe, weights.layers, &weights.head);
  return weights;
}

Result<DraftWeights> load_draft_weights(const Recipe& recipe, int64_t features, TensorSource& source,
                                        ops::WeightArena& arena) {
  Loader loader{source, arena};
  DraftWeights weights;
  STROBE_ASSIGN(weights.fc, loader.matrix("fc", recipe.hidden, features * recipe.hidden));
  STROBE_ASSIGN(weights.hidden_norm, loader.vector("hidden_norm.weight", recipe.hidden));
  for (int64_t i = 0; i < recipe.layer_count(); ++i) {
    STROBE_ASSIGN(LayerWeights loaded, load_layer(loader, fmt::format("layers.{}.", i),
                                                  recipe.layers[static_cast<size_t>(i)], recipe.hidden));
    weights.layers.push_back(std::move(loaded));
  }
  if (!arena.counts_only()) note_reading_order(recipe, weights.layers, nullptr);
  STROBE_ASSIGN(weights.norm, loader.vector("norm.weight", recipe.hidden));
  return weights;
}

}  // namespace strobe::model
