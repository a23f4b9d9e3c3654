// The embedded checkpoints, taken whole: every tensor has its place and none is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "load/draft_config.h"
#include "load/model_config.h"
#include "load/safetensors_writer.h"
#include "load/tensor_source.h"
#include "source_dir.h"

namespace strobe {
namespace {

using strobe::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::filesystem::path kPocket = source_dir() / "models/pocket-k2";
constexpr auto kNorm = {DType::kBf16};

Result<TensorSource> open(const std::filesystem::path& folder, const NameRules& rules, const QuantConfig& quant) {
  STROBE_ASSIGN(Checkpoint checkpoint, Checkpoint::open(folder));
  return TensorSource::open(std::make_shared<const Checkpoint>(std::move(checkpoint)), rules, quant);
}

Result<void> take_ffn(TensorSource& source, const std::string& prefix, int64_t hidden, int64_t width) {
  STROBE_TRY(source.take_matrix(prefix + ".gate_proj", width, hidden));
  STROBE_TRY(source.take_matrix(prefix + ".up_proj", width, hidden));
  STROBE_TRY(source.take_matrix(prefix + ".down_proj", hidden, width));
  return {};
}

Result<void> take_mla(TensorSource& source, const std::string& prefix, const ModelConfig& config) {
  const MlaConfig& mla = *config.mla;
  STROBE_TRY(source.take_matrix(prefix + ".q_a_proj", mla.q_lora_rank, config.hidden_size));
  STROBE_TRY(source.take(prefix + ".q_a_layernorm.weight", kNorm, {mla.q_lora_rank}));
  STROBE_TRY(source.take_matrix(prefix + ".q_b_proj", config.heads * mla.qk_head_dim(), mla.q_lora_rank));
  STROBE_TRY(source.take_matrix(prefix + ".kv_a_proj_with_mqa", mla.cache_width(), config.hidden_size));
  STROBE_TRY(source.take(prefix + ".kv_a_layernorm.weight", kNorm, {mla.kv_lora_rank}));
  STROBE_TRY(source.take_matrix(prefix + ".kv_b_proj", config.heads * (mla.qk_nope_head_dim + mla.v_head_dim),
                                mla.kv_lora_rank));
  STROBE_TRY(source.take_matrix(prefix + ".o_proj", config.hidden_size, config.heads * mla.v_head_dim));
  STROBE_TRY(source.take_latent_scale(prefix));
  return {};
}

Result<void> take_target(TensorSource& source, const ModelConfig& config) {
  STROBE_TRY(source.take("model.embed_tokens.weight", kNorm, {config.vocab_size, config.hidden_size}));
  STROBE_TRY(source.take("model.norm.weight", kNorm, {config.hidden_size}));
  STROBE_TRY(source.take_matrix("lm_head", config.vocab_size, config.hidden_size));
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}", i);
    STROBE_TRY(source.take(layer + ".input_layernorm.weight", kNorm, {config.hidden_size}));
    STROBE_TRY(source.take(layer + ".post_attention_layernorm.weight", kNorm, {config.hidden_size}));
    STROBE_TRY(take_mla(source, layer + ".self_attn", config));
    if (!config.routed_layer(i)) {
      STROBE_TRY(take_ffn(source, layer + ".mlp", config.hidden_size, config.intermediate_size));
      continue;
    }
    const MoeConfig& moe = *config.moe;
    STROBE_TRY(source.take_matrix(layer + ".mlp.gate", moe.experts, config.hidden_size));
    STROBE_TRY(source.take_f32(layer + ".mlp.gate.e_score_correction_bias", {moe.experts}));
    STROBE_TRY(take_ffn(source, layer + ".mlp.shared_experts", config.hidden_size,
                        moe.shared_experts * moe.intermediate_size));
    for (int64_t e = 0; e < moe.experts; ++e) {
      STROBE_TRY(
          take_ffn(source, fmt::format("{}.mlp.experts.{}", layer, e), config.hidden_size, moe.intermediate_size));
    }
  }
  return source.finish();
}

TEST(Pocket, TargetIsTakenWhole) {
  const ModelConfig config = *load_model_config(kPocket / "target");
  Result<TensorSource> source = open(kPocket / "target", target_name_rules(config), config.quant);
  ASSERT_TRUE(source.ok()) << source.message();
  const Result<void> taken = take_target(*source, config);
  ASSERT_TRUE(taken.ok()) << taken.message();
  // 5 routed layers of 16 experts of 3 matrices; lm_head, 6 x 5 attention, 3 dense, 5 x (3 shared + 1 router).
  EXPECT_EQ(source->summary().quantised_modules, 240);
  EXPECT_EQ(source->summary().excluded_modules, 54);
  EXPECT_EQ(source->summary().bf16_modules, 0);
  EXPECT_EQ(source->summary().note_count, 0);
  EXPECT_THAT(
      source->summary_line(),
      HasSubstr(
          "240 quantised modules, 0 bf16, 54 excluded by config.json; 1045 tensors, 26.6 MiB, 0 skipped by name"));
}

