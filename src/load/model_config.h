// ModelConfig: everything the engine needs to know about a target model, read once from config.json and checked.
//
// Known: kimi_k2, deepseek_v3 (MLA attention, routed experts), kimi_k25 (the same under text_config, beside a vision
// tower that we do not load), and the plain GQA families llama and qwen3.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/quant_config.h"
#include "load/rope.h"

namespace strobe {

// Multi-head latent attention. Per head: q and k [nope | rope], v its own width. The cache row is [kv_lora_rank |
// qk_rope].
struct MlaConfig {
  int64_t q_lora_rank = 0;  // 0: q_proj straight from hidden
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;
  bool rope_interleave = true;  // pairs are neighbours (2i, 2i+1); false: halves (i, i + d/2)
  float softmax_scale = 0;      // YaRN's factor included

  [[nodiscard]] int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  [[nodiscard]] int64_t cache_width() const { return kv_lora_rank + qk_rope_head_dim; }
};

// Grouped-query attention, half-split rope over the whole head.
struct GqaConfig {
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  bool qk_norm = false;         // RMSNorm over head_dim on q and k before rope (qwen3)
  bool attention_bias = false;  // bias on q, k, v (and o for llama)
  float softmax_scale = 0;      // head_dim^-0.5
};

struct MoeConfig {
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  int64_t shared_experts = 0;      // one FFN of shared_experts * intermediate_size, 0: none
  int64_t intermediate_size = 0;   // of one expert
  int64_t first_dense_layers = 0;  // layers below have a dense FFN
  int64_t layer_freq = 1;          // from there on every layer_freq-th is routed
  int64_t groups = 1;              // experts lie in `groups` equal groups ...
  int64_t groups_kept = 1;         // ... of which the best groups_kept by their two best choices stay
  bool norm_topk_prob = true;      // weights divided by their sum
  double routed_scaling_factor = 1.0;
};

// Defaults of the checkpoint's generation_config.json; nullopt when it says nothing.
struct SamplingDefaults {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
};

struct ModelConfig {
  std::string model_type;    // of the language model: kimi_k2, deepseek_v3, llama, qwen3
  std::string wrapper_type;  // kimi_k25 when the language model is its text_config, else empty
  std::vector<std::string> architectures;

  int64_t hidden_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t intermediate_size = 0;  // of a dense FFN
  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  int64_t nextn_layers = 0;  // multi-token-prediction layers after the last one; their tensors are skipped

  RopeConfig rope;
  std::optional<MlaConfig> mla;  // exactly one of mla and gqa
  std::optional<GqaConfig> gqa;
  std::optional<MoeConfig> moe;  // none: every FFN is dense

  std::optional<int64_t> bos_id;
  std::optional<int64_t> pad_id;
  std::vector<int64_t> eos_ids;  // config.json's and generation_config.json's, in this order, each once
  SamplingDefaults sampling;
  QuantConfig quant;
  std::vector<std::string> warnings;

  [[nodiscard]] bool routed_layer(int64_t layer) const {
    return moe && layer >= moe->first_dense_layers && layer % moe->layer_freq == 0;
  }
};

// Reads config.json and, where they exist, generation_config.json and hf_quant_config.json of a folder. A config.json
// that is missing or cannot be read is an Error too (it is the user who named the folder).
Result<ModelConfig> load_model_config(const std::filesystem::path& folder);

// The same from parsed JSON; nullptr for a file that is not there. Errors name file, field, value and what is accepted:
// unknown model type or activation, missing or mistyped fields, sizes that are absurd (max_position_embeddings above
// 16M, no experts) or do not fit each other (more experts chosen than there are, heads not a multiple of kv heads, odd
// rope width, NVFP4 with a size that is not a multiple of 16).
Result<ModelConfig> parse_model_config(const nlohmann::json& config, const nlohmann::json* generation_config = nullptr,
                                       const nlohmann::json* hf_quant_config = nullptr);

// One JSON file of at most 64 MiB.
Result<nlohmann::json> read_json_file(const std::filesystem::path& path);

}  // namespace strobe
