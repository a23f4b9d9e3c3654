#include "load/draft_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "load/safetensors_writer.h"
#include "source_dir.h"

namespace strobe {
namespace {

using nlohmann::json;
using strobe::testing::SafetensorsWriter;
using strobe::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::filesystem::path kFixtures = source_dir() / "tests/load/fixtures";
const std::filesystem::path kPocket = source_dir() / "models/pocket-k2";

json kimi() {
  return *read_json_file(kFixtures / "kimi-k2.6-dflash/config.json");
}

std::string refusal(const json& config) {
  const Result<DraftConfig> parsed = parse_draft_config(config, 61);
  return parsed.ok() ? "it was accepted" : parsed.message();
}

TEST(DraftConfig, KimiK26) {
  const Result<DraftConfig> loaded = load_draft_config(kFixtures / "kimi-k2.6-dflash", 61);
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  const DraftConfig& draft = *loaded;
  EXPECT_EQ(draft.hidden_size, 7168);
  EXPECT_EQ(draft.layers, 6);
  EXPECT_EQ(draft.heads, 64);
  EXPECT_EQ(draft.kv_heads, 8);
  EXPECT_EQ(draft.head_dim, 128);
  EXPECT_EQ(draft.rms_norm_eps, 1e-5);
  EXPECT_EQ(draft.max_positions, 262144);
  EXPECT_FLOAT_EQ(draft.softmax_scale, 0.088388346F);
  EXPECT_EQ(draft.rope.kind, RopeKind::kYarn);
  EXPECT_FLOAT_EQ(draft.rope_amplitude, 1.0F);
  EXPECT_EQ(*draft.block_size, 8);
  EXPECT_EQ(*draft.mask_token_id, 163838);
  EXPECT_THAT(draft.target_layer_ids, ElementsAre(1, 12, 24, 35, 47, 58));
  EXPECT_EQ(draft.feature_width(), 43008);
  ASSERT_EQ(draft.layer_types.size(), 6U);
  EXPECT_FALSE(draft.layer_types[0].causal);
  EXPECT_EQ(draft.layer_types[0].window_left, -1);
  const ModelConfig target = *load_model_config(kFixtures / "kimi-k2.6-nvfp4");
  EXPECT_THAT(*check_draft_against_target(draft, target), IsEmpty());
}

TEST(DraftConfig, PocketFitsItsTarget) {
  const ModelConfig target = *load_model_config(kPocket / "target");
  const Result<DraftConfig> draft = load_draft_config(kPocket / "draft", target.layers);
  ASSERT_TRUE(draft.ok()) << draft.message();
  EXPECT_THAT(draft->target_layer_ids, ElementsAre(1, 2, 4));
  EXPECT_EQ(draft->rope.kind, RopeKind::kDefault);
  EXPECT_THAT(*check_draft_against_target(*draft, target), IsEmpty());
}

TEST(DraftConfig, NestedFieldsWinOverTopLevelOnes) {
  json config = kimi();
  config["dflash_config"]["block_size"] = 4;
  config["mask_token_id"] = 7;
  config["target_layer_ids"] = {5};
  const Result<DraftConfig> draft = parse_draft_config(config, 61);
  EXPECT_EQ(*draft->block_size, 4);
  EXPECT_EQ(*draft->mask_token_id, 163838);
  EXPECT_EQ(draft->features(), 6);
  config.erase("dflash_config");
  EXPECT_EQ(*parse_draft_config(config, 61)->block_size, 8);
  EXPECT_EQ(*parse_draft_config(config, 61)->mask_token_id, 7);
  EXPECT_THAT(parse_draft_config(config, 61)->target_layer_ids, ElementsAre(5));
}

TEST(DraftConfig, FallbacksOfAMinimalFile) {
  const json config = {
      {"hidden_size", 64}, {"num_hidden_layers", 6}, {"num_attention_heads", 4}, {"intermediate_size", 128}};
  const Result<DraftConfig> draft = parse_draft_config(config, 61);
  ASSERT_TRUE(draft.ok()) << draft.message();
  EXPECT_EQ(draft->kv_heads, 4);
  EXPECT_EQ(draft->head_dim, 16);
  EXPECT_EQ(draft->max_positions, 32768);
  EXPECT_EQ(draft->rms_norm_eps, 1e-6);
  EXPECT_FALSE(draft->block_size.has_value());
  EXPECT_FALSE(draft->mask_token_id.has_value());
  EXPECT_FALSE(draft->vocab_size.has_value());
  EXPECT_THAT(draft->target_layer_ids, ElementsAre(1, 12, 24, 35, 47, 58));
  EXPECT_EQ(draft->layer_types.size(), 6U);
}

TEST(DraftConfig, DefaultTargetLayers) {
  // Values of Python's [n // 2] if k == 1 else [round(1 + i * (n - 4) / (k - 1)) for i in range(k)].
  EXPECT_THAT(*default_target_layer_ids(61, 6), ElementsAre(1, 12, 24, 35, 47, 58));
  EXPECT_THAT(*default_target_layer_ids(61, 1), ElementsAre(30));
  EXPECT_THAT(*default_target_layer_ids(1, 1), ElementsAre(0));
  EXPECT_THAT(*default_target_layer_ids(36, 5), ElementsAre(1, 9, 17, 25, 33));
  EXPECT_THAT(*default_target_layer_ids(28, 5), ElementsAre(1, 7, 13, 19, 25));
  EXPECT_THAT(*default_target_layer_ids(9, 3), ElementsAre(1, 4, 6));  // 3.5 goes to the even 4
  EXPECT_THAT(*default_target_layer_ids(7, 3), ElementsAre(1, 2, 4));  // 2.5 goes to the even 2
  EXPECT_THAT(*default_target_layer_ids(6, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(default_target_layer_ids(5, 3).message(),
              HasSubstr("3 draft layers cannot be spread over 5 target layers"));
  EXPECT_FALSE(default_target_layer_ids(10, 0).ok());
  EXPECT_FALSE(default_target_layer_ids(0, 1).ok());
  // The draft's own count comes first.
  json config = kimi();
  config["dflash_config"].erase("target_layer_ids");
  config["num_target_layers"] = 40;
  EXPECT_EQ(parse_draft_config(config, 61)->target_layer_ids.back(), 37);
}

TEST(DraftConfig, LayerTypes) {
  json config = kimi();
  config["layer_types"] = {"full_attention", "sliding_attention", "full_attention", "full_attention",
                           "full_attention", "full_attention",    "extra"};
  config["sliding_window"] = 4096;
  Result<DraftConfig> draft = parse_draft_config(config, 61);
  ASSERT_TRUE(draft.ok()) << draft.message();
  EXPECT_FALSE(draft->layer_types[0].causal);
  EXPECT_TRUE(draft->layer_types[1].causal);
  EXPECT_EQ(draft->layer_types[1].window_left, 4095);
  EXPECT_EQ(draft->layer_types.size(), 6U);
  config["is_causal"] = false;
  EXPECT_FALSE(parse_draft_config(config, 61)->layer_types[1].causal);
  EXPECT_EQ(parse_draft_config(config, 61)->layer_types[1].window_left, 4095);
  config["is_causal"] = true;
  EXPECT_TRUE(parse_draft_config(config, 61)->layer_types[0].causal);
  EXPECT_EQ(parse_draft_config(config, 61)->layer_types[0].window_left, -1);
}

TEST(DraftConfig, RopeAmplitude) {
  json config = kimi();
  config["rope_scaling"]["attn_factor"] = 1.25;
  EXPECT_FLOAT_EQ(parse_draft_config(config, 61)->rope_amplitude, 1.25F);
  EXPECT_FLOAT_EQ(parse_draft_config(config, 61, {.rope_amplitude = 1.41589})->rope_amplitude, 1.41589F);
  config["rope_scaling"].erase("mscale");
  EXPECT_NEAR(parse_draft_config(config, 61)->rope_amplitude, 1.25F * 1.41589F, 1e-5F);
  for (const double bad : {0.0, -1.0, 1e9, std::nan("")}) {
    EXPECT_THAT(parse_draft_config(config, 61, {.rope_amplitude = bad}).message(), HasSubstr("rope amplitude is"));
  }
}

struct BadField {
  const char* field;
  json value;
  const char* message;
};

TEST(DraftConfig, Refusals) {
  const std::vector<BadField> cases = {
      {"architectures",
       {"DFlash2DraftModel"},
       "architectures is an array of 1; accepted: a list with DFlashDraftModel"},
      {"hidden_size", nullptr, "config.json: hidden_size is missing"},
      {"num_hidden_layers", 0, "num_hidden_layers is 0"},
      {"num_attention_heads", "64", "num_attention_heads is \"64\""},
      {"num_key_value_heads", 7, "num_key_value_heads is 7; accepted: a divisor of num_attention_heads, 64"},
      {"head_dim", 127, "head_dim is 127; accepted: an even number"},
      {"hidden_act", "gelu", "hidden_act is \"gelu\"; accepted: silu"},
      {"max_position_embeddings", 1e9, "max_position_embeddings is 1000000000.0"},
      {"block_size", 1, "block_size is 1; accepted: an integer from 2 to 1024"},
      {"num_target_layers", 0, "num_target_layers is 0"},
      {"layer_types", {"full_attention"}, "layer_types is an array of 1; accepted: one for each of the 6 layers"},
      {"layer_types",
       {"full_attention", "linear", "x", "x", "x", "x"},
       "layer_types[1] is 'linear'; accepted: full_attention, sliding_attention"},
      {"layer_types", json::array_t(6, "sliding_attention"), "sliding_window is missing; accepted: a number of tokens"},
      {"is_causal", 1, "is_causal is 1; accepted: true or false"},
      {"dflash_config",
       {{"target_layer_ids", json::array()}},
       "dflash_config.target_layer_ids is an array of 0; accepted: at least one layer"},
      {"dflash_config",
       {{"target_layer_ids", {1, 61}}},
       "dflash_config.target_layer_ids[1] is 61; accepted: an integer from 0 to 60"},
      {"dflash_config", {{"target_layer_ids", {-1}}}, "target_layer_ids[0] is -1"},
      {"dflash_config",
       {{"target_layer_ids", {12, 12}}},
       "target_layer_ids[1] is 12 after 12; accepted: ascending ids"},
      {"dflash_config", {{"target_layer_ids", "1,12"}}, "target_layer_ids is \"1,12\"; accepted: an array"},
      {"dflash_config", {{"mask_token_id", -1}}, "dflash_config.mask_token_id is -1"},
      {"dflash_config", {{"mask_token", ""}}, "dflash_config.mask_token is \"\""},
      {"dflash_config", 3, "dflash_config is 3; accepted: an object"},
      {"dflash_config", {{"input_embedding_scale", 2}}, "input_embedding_scale is 2; accepted: 1"},
      {"dflash_config", {{"final_logit_softcapping", 30}}, "final_logit_softcapping is 30; accepted: no such field"},
      {"attention_mode", "mla", "attention_mode is \"mla\"; accepted: gqa, mha"},
      {"quantization_config", {{"quant_algo", "NVFP4"}}, "quantization_config is an object; accepted: no such field"},
      {"rope_scaling", {{"type", "yarn"}}, "rope_scaling.factor is missing"},
  };
  for (const BadField& bad : cases) {
    json config = kimi();
    config[bad.field] = bad.value;
    EXPECT_THAT(refusal(config), HasSubstr(bad.message)) << bad.field;
  }
  EXPECT_THAT(refusal(json::array()), HasSubstr("accepted: a JSON object"));
}

TEST(DraftConfig, BlockSize) {
  DraftConfig draft;
  EXPECT_EQ(resolve_block_size(draft, std::nullopt)->tokens, 16);
  draft.block_size = 8;
  EXPECT_EQ(resolve_block_size(draft, std::nullopt)->tokens, 8);
  EXPECT_EQ(resolve_block_size(draft, 8)->warning, "");
  EXPECT_EQ(resolve_block_size(draft, 4)->tokens, 4);
  EXPECT_THAT(resolve_block_size(draft, 4)->warning,
              HasSubstr("is 4 by flag, the draft's config.json says 8; the flag is used"));
  EXPECT_FALSE(resolve_block_size(draft, 1).ok());
  EXPECT_FALSE(resolve_block_size(draft, -5).ok());
  EXPECT_FALSE(resolve_block_size(draft, 1025).ok());
}

TEST(DraftConfig, MaskTokenOrder) {
  DraftConfig draft;
  MaskTokenSources sources;
  EXPECT_THAT(resolve_mask_token(draft, 100, sources).message(),
              HasSubstr("has no mask_token_id, and the target's tokenizer has no '<|MASK|>'"));
  sources.tokenizer_size = 90;
  EXPECT_EQ(*resolve_mask_token(draft, 100, sources), 90);
  sources.find_token = [](std::string_view token) {
    return token == "<|MASK|>" ? std::optional<int64_t>(42) : std::nullopt;
  };
  EXPECT_EQ(*resolve_mask_token(draft, 100, sources), 42);
  sources.tokenizer_mask_id = 41;
  EXPECT_EQ(*resolve_mask_token(draft, 100, sources), 41);
  draft.mask_token_id = 40;
  EXPECT_EQ(*resolve_mask_token(draft, 100, sources), 40) << "the default name does not clash";
  draft.mask_token = "<|MASK|>";
  EXPECT_THAT(resolve_mask_token(draft, 100, sources).message(),
              HasSubstr("has mask_token_id 40, but the target's tokenizer gives its mask_token '<|MASK|>' the id 42"));
  draft.mask_token_id = 42;
  EXPECT_EQ(*resolve_mask_token(draft, 100, sources), 42);
  EXPECT_THAT(resolve_mask_token(draft, 42, sources).message(),
              HasSubstr("mask token id 42 (mask_token_id of the draft's config.json) is outside the target's "
                        "vocabulary; accepted: 0 to 41"));
  sources = {};
  sources.tokenizer_size = 100;
  EXPECT_THAT(resolve_mask_token(DraftConfig{}, 100, sources).message(),
              HasSubstr("first id that the tokenizer leaves free"));
}

TEST(DraftConfig, AgainstTheTarget) {
  const ModelConfig target = *load_model_config(kFixtures / "kimi-k2.6-nvfp4");
  const DraftConfig good = *load_draft_config(kFixtures / "kimi-k2.6-dflash", 61);
  const auto verdict = [&](auto change) {
    DraftConfig draft = good;
    change(draft);
    const auto checked = check_draft_against_target(draft, target);
    return checked.ok() ? "it was accepted" : checked.message();
  };
  EXPECT_EQ(verdict([](DraftConfig& d) { d.hidden_size = 4096; }),
            "the draft's hidden_size is 4096; accepted: the target's, 7168");
  EXPECT_THAT(verdict([](DraftConfig& d) { d.vocab_size = 100; }),
              HasSubstr("vocab_size is 100; accepted: the target's, 163840"));
  EXPECT_THAT(verdict([](DraftConfig& d) { d.target_layer_ids.back() = 60; }),
              HasSubstr("target_layer_ids has 60; accepted: 0 to 59"));
  EXPECT_EQ(verdict([](DraftConfig& d) { d.target_layer_ids.back() = 59; }), "it was accepted");
  EXPECT_THAT(verdict([](DraftConfig& d) { d.mask_token_id = 163840; }),
              HasSubstr("mask_token_id is 163840; accepted: 0 to 163839"));
  DraftConfig odd = good;
  odd.num_target_layers = 62;
  odd.max_positions = 4096;
  EXPECT_THAT(*check_draft_against_target(odd, target),
              ElementsAre(HasSubstr("made for a target of 62 layers; this one has 61"),
                          HasSubstr("knows 4096 positions, the target 262144")));
}

TEST(DraftConfig, Files) {
  const TempFolder folder;
  EXPECT_THAT(load_draft_config(folder.path(), 61).message(), HasSubstr("config.json: there is no such file"));
  SafetensorsWriter::write_text(folder / "config.json", kimi().dump());
  EXPECT_TRUE(load_draft_config(folder.path(), 61)->warnings.empty());
  SafetensorsWriter::write_text(folder / "mask_embedding.pt", "x");
  EXPECT_THAT(load_draft_config(folder.path(), 61)->warnings,
              ElementsAre(HasSubstr("mask_embedding.pt lies beside the draft")));
}

}  // namespace
}  // namespace strobe
