#include "model/decoder.h"

#include <cmath>
#include <vector>

#include "base/check.h"
#include "model/layers.h"

namespace strobe::model {

ops::RopeTable make_rope_table(const RopeRecipe& rope, int64_t count, ops::WeightArena& arena) {
  const std::vector<float> inv_freq = rope_inv_freq(rope.config, rope.dim);
  const auto half = static_cast<int64_t>(inv_freq.size());
  if (arena.counts_only()) {
    const Tensor table(nullptr, DType::kF32, {count, half});
    return {.cos = arena.copy(table), .sin = arena.copy(table), .style = rope.style};
  }
  std::vector<float> cos(static_cast<size_t>(count * half)), sin(cos.size());
  for (int64_t p = 0; p < count; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      // The angle is rounded to f32 before cos and sin, as the reference implementations do.
      const float angle = static_cast<float>(p) * inv_freq[static_cast<size_t>(i)];
      cos[static_cast<size_t>(p * half + i)] = std::cos(angle) * rope.amplitude;
      sin[static_cast<size_t>(p * half + i)] = std::sin(angle) * rope.amplitude;
    }
  }
  return {.cos = arena.copy(Tensor(cos.data(), DType::kF32, {count, half})),
          .sin = arena.copy(Tensor(sin.data(), DType::kF32, {count, half})),
          .style = rope.style};
}

void run_layers(ops::Exec& exec, const Recipe& recipe, std::span<const LayerWeights> weights,
                const ops::RopeTable& rope, const cache::KvStore& store, const Batch& batch, const Tensor& h,
                const Capture* capture) {
  Dims dims("run_layers");
  dims.check("h", h, {"tokens", "hidden"})
      .check("positions", batch.positions, {"tokens"})
      .check("slots", batch.slots, {"tokens"});
  STROBE_CHECK(dims["hidden"] == recipe.hidden && weights.size() == recipe.layers.size(), "h {}, {} layers", h.shape(),
               weights.size());
  if (dims["tokens"] == 0) return;
  ops::WorkspaceFrame frame(exec.workspace());
  const Tensor x = frame.tensor(exec.activation(), h.shape());
  size_t captured = 0;
  for (int64_t i = 0; i < recipe.layer_count(); ++i) {
    const LayerRecipe& layer = recipe.layers[static_cast<size_t>(i)];
    const LayerWeights& w = weights[static_cast<size_t>(i)];
    const LayerContext context{recipe, rope, store, batch, i, w.after_attention};
    ops::rms_norm(exec, h, w.attention_norm, recipe.epsilon, x);
    if (const auto* mla = std::get_if<MlaRecipe>(&layer.attention)) {
      mla_attention(exec, context, *mla, std::get<MlaWeights>(w.attention), x, h);
    } else {
      gqa_attention(exec, context, std::get<GqaRecipe>(layer.attention), std::get<GqaWeights>(w.attention), x, h);
    }
    ops::rms_norm(exec, h, w.ffn_norm, recipe.epsilon, x);
    if (const auto* routed = std::get_if<RoutedRecipe>(&layer.ffn)) {
      routed_ffn(exec, *routed, std::get<RoutedWeights>(w.ffn), x, h, w.after_experts);
    } else {
      dense_ffn(exec, std::get<DenseWeights>(w.ffn), x, h);
    }
    if (capture != nullptr && captured < capture->layers.size() && capture->layers[captured] == i) {
      const auto column = static_cast<int64_t>(captured++) * recipe.hidden;
      ops::copy(exec, h, capture->features.slice(1, column, column + recipe.hidden));
    }
  }
  STROBE_CHECK(capture == nullptr || captured == capture->layers.size(), "{} of {} layers captured", captured,
               capture->layers.size());
}

void run_head(ops::Exec& exec, const Tensor& h, const Tensor& norm, float epsilon, const QuantTensor& head,
              const Tensor& logits) {
  ops::WorkspaceFrame frame(exec.workspace());
  const Tensor x = frame.tensor(exec.activation(), h.shape());
  ops::rms_norm(exec, h, norm, epsilon, x);
  ops::linear(exec, {x, head, logits});
}

}  // namespace strobe::model
