// The expanded form of latent attention: keys and values of every head are made from the stored rows, and attention
// runs over heads of nope + rope and v numbers instead of latent + rope and latent. Fewer operations where many rows of
// one request share the making.
#pragma once

#include <cstdint>

#include "model/recipe.h"

namespace strobe::model {

// The fewest rows of a request for which the expanded form takes fewer multiplications, for every number of keys; 0:
// never, or heads are larger than attention kernels take. For one key and head, rows r: absorbed r (2 latent + rope),
// expanded r (nope + rope + v) + latent (nope + v).
[[nodiscard]] int64_t expansion_pays_from(const MlaRecipe& mla);

// How many heads' keys and values are made at once, for a request of `keys` positions: all, or as many as kv_bytes
// hold (whole eights from 8 on), at least one.
[[nodiscard]] int64_t expanded_heads_at_once(const MlaRecipe& mla, const MlaExpansion& expansion, int64_t keys,
                                             DType activation);

// Of the weights that only the expanded form reads (MlaWeights::latent_keys).
[[nodiscard]] int64_t expansion_weight_bytes(const Recipe& recipe);

// What mla.cc takes for a prompt of `rows` rows and at most `keys` keys, beyond what the absorbed form takes.
[[nodiscard]] int64_t expansion_workspace_bytes(const MlaRecipe& mla, const MlaExpansion& expansion, int64_t rows,
                                                int64_t keys, DType activation);

}  // namespace strobe::model
