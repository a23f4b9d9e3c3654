// The parts of a layer, as the decoder calls them. Each adds its result to h: [tokens, hidden] f32.
#pragma once

#include "model/decoder.h"

namespace strobe::model {

struct LayerContext {
  const Recipe& recipe;
  const ops::RopeTable& rope;
  const cache::KvStore& store;
  const Batch& batch;
  int64_t layer = 0;
  std::span<const kernel::Upcoming> after_attention = {};
};

// x: [tokens, hidden] of the activation type: the normed residual stream.
void mla_attention(ops::Exec& exec, const LayerContext& context, const MlaRecipe& mla, const MlaWeights& weights,
                   const Tensor& x, const Tensor& h);
void gqa_attention(ops::Exec& exec, const LayerContext& context, const GqaRecipe& gqa, const GqaWeights& weights,
                   const Tensor& x, const Tensor& h);
void dense_ffn(ops::Exec& exec, const DenseWeights& weights, const Tensor& x, const Tensor& h);
// upcoming: what is read behind the experts
void routed_ffn(ops::Exec& exec, const RoutedRecipe& routed, const RoutedWeights& weights, const Tensor& x,
                const Tensor& h, std::span<const kernel::Upcoming> upcoming);

}  // namespace strobe::model
