#include "load/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "load/safetensors_writer.h"
#include "source_dir.h"

namespace strobe {
namespace {

using nlohmann::json;
using strobe::testing::SafetensorsWriter;
using strobe::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path kFixtures = source_dir() / "tests/load/fixtures";
const std::filesystem::path kPocket = source_dir() / "models/pocket-k2/target";

json read(const std::filesystem::path& path) {
  return *read_json_file(path);
}

std::string refusal(const json& config, const json* generation = nullptr) {
  const Result<ModelConfig> parsed = parse_model_config(config, generation);
  return parsed.ok() ? "it was accepted" : parsed.message();
}

TEST(ModelConfig, KimiK26) {
  const Result<ModelConfig> loaded = load_model_config(kFixtures / "kimi-k2.6-nvfp4");
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  const ModelConfig& config = *loaded;
  EXPECT_EQ(config.model_type, "kimi_k2");
  EXPECT_EQ(config.wrapper_type, "kimi_k25");
  EXPECT_THAT(config.architectures, ElementsAre("KimiK25ForConditionalGeneration"));
  EXPECT_EQ(config.layers, 61);
  EXPECT_EQ(config.hidden_size, 7168);
  EXPECT_EQ(config.intermediate_size, 18432);
  EXPECT_EQ(config.heads, 64);
  EXPECT_EQ(config.vocab_size, 163840);
  EXPECT_EQ(config.max_positions, 262144);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_FALSE(config.tie_word_embeddings);
  ASSERT_TRUE(config.mla && config.moe && !config.gqa);
  EXPECT_EQ(config.mla->q_lora_rank, 1536);
  EXPECT_EQ(config.mla->cache_width(), 576);
  EXPECT_EQ(config.mla->qk_head_dim(), 192);
  EXPECT_TRUE(config.mla->rope_interleave);
  EXPECT_NEAR(config.mla->softmax_scale, 0.144679F, 1e-6F);
  EXPECT_EQ(config.moe->experts, 384);
  EXPECT_EQ(config.moe->experts_per_token, 8);
  EXPECT_EQ(config.moe->shared_experts, 1);
  EXPECT_EQ(config.moe->intermediate_size, 2048);
  EXPECT_EQ(config.moe->routed_scaling_factor, 2.827);
  EXPECT_FALSE(config.routed_layer(0));
  EXPECT_TRUE(config.routed_layer(1));
  EXPECT_EQ(config.rope.kind, RopeKind::kDeepseekYarn);
  EXPECT_EQ(*config.bos_id, 163584);
  EXPECT_THAT(config.eos_ids, ElementsAre(163585, 163586));
  EXPECT_EQ(*config.sampling.top_p, 0.95);
  EXPECT_EQ(config.quant.algo, QuantAlgo::kNvfp4);
  EXPECT_EQ(config.quant.kv, KvScheme::kFp8);
  EXPECT_TRUE(config.warnings.empty());
}

TEST(ModelConfig, KimiK26QuantisesRoutedExpertsOnly) {
  const ModelConfig config = *load_model_config(kFixtures / "kimi-k2.6-nvfp4");
  int64_t quantised = 0;
  int64_t excluded = 0;
  const auto count = [&](const std::string& module) { ++(config.quant.excluded(module) ? excluded : quantised); };
  count("lm_head");
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    for (const char* name : {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"})
      count(prefix + "self_attn." + name);
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      if (!config.routed_layer(layer)) {
        count(prefix + "mlp." + name);
        continue;
      }
      count(prefix + "mlp.shared_experts." + name);
      for (const int expert : {0, 1, 10, 383}) count(fmt::format("{}mlp.experts.{}.{}", prefix, expert, name));
    }
    if (config.routed_layer(layer)) count(prefix + "mlp.gate");
  }
  EXPECT_EQ(quantised, 60 * 3 * 4);
  EXPECT_EQ(excluded, 1 + 61 * 5 + 61 * 3 + 60);
}

TEST(ModelConfig, Pocket) {
  const Result<ModelConfig> loaded = load_model_config(kPocket);
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  EXPECT_EQ(loaded->model_type, "kimi_k2");
  EXPECT_TRUE(loaded->wrapper_type.empty());
  EXPECT_EQ(loaded->layers, 6);
  EXPECT_THAT(loaded->eos_ids, ElementsAre(3841, 3842));
  EXPECT_TRUE(loaded->warnings.empty());
}

json deepseek_v3() {
  json config = read(kPocket / "config.json");
  config.erase("quantization_config");
  config["model_type"] = "deepseek_v3";
  config["n_group"] = 8;
  config["topk_group"] = 4;
  config["num_nextn_predict_layers"] = 1;
  return config;
}

TEST(ModelConfig, DeepseekV3) {
  const Result<ModelConfig> config = parse_model_config(deepseek_v3());
  ASSERT_TRUE(config.ok()) << config.message();
  EXPECT_EQ(config->moe->groups, 8);
  EXPECT_EQ(config->moe->groups_kept, 4);
  EXPECT_EQ(config->nextn_layers, 1);
  EXPECT_EQ(config->quant.algo, QuantAlgo::kNone);
  json lite = deepseek_v3();
  lite["q_lora_rank"] = nullptr;
  EXPECT_EQ(parse_model_config(lite)->mla->q_lora_rank, 0);
}

json qwen3() {
  return json::parse(
      R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "vocab_size": 151936,
    "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000, "tie_word_embeddings": true,
    "eos_token_id": 151645, "use_sliding_window": false})");
}

TEST(ModelConfig, PlainGqaFamilies) {
  const Result<ModelConfig> qwen = parse_model_config(qwen3());
  ASSERT_TRUE(qwen.ok()) << qwen.message();
  ASSERT_TRUE(qwen->gqa && !qwen->mla && !qwen->moe);
  EXPECT_TRUE(qwen->gqa->qk_norm);
  EXPECT_EQ(qwen->gqa->head_dim, 128);
  EXPECT_EQ(qwen->gqa->kv_heads, 8);
  EXPECT_TRUE(qwen->tie_word_embeddings);
  EXPECT_FALSE(qwen->routed_layer(5));

  json llama = qwen3();
  llama["model_type"] = "llama";
  llama.erase("head_dim");
  llama.erase("num_key_value_heads");
  llama["rope_scaling"] = {{"rope_type", "llama3"},
                           {"factor", 8},
                           {"low_freq_factor", 1},
                           {"high_freq_factor", 4},
                           {"original_max_position_embeddings", 8192}};
  const Result<ModelConfig> parsed = parse_model_config(llama);
  ASSERT_TRUE(parsed.ok()) << parsed.message();
  EXPECT_FALSE(parsed->gqa->qk_norm);
  EXPECT_EQ(parsed->gqa->head_dim, 64);
  EXPECT_EQ(parsed->gqa->kv_heads, 16);
  EXPECT_EQ(parsed->rope.kind, RopeKind::kLlama3);
}

struct BadField {
  const char* field;
  json value;
  const char* message;
};

TEST(ModelConfig, RefusesBadMlaConfigs) {
  const std::vector<BadField> cases = {
      {"model_type", "gpt2", "config.json: model_type is \"gpt2\"; accepted: kimi_k2, deepseek_v3"},
      {"model_type", nullptr, "config.json: model_type is missing"},
      {"hidden_size", nullptr, "config.json: hidden_size is missing; accepted: an integer from 1 to"},
      {"hidden_size", "256", "config.json: hidden_size is \"256\"; accepted: an integer"},
      {"hidden_size", -256, "hidden_size is -256"},
      {"hidden_size", 250, "hidden_size is 250; accepted: a multiple of 16 (the NVFP4 group)"},
      {"moe_intermediate_size", 24, "moe_intermediate_size is 24; accepted: a multiple of 16"},
      {"num_hidden_layers", 0, "num_hidden_layers is 0; accepted: an integer from 1 to 1024"},
      {"num_hidden_layers", 1e6, "num_hidden_layers is 1000000.0"},
      {"num_attention_heads", 0, "num_attention_heads is 0"},
      {"max_position_embeddings", 1000000000,
       "max_position_embeddings is 1000000000; accepted: an integer from 1 to 16777216"},
      {"vocab_size", 0, "vocab_size is 0"},
      {"rms_norm_eps", -1e-5, "rms_norm_eps is -1e-05"},
      {"rms_norm_eps", 0, "rms_norm_eps is 0"},
      {"hidden_act", "gelu", "hidden_act is \"gelu\"; accepted: silu"},
      {"torch_dtype", "float16", "torch_dtype is \"float16\"; accepted: bfloat16, float32"},
      {"tie_word_embeddings", "no", "tie_word_embeddings is \"no\"; accepted: true or false"},
      {"kv_lora_rank", 0, "kv_lora_rank is 0"},
      {"q_lora_rank", -1, "q_lora_rank is -1"},
      {"qk_rope_head_dim", 63, "qk_rope_head_dim is 63; accepted: an even number"},
      {"attention_bias", true, "attention_bias is true; accepted: false"},
      {"n_routed_experts", 0, "n_routed_experts is 0"},
      {"num_experts_per_tok", 17, "num_experts_per_tok is 17; accepted: an integer from 1 to 16"},
      {"num_experts_per_tok", 0, "num_experts_per_tok is 0"},
      {"n_group", 3, "n_group is 3; accepted: a divisor of n_routed_experts, 16"},
      {"topk_group", 2, "topk_group is 2; accepted: at most n_group, 1"},
      {"first_k_dense_replace", 7, "first_k_dense_replace is 7; accepted: an integer from 0 to 6"},
      {"moe_layer_freq", 0, "moe_layer_freq is 0"},
      {"scoring_func", "softmax", "scoring_func is \"softmax\"; accepted: sigmoid"},
      {"topk_method", "greedy", "topk_method is \"greedy\"; accepted: noaux_tc"},
      {"routed_scaling_factor", -1, "routed_scaling_factor is -1"},
      {"eos_token_id", 4096, "eos_token_id is 4096; accepted: an integer from 0 to 4095"},
      {"eos_token_id", json::array({3841, -1}), "eos_token_id[1] is -1"},
      {"bos_token_id", "x", "bos_token_id is \"x\""},
      {"architectures", "x", "architectures is \"x\"; accepted: an array"},
      {"quantization_config", json::object(), "quantization_config.quant_algo is missing"},
      {"rope_scaling", json::object(), "rope_scaling.rope_type is missing"},
  };
  for (const BadField& bad : cases) {
    json config = read(kPocket / "config.json");
    config[bad.field] = bad.value;
    EXPECT_THAT(refusal(config), HasSubstr(bad.message)) << bad.field;
  }
}

TEST(ModelConfig, RefusesBadGroups) {
  json config = deepseek_v3();
  config["n_group"] = 16;
  config["topk_group"] = 16;
  EXPECT_THAT(refusal(config), HasSubstr("n_group is 16; accepted: groups of at least 2 experts"));
  config["n_group"] = 8;
  config["topk_group"] = 1;
  EXPECT_THAT(refusal(config),
              HasSubstr("num_experts_per_tok is 4; accepted: at most the 2 experts of topk_group groups"));
}

TEST(ModelConfig, RefusesBadGqaConfigs) {
  const std::vector<BadField> cases = {
      {"num_key_value_heads", 3, "num_key_value_heads is 3; accepted: a divisor of num_attention_heads, 16"},
      {"head_dim", 127, "head_dim is 127; accepted: an even number"},
      {"head_dim", 0, "head_dim is 0"},
      {"mlp_bias", true, "mlp_bias is true; accepted: false"},
      {"use_sliding_window", true, "use_sliding_window is true; accepted: false"},
  };
  for (const BadField& bad : cases) {
    json config = qwen3();
    config[bad.field] = bad.value;
    EXPECT_THAT(refusal(config), HasSubstr(bad.message)) << bad.field;
  }
  json config = qwen3();
  config.erase("head_dim");
  config["num_attention_heads"] = 24;
  EXPECT_THAT(refusal(config),
              HasSubstr("head_dim is missing; accepted: a number: num_attention_heads does not divide hidden_size"));
  config["hidden_size"] = 1;
  config["num_attention_heads"] = 1;
  config["num_key_value_heads"] = 1;
  EXPECT_THAT(refusal(config), HasSubstr("head_dim is 1; accepted: an even number"));
}

TEST(ModelConfig, Wrapper) {
  json config = read(kFixtures / "kimi-k2.6-nvfp4/config.json");
  config["text_config"]["num_hidden_layers"] = -1;
  EXPECT_THAT(refusal(config), HasSubstr("config.json: text_config.num_hidden_layers is -1"));
  config["text_config"]["model_type"] = "llama";
  EXPECT_THAT(refusal(config), HasSubstr("text_config.model_type is \"llama\"; accepted: kimi_k2, deepseek_v3"));
  config.erase("text_config");
  EXPECT_THAT(refusal(config), HasSubstr("text_config is missing; accepted: an object"));
}

TEST(ModelConfig, GenerationConfig) {
  const json config = read(kPocket / "config.json");
  const json generation = {{"eos_token_id", 3842}, {"temperature", 0.6}, {"top_k", -1}};
  const Result<ModelConfig> parsed = parse_model_config(config, &generation);
  EXPECT_THAT(parsed->eos_ids, ElementsAre(3841, 3842));
  EXPECT_EQ(*parsed->sampling.temperature, 0.6);
  EXPECT_EQ(*parsed->sampling.top_k, -1);
  const json bad = {{"temperature", -1}};
  EXPECT_THAT(refusal(config, &bad), HasSubstr("generation_config.json: temperature is -1"));
  json silent = config;
  silent.erase("eos_token_id");
  EXPECT_THAT(parse_model_config(silent)->warnings, ElementsAre(HasSubstr("has eos_token_id")));
}

TEST(ModelConfig, FilesThatCannotBeUsed) {
  const TempFolder folder;
  EXPECT_THAT(load_model_config(folder.path()).message(), HasSubstr("config.json: there is no such file"));
  SafetensorsWriter::write_text(folder / "config.json", "{\"model_type\": ");
  EXPECT_THAT(load_model_config(folder.path()).message(), HasSubstr("config.json: not valid JSON"));
  SafetensorsWriter::write_text(folder / "config.json", "[]");
  EXPECT_THAT(load_model_config(folder.path()).message(), HasSubstr("it is an array of 0; accepted: a JSON object"));
  SafetensorsWriter::write_text(folder / "config.json", "");
  EXPECT_THAT(load_model_config(folder.path()).message(), HasSubstr("config.json: not valid JSON"));
  std::filesystem::resize_file(folder / "config.json", (int64_t{64} << 20) + 1);
  EXPECT_THAT(load_model_config(folder.path()).message(), HasSubstr("accepted: at most 67108864"));
}

}  // namespace
}  // namespace strobe
