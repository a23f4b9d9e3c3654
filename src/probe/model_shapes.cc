#include "probe/model_shapes.h"

namespace strobe::probe {
namespace {

constexpr auto kBf16 = WeightFormat::kBf16;
constexpr auto kNvfp4 = WeightFormat::kNvfp4;

ModelShapes pocket_k2() {
  return {.name = "pocket-k2",
          .about = "pocket-k2 and its draft: 6 MLA layers, 16 experts of which 4 speak",
          .hidden = 256,
          .inter = 256,
          .vocab = 4096,
          .rope_heads = 8,
          .rope_dim = 64,
          .interleaved_rope = true,
          .experts = 16,
          .top_k = 4,
          .products = {{"q_a", kBf16, 128, 256},
                       {"kv_a", kBf16, 576, 256},
                       {"q_b", kBf16, 1024, 128},
                       {"to latent", kBf16, 512, 64, 8},
                       {"from latent", kBf16, 64, 512, 8, false},
                       {"o", kBf16, 256, 512},
                       {"router", kBf16, 16, 256},
                       {"shared gate+up", kBf16, 256, 256, 2},
                       {"4 experts gate+up", kNvfp4, 256, 256, 8},
                       {"4 experts down", kNvfp4, 256, 256, 4},
                       {"14 experts gate+up", kNvfp4, 256, 256, 28},
                       {"14 experts down", kNvfp4, 256, 256, 14},
                       {"dense gate+up", kBf16, 768, 256, 2},
                       {"dense down", kBf16, 256, 768},
                       {"head", kBf16, 4096, 256}},
          .mla = {{8, 512, 64}},
          .gqa = {{8, 2, 64}},
          .prompts = {{8, 128, 64}},
          .rows = {1, 2, 8, 64, 512},
          .contexts = {128, 512, 2048, 8192},
          .prompt_contexts = {512, 2048},
          .attention_rows = {1, 8, 64}};
}

ModelShapes smollm2_135m() {
  return {.name = "smollm2-135m",
          .about = "SmolLM2-135M: 30 dense layers with grouped queries",
          .hidden = 576,
          .inter = 1536,
          .vocab = 49152,
          .rope_heads = 9,
          .rope_dim = 64,
          .products = {{"q", kBf16, 576, 576},
                       {"k+v", kBf16, 192, 576, 2},
                       {"o", kBf16, 576, 576},
                       {"gate+up", kBf16, 1536, 576, 2},
                       {"down", kBf16, 576, 1536},
                       {"head", kBf16, 49152, 576}},
          .gqa = {{9, 3, 64}},
          .rows = {1, 8, 64, 512},
          .contexts = {512, 2048},
          .attention_rows = {1, 8, 64}};
}

ModelShapes kimi_k2_layer() {
  return {.name = "kimi-k2",
          .about = "one layer of Kimi-K2, 24 of its experts",
          .fits_cache = false,
          .hidden = 7168,
          .inter = 2048,
          .rope_heads = 64,
          .rope_dim = 64,
          .interleaved_rope = true,
          .experts = 384,
          .top_k = 8,
          .products = {{"q_a", kBf16, 1536, 7168},
                       {"kv_a", kBf16, 576, 7168},
                       {"q_b", kBf16, 12288, 1536},
                       {"to latent", kBf16, 512, 128, 64},
                       {"from latent", kBf16, 128, 512, 64, false},
                       {"o", kBf16, 7168, 8192},
                       {"router", kBf16, 384, 7168},
                       {"shared gate+up", kBf16, 2048, 7168, 2},
                       {"8 experts gate+up", kNvfp4, 2048, 7168, 16},
                       {"8 experts down", kNvfp4, 7168, 2048, 8},
                       {"24 experts gate+up", kNvfp4, 2048, 7168, 48}},
          .mla = {{64, 512, 64}},
          .prompts = {{64, 192, 128}},
          .rows = {1, 8, 64},
          .contexts = {1024, 8192},
          .prompt_contexts = {512, 8192},
          .attention_rows = {1, 8}};
}

}  // namespace

std::span<const ModelShapes> model_shapes() {
  static const std::vector<ModelShapes> all = {pocket_k2(), smollm2_135m(), kimi_k2_layer()};
  return all;
}

}  // namespace strobe::probe
