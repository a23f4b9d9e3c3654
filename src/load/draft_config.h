// DraftConfig: a DFlash draft model (architecture DFlashDraftModel), read once from its config.json.
//
// Fields are looked for in the nested dflash_config first, then at the top level: num_target_layers, block_size,
// target_layer_ids, mask_token, mask_token_id.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/model_config.h"
#include "load/rope.h"

namespace strobe {

struct DraftLayer {
  bool causal = false;       // false: every row of the block sees the whole context and the whole block
  int64_t window_left = -1;  // how many keys before its own a row sees; -1: all
};

struct DraftConfig {
  int64_t hidden_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t intermediate_size = 0;
  int64_t max_positions = 32768;
  double rms_norm_eps = 1e-6;
  bool attention_bias = false;
  float softmax_scale = 0;  // head_dim^-0.5; never YaRN's factor

  RopeConfig rope;           // half-split, over the whole head
  float rope_amplitude = 1;  // of cos and sin; see DraftOptions

  std::vector<DraftLayer> layer_types;    // one a layer
  std::optional<int64_t> block_size;      // bonus token included
  std::vector<int64_t> target_layer_ids;  // ascending; the feature of id L is the output of target layer L
  std::optional<int64_t> num_target_layers;
  std::optional<int64_t> vocab_size;
  std::optional<int64_t> mask_token_id;   // as the file says; resolve_mask_token decides
  std::optional<std::string> mask_token;  // "<|MASK|>" when the file has none
  std::vector<std::string> warnings;

  [[nodiscard]] int64_t features() const { return static_cast<int64_t>(target_layer_ids.size()); }
  [[nodiscard]] int64_t feature_width() const { return features() * hidden_size; }  // columns of fc.weight
};

struct DraftOptions {
  // Replaces the amplitude of cos and sin that the rope rule gives. A draft trained under the older rule of a plain
  // "yarn" (mscale keys ignored) wants 0.1 ln(factor) + 1, e.g. 1.41589 for factor 64; only its accept length can tell.
  std::optional<double> rope_amplitude;
};

// `target_layers` is the target's own layer count: the default for num_target_layers in the formula for
// target_layer_ids. Errors name field, value and what is accepted: another architecture, activation not silu, an empty
// or unsorted target_layer_ids or an id outside [0, num_target_layers), layer_types shorter than the layers or of an
// unknown kind, sliding_attention without sliding_window, heads not a multiple of kv heads, and whatever model_config.h
// refuses.
Result<DraftConfig> parse_draft_config(const nlohmann::json& config, int64_t target_layers,
                                       const DraftOptions& options = {});
Result<DraftConfig> load_draft_config(const std::filesystem::path& folder, int64_t target_layers,
                                      const DraftOptions& options = {});

// Which layers to capture when the config does not say: {n / 2} for k = 1, else round(1 + i (n - 4) / (k - 1)), i =
// 0..k-1 (ties to even, as Python rounds). n = 61, k = 6: 1, 12, 24, 35, 47, 58. Needs k >= 1 and n >= k + 3 for
// distinct layers.
Result<std::vector<int64_t>> default_target_layer_ids(int64_t target_layers, int64_t draft_layers);

// The block size: the flag when given, else the config's, else 16. A flag that differs from the config wins; `warning`
// then says so. Errors: a flag below 2 (one token is the bonus).
struct BlockSize {
  int64_t tokens = 0;
  std::string warning;
};
Result<BlockSize> resolve_block_size(const DraftConfig& draft, std::optional<int64_t> flag);

// What the target's tokenizer knows, as far as it is needed here. All optional.
struct MaskTokenSources {
  std::optional<int64_t> tokenizer_mask_id;  // the tokenizer's own mask_token
  std::function<std::optional<int64_t>(std::string_view token)>
      find_token;                         // the id of a whole token in its vocabulary
  std::optional<int64_t> tokenizer_size;  // ids below are taken
};

// mask_token_id of the config; else the tokenizer's mask token; else the vocabulary's entry for mask_token; else the
// first free id (tokenizer_size). Errors: none of them known; the result not in [0, target_vocab); mask_token_id
// differs from the vocabulary's id for a mask_token that the config names.
Result<int64_t> resolve_mask_token(const DraftConfig& draft, int64_t target_vocab,
                                   const MaskTokenSources& sources = {});

// Whether this draft can serve this target; the list holds warnings (num_target_layers differs; the draft's positions
// are fewer than the target's). Errors: hidden size or vocabulary differ; a captured layer that the target does not
// have, or its last one (nothing enters the layer after it, so its output is never captured); mask_token_id outside the
// vocabulary.
Result<std::vector<std::string>> check_draft_against_target(const DraftConfig& draft, const ModelConfig& target);

}  // namespace strobe
