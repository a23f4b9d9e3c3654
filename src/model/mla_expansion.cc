#include "model/mla_expansion.h"

#include <algorithm>

#include "base/check.h"

namespace strobe::model {
namespace {

// Of a key and a value of one head.
int64_t key_value_bytes(const MlaRecipe& mla, DType activation) {
  return (mla.nope + mla.rope + mla.v) * size_bytes(activation);
}

}  // namespace

int64_t expansion_pays_from(const MlaRecipe& mla) {
  const int64_t saved = 2 * mla.latent - mla.nope - mla.v;  // a row, key and head
  if (saved <= 0) return 0;
  if (mla.nope + mla.rope > kernel::kMaxAttentionKeyDim || mla.v > kernel::kMaxAttentionValueDim) return 0;
  return mla.latent * (mla.nope + mla.v) / saved + 1;
}

int64_t expanded_heads_at_once(const MlaRecipe& mla, const MlaExpansion& expansion, int64_t keys, DType activation) {
  STROBE_CHECK(keys > 0, "{} keys", keys);
  const int64_t fitting = expansion.kv_bytes / (keys * key_value_bytes(mla, activation));
  if (fitting >= mla.heads) return mla.heads;
  return std::max<int64_t>(1, fitting >= 8 ? fitting / 8 * 8 : fitting);
}

int64_t expansion_weight_bytes(const Recipe& recipe) {
  int64_t bytes = 0;
  for (const LayerRecipe& layer : recipe.layers) {
    const auto* mla = std::get_if<MlaRecipe>(&layer.attention);
    if (mla != nullptr) bytes += mla->heads * mla->nope * mla->latent * size_bytes(DType::kBf16);
  }
  return bytes;
}

int64_t expansion_workspace_bytes(const MlaRecipe& mla, const MlaExpansion& expansion, int64_t rows, int64_t keys,
                                  DType activation) {
  // Fewer keys may let more heads in, never beyond kv_bytes, and one head of all keys may be more than these.
  const int64_t of_head = keys * key_value_bytes(mla, activation);
  const int64_t key_values = std::max(of_head, std::min(expansion.kv_bytes, mla.heads * of_head));
  const int64_t queries = rows * mla.heads * (mla.nope + mla.rope) * size_bytes(activation);
  return key_values + queries + keys * mla.latent * size_bytes(activation);
}

}  // namespace strobe::model