TEST(Pocket, DraftIsTakenWhole) {
  const DraftConfig draft = *load_draft_config(kPocket / "draft", 6);
  Result<TensorSource> source = open(kPocket / "draft", draft_name_rules(), {});
  ASSERT_TRUE(source.ok()) << source.message();
  const auto take = [&]() -> Result<void> {
    STROBE_TRY(source->take_matrix("fc", draft.hidden_size, draft.feature_width()));
    STROBE_TRY(source->take("hidden_norm.weight", kNorm, {draft.hidden_size}));
    STROBE_TRY(source->take("norm.weight", kNorm, {draft.hidden_size}));
    for (int64_t i = 0; i < draft.layers; ++i) {
      const std::string layer = fmt::format("layers.{}", i);
      STROBE_TRY(source->take(layer + ".input_layernorm.weight", kNorm, {draft.hidden_size}));
      STROBE_TRY(source->take(layer + ".post_attention_layernorm.weight", kNorm, {draft.hidden_size}));
      STROBE_TRY(source->take_matrix(layer + ".self_attn.q_proj", draft.heads * draft.head_dim, draft.hidden_size));
      STROBE_TRY(source->take_matrix(layer + ".self_attn.k_proj", draft.kv_heads * draft.head_dim, draft.hidden_size));
      STROBE_TRY(source->take_matrix(layer + ".self_attn.v_proj", draft.kv_heads * draft.head_dim, draft.hidden_size));
      STROBE_TRY(source->take_matrix(layer + ".self_attn.o_proj", draft.hidden_size, draft.heads * draft.head_dim));
      STROBE_TRY(source->take(layer + ".self_attn.q_norm.weight", kNorm, {draft.head_dim}));
      STROBE_TRY(source->take(layer + ".self_attn.k_norm.weight", kNorm, {draft.head_dim}));
      STROBE_TRY(take_ffn(*source, layer + ".mlp", draft.hidden_size, draft.intermediate_size));
    }
    return source->finish();
  }();
  ASSERT_TRUE(take.ok()) << take.message();
  EXPECT_EQ(source->summary().bf16_modules, 22);
  EXPECT_EQ(source->summary().note_count, 0);
}

// A copy of the target whose first shard may be spoiled.
class SpoiledPocket : public ::testing::Test {
 protected:
  SpoiledPocket() {
    for (const auto& entry : std::filesystem::directory_iterator(kPocket / "target")) {
      std::filesystem::copy(entry.path(), folder_ / entry.path().filename().string());
    }
  }
  [[nodiscard]] std::string refusal() const {
    const Result<ModelConfig> config = load_model_config(folder_.path());
    if (!config.ok()) return config.message();
    Result<TensorSource> source = open(folder_.path(), target_name_rules(*config), config->quant);
    if (!source.ok()) return source.message();
    const Result<void> taken = take_target(*source, *config);
    return taken.ok() ? "it was accepted" : taken.message();
  }

  TempFolder folder_;
  std::filesystem::path shard_ = folder_ / "model-00001-of-00002.safetensors";
};

TEST_F(SpoiledPocket, CutShort) {
  EXPECT_EQ(refusal(), "it was accepted");
  const auto size = std::filesystem::file_size(shard_);
  for (const uintmax_t keep : {size - 1, size / 2, uintmax_t{50000}, uintmax_t{49591}, uintmax_t{8}, uintmax_t{0}}) {
    std::filesystem::resize_file(shard_, keep);
    EXPECT_THAT(refusal(),
                AllOf(HasSubstr("model-00001-of-00002.safetensors: "), HasSubstr(keep > 7 ? "cut short?" : "too few")))
        << keep;
  }
}

TEST_F(SpoiledPocket, ConfigAsksForMoreLayers) {
  nlohmann::json config = *read_json_file(folder_ / "config.json");
  config["num_hidden_layers"] = 7;
  strobe::testing::SafetensorsWriter::write_text(folder_ / "config.json", config.dump());
  EXPECT_THAT(refusal(), HasSubstr("tensor 'model.layers.6.input_layernorm.weight' is missing; expected: BF16 [256]"));
  config["num_hidden_layers"] = 5;
  strobe::testing::SafetensorsWriter::write_text(folder_ / "config.json", config.dump());
  EXPECT_THAT(refusal(), AllOf(HasSubstr("tensors belong to no part of the model: 'model.layers.5."),
                               HasSubstr("model-00002-of-00002.safetensors")));
}

}  // namespace
}  // namespace strobe
