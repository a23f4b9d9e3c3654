// A model is a recipe: data that says, layer by layer, what the decoder does. families.cc writes recipes from configs;
// the decoder walks them. All sizes are of the whole model.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "kernel/args.h"
#include "load/rope.h"
#include "ops/ops.h"

namespace strobe::model {

// Multi-head latent attention, as a rule in the absorbed form: the cache holds one row of latent + rope numbers a
// token, shared by all heads; queries are taken into the latent space, results out of it.
struct MlaRecipe {
  int64_t heads = 0;
  int64_t q_lora = 0;  // 0: queries straight from the hidden state
  int64_t latent = 0;
  int64_t nope = 0;  // per head, without position
  int64_t rope = 0;  // per head, rotated
  int64_t v = 0;     // per head
  float scale = 1;
};

// Grouped-query attention with rope over the whole head.
struct GqaRecipe {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  bool qk_norm = false;
  float scale = 1;
  bool causal = true;
  int32_t window = 0;  // positions a row sees, its own included; 0 = all
};

struct DenseRecipe {
  int64_t inter = 0;
};

struct RoutedRecipe {
  int64_t experts = 0;
  int64_t inter = 0;
  int64_t shared_inter = 0;  // 0: no shared expert
  ops::Router router;        // the bias is filled in from the weights
};

struct LayerRecipe {
  std::variant<MlaRecipe, GqaRecipe> attention;
  std::variant<DenseRecipe, RoutedRecipe> ffn;
};

struct RopeRecipe {
  RopeConfig config;
  int64_t dim = 0;
  float amplitude = 1;
  kernel::RopeStyle style = kernel::RopeStyle::kHalfSplit;
};

// Prompts through latent attention in the expanded form (mla_expansion.h). A row's numbers then depend on how many
// rows of its request a step has: off unless asked for.
struct MlaExpansion {
  int64_t min_rows = 0;  // of a request in a step, to be expanded; 0: none is
  int64_t kv_bytes = 0;  // of expanded keys and values at once, but for one head they are what they are
};

struct Recipe {
  int64_t vocab = 0;
  int64_t hidden = 0;
  float epsilon = 1e-6F;
  int64_t max_positions = 0;
  bool tied_head = false;
  RopeRecipe rope;
  std::vector<LayerRecipe> layers;
  MlaExpansion expansion;

  [[nodiscard]] int64_t layer_count() const { return static_cast<int64_t>(layers.size()); }
  [[nodiscard]] bool recurrent() const { return false; }  // no family here has recurrent layers yet
};

}  // namespace strobe::model
