// The shapes that kernels are timed on: what one call of each kernel is in the models that matter.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/quant_tensor.h"

namespace strobe::probe {

// One call: `problems` products of [out, in], each with the case's rows.
struct ProductShape {
  std::string name;
  WeightFormat format = WeightFormat::kBf16;
  int64_t out = 0, in = 0, problems = 1;
  bool f32_out = true;  // else the activation type
};

struct MlaShape {
  int64_t heads = 0, latent = 0, rope = 0;
};

struct GqaShape {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
};

// Latent attention in the expanded form.
struct PromptShape {
  int64_t heads = 0, head_dim = 0, value_dim = 0;
};

struct ModelShapes {
  std::string name;
  std::string about;       // one line
  bool fits_cache = true;  // whether a step finds its weights in the caches
  int64_t hidden = 0;      // of norms, activations, combined experts
  int64_t inter = 0;       // of activations
  int64_t vocab = 0;       // 0: no head (one layer alone)
  int64_t rope_heads = 0, rope_dim = 0;
  bool interleaved_rope = false;
  int64_t experts = 0, top_k = 0;  // 0: dense
  std::vector<ProductShape> products;
  std::vector<MlaShape> mla;
  std::vector<GqaShape> gqa;
  std::vector<PromptShape> prompts;
  std::vector<int64_t> rows;             // of products and small kernels
  std::vector<int64_t> contexts;         // keys that attention reads
  std::vector<int64_t> prompt_contexts;  // keys of prompts, the last 512 of them rows
  std::vector<int64_t> attention_rows;   // 1: plain decoding, 8: a verify step, more: a chunk of a prompt
};

// pocket-k2 with its draft, smollm2-135m, and one layer of kimi-k2 with a few dozen experts.
[[nodiscard]] std::span<const ModelShapes> model_shapes();

}  // namespace strobe::probe
