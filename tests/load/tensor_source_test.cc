#include "load/tensor_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "load/safetensors_writer.h"

namespace strobe {
namespace {

using strobe::testing::SafetensorsWriter;
using strobe::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kOut = 3;
constexpr int64_t kIn = 32;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

QuantConfig nvfp4(std::vector<std::string> ignore = {}) {
  QuantConfig quant;
  quant.algo = QuantAlgo::kNvfp4;
  quant.group_size = 16;
  quant.ignore = std::move(ignore);
  quant.source = "config.json";
  return quant;
}

class TensorSourceTest : public ::testing::Test {
 protected:
  // The four tensors of an NVFP4 matrix of kOut x kIn.
  void add_nvfp4(const std::string& module, float global = 0.25F, float input = 0.5F) {
    writer_.add(module + ".weight", FileDType::kU8, {kOut, kIn / 2}, std::string(kOut * kIn / 2, '\x21'));
    writer_.add(module + ".weight_scale", FileDType::kE4m3, {kOut, kIn / 16}, std::string(kOut * kIn / 16, '\x38'));
    writer_.scalar(module + ".weight_scale_2", global);
    writer_.scalar(module + ".input_scale", input);
  }
  void add_bf16(const std::string& module) { writer_.add(module + ".weight", FileDType::kBf16, {kOut, kIn}); }

  Result<TensorSource> open_result(const NameRules& rules, const QuantConfig& quant) {
    writer_.write(folder_ / "model.safetensors", align_);
    Result<Checkpoint> checkpoint = Checkpoint::open(folder_.path());
    if (!checkpoint) return checkpoint.error();
    return TensorSource::open(std::make_shared<const Checkpoint>(std::move(*checkpoint)), rules, quant);
  }
  TensorSource open(const QuantConfig& quant = {}, const NameRules& rules = {}) {
    Result<TensorSource> source = open_result(rules, quant);
    EXPECT_TRUE(source.ok()) << source.message();
    return std::move(*source);
  }
  // The message of take_matrix for the module "m" as the file stands.
  std::string matrix_refusal(const QuantConfig& quant = nvfp4()) {
    TensorSource source = open(quant);
    const auto taken = source.take_matrix("m", kOut, kIn);
    return taken.ok() ? "it was accepted" : taken.message();
  }

  SafetensorsWriter writer_;
  TempFolder folder_;
  size_t align_ = 8;
};

TEST_F(TensorSourceTest, TakesATensor) {
  writer_.add("norm.weight", FileDType::kBf16, {4}, std::vector<uint16_t>{0x3f80, 0, 0, 0x4000});
  TensorSource source = open();
  EXPECT_TRUE(source.has("norm.weight"));
  EXPECT_FALSE(source.has("norm"));
  const Result<Tensor> norm = source.take("norm.weight", {DType::kBf16, DType::kF32}, {4});
  ASSERT_TRUE(norm.ok()) << norm.message();
  EXPECT_EQ(to_float(norm->as<Bf16>()[3]), 2.0F);
  EXPECT_TRUE(source.finish().ok());
  EXPECT_EQ(source.summary().taken_tensors, 1);
  EXPECT_EQ(source.summary().taken_bytes, 8);
}

TEST_F(TensorSourceTest, RefusalsNameTensorFileAndExpectation) {
  writer_.add("norm.weight", FileDType::kBf16, {4});
  writer_.add("half", FileDType::kF16, {4});
  TensorSource source = open();
  const std::string file = (folder_ / "model.safetensors").string();
  EXPECT_EQ(source.take("norm.weight", {DType::kBf16}, {5}).message(),
            file + ": tensor 'norm.weight' is BF16 [4]; expected: BF16 [5]");
  EXPECT_EQ(source.take("half", {DType::kBf16, DType::kF32}, {4}).message(),
            file + ": tensor 'half' is F16 [4]; expected: BF16 or F32 [4]");
  EXPECT_EQ(source.take("gone", {DType::kBf16}, {5}).message(),
            folder_.path().string() + ": tensor 'gone' is missing; expected: BF16 [5]");
  EXPECT_THAT(source.take("norm.weight", {DType::kBf16}, {4}).message(), HasSubstr("'norm.weight' is wanted twice"));
}

TEST_F(TensorSourceTest, AMissingTensorsSiblingsAreShown) {
  writer_.add("m.weight_packed", FileDType::kI32, {3, 4});
  writer_.add("m.weight_shape", FileDType::kI64, {2});
  EXPECT_THAT(
      matrix_refusal(),
      AllOf(HasSubstr("tensor 'm.weight' is missing; expected: BF16 or F32 [3, 32], or NVFP4 U8 [3, 16] with scales"),
            HasSubstr("(there are m.weight_packed, m.weight_shape)")));
}

TEST_F(TensorSourceTest, MisalignedTensorsAreCopied) {
  writer_.add("pad", FileDType::kU8, {1});
  writer_.add("x", FileDType::kF32, {3}, std::vector<float>{1, 2, 3});
  writer_.add("y.weight", FileDType::kBf16, {1, 2}, std::vector<uint16_t>{0, 0x4000});
  for (align_ = 1; align_ <= 2; ++align_) {
    std::shared_ptr<const void> storage;
    Tensor x;
    QuantTensor y;
    {
      TensorSource source = open();
      x = *source.take("x", {DType::kF32}, {3});
      y = *source.take_matrix("y", 1, 2);
      storage = source.storage();
    }
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data()) % 4, 0U);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(y.data) % 2, 0U);
    EXPECT_EQ(to_float(static_cast<const Bf16*>(y.data)[1]), 2.0F);
    EXPECT_EQ(x.as<float>()[2], 3.0F) << "and the storage outlives the source";
  }
}

TEST_F(TensorSourceTest, WidensToF32) {
  writer_.add("a", FileDType::kBf16, {2}, std::vector<uint16_t>{0x3f80, 0xc000});
  writer_.add("b", FileDType::kF16, {6}, std::vector<uint16_t>{0x3c00, 0xc000, 0x0001, 0x7bff, 0x0400, 0x8000});
  writer_.add("c", FileDType::kF32, {1}, std::vector<float>{7});
  writer_.add("d", FileDType::kI32, {1});
  TensorSource source = open();
  const Tensor a = *source.take_f32("a", {2});
  EXPECT_EQ(a.as<float>()[1], -2.0F);
  const Tensor b = *source.take_f32("b", {6});
  const std::vector<float> half = {1.0F, -2.0F, std::ldexp(1.0F, -24), 65504.0F, std::ldexp(1.0F, -14), -0.0F};
  for (size_t i = 0; i < half.size(); ++i) EXPECT_EQ(b.as<float>()[i], half[i]);
  EXPECT_EQ(source.take_f32("c", {1})->as<float>()[0], 7.0F);
  EXPECT_THAT(source.take_f32("d", {1}).message(), HasSubstr("'d' is I32 [1]; expected: F32, BF16 or F16 [1]"));
}

TEST_F(TensorSourceTest, Nvfp4Matrix) {
  add_nvfp4("a.gate_proj", 0.25F, 0.5F);
  add_nvfp4("a.up_proj", 0.75F, 2.0F);
  TensorSource source = open(nvfp4());
  const QuantTensor gate = *source.take_matrix("a.gate_proj", kOut, kIn);
  const QuantTensor up = *source.take_matrix("a.up_proj", kOut, kIn);
  EXPECT_EQ(gate.format, WeightFormat::kNvfp4);
  EXPECT_EQ(gate.out, kOut);
  EXPECT_EQ(gate.in, kIn);
  EXPECT_EQ(static_cast<const uint8_t*>(gate.data)[0], 0x21);
  EXPECT_EQ(static_cast<const uint8_t*>(gate.scales)[kOut * kIn / 16 - 1], 0x38);
  EXPECT_EQ(gate.global_scale, 0.25F) << "each matrix keeps its own global scale";
  EXPECT_EQ(up.global_scale, 0.75F);
  EXPECT_EQ(source.input_scale("a.gate_proj"), 0.5F);
  EXPECT_EQ(source.input_scale("a.up_proj"), 2.0F);
  EXPECT_FALSE(source.input_scale("a.down_proj").has_value());
  EXPECT_TRUE(source.finish().ok());
  EXPECT_EQ(source.summary().quantised_modules, 2);
  EXPECT_EQ(source.summary().note_count, 0);
}

TEST_F(TensorSourceTest, EveryScaleOfAMatrixIsChecked) {
  for (const float bad : {0.0F, -0.5F, kNan, kInf, -kInf}) {
    writer_ = {};
    add_nvfp4("m", bad);
    EXPECT_THAT(matrix_refusal(),
                AllOf(HasSubstr("'m.weight_scale_2' is "), HasSubstr("expected: a finite number above 0")));
    writer_ = {};
    add_nvfp4("m", 1.0F, bad);
    EXPECT_THAT(matrix_refusal(),
                AllOf(HasSubstr("'m.input_scale' is "), HasSubstr("expected: a finite number above 0")));
  }
  for (const char bad : {'\x7f', '\xff', '\x81'}) {
    writer_ = {};
    add_nvfp4("m");
    writer_.data()[kOut * kIn / 2 + 3] = bad;
    EXPECT_THAT(matrix_refusal(),
                AllOf(HasSubstr("'m.weight_scale' is "), HasSubstr(" at [1, 1]; expected: a number of 0 or more")));
  }
  writer_ = {};
  add_nvfp4("m");
  writer_.data()[kOut * kIn / 2 + 3] = '\x7e';  // 448, the largest
  writer_.data()[kOut * kIn / 2] = '\0';
  EXPECT_EQ(matrix_refusal(), "it was accepted");
}

TEST_F(TensorSourceTest, MissingScalesAreNamed) {
  for (const char* scale : {"weight_scale", "weight_scale_2", "input_scale"}) {
    writer_ = {};
    add_nvfp4("model.layers.3.mlp.experts.7.up_proj");
    add_nvfp4("other");
    writer_.header().erase(std::string("model.layers.3.mlp.experts.7.up_proj.") + scale);
    TensorSource source = open(nvfp4());
    EXPECT_TRUE(source.take_matrix("other", kOut, kIn).ok());
    EXPECT_THAT(
        source.take_matrix("model.layers.3.mlp.experts.7.up_proj", kOut, kIn).message(),
        HasSubstr(std::string("tensor 'model.layers.3.mlp.experts.7.up_proj.") + scale + "' is missing; expected: "));
  }
}

TEST_F(TensorSourceTest, InputScalesMayBeAbsentEverywhere) {
  add_nvfp4("m");
  writer_.header().erase("m.input_scale");
  TensorSource source = open(nvfp4());
  EXPECT_TRUE(source.take_matrix("m", kOut, kIn).ok());
  EXPECT_FALSE(source.input_scale("m").has_value());
}

TEST_F(TensorSourceTest, MisshapenMatrices) {
  add_nvfp4("m");
  writer_.entry("m.weight_scale")["shape"] = {kIn / 16, kOut};
  EXPECT_THAT(matrix_refusal(), HasSubstr("'m.weight_scale' is F8_E4M3 [2, 3]; expected: F8_E4M3 [3, 2]"));
  writer_.entry("m.weight_scale")["dtype"] = "U8";
  EXPECT_THAT(matrix_refusal(), HasSubstr("'m.weight_scale' is U8 [2, 3]; expected: F8_E4M3 [3, 2]"));

  writer_ = {};
  add_nvfp4("m");
  writer_.entry("m.weight")["shape"] = {kIn / 2, kOut};
  EXPECT_THAT(matrix_refusal(),
              HasSubstr("'m.weight' is U8 [16, 3]; expected: U8 [3, 16] (two columns a byte), or BF16 [3, 32]"));

  writer_ = {};
  add_nvfp4("m");
  writer_.entry("m.weight_scale_2")["shape"] = {1, 1};
  EXPECT_THAT(matrix_refusal(), HasSubstr("'m.weight_scale_2' is F32 [1, 1]; expected: one number, F32 []"));
  writer_.entry("m.weight_scale_2")["shape"] = {1};
  EXPECT_EQ(matrix_refusal(), "it was accepted");

  writer_ = {};
  writer_.add("m.weight", FileDType::kBf16, {kIn, kOut});
  EXPECT_THAT(matrix_refusal(), HasSubstr("'m.weight' is BF16 [32, 3]; expected: BF16 or F32 [3, 32]"));
  for (const FileDType dtype : {FileDType::kF16, FileDType::kE4m3, FileDType::kI8, FileDType::kF64}) {
    writer_ = {};
    writer_.add("m.weight", dtype, {kOut, kIn});
    EXPECT_THAT(matrix_refusal(),
                HasSubstr(fmt::format("'m.weight' is {} [3, 32]; expected: BF16 or F32", to_string(dtype))));
  }
}

TEST_F(TensorSourceTest, ColumnsMustFillGroups) {
  writer_.add("m.weight", FileDType::kU8, {2, 12});
  TensorSource source = open(nvfp4());
  EXPECT_THAT(source.take_matrix("m", 2, 24).message(),
              HasSubstr("'m.weight' is U8 [2, 12] for 24 columns; expected: a multiple of 16 columns"));
}

TEST_F(TensorSourceTest, PlainMatrices) {
  add_bf16("a");
  writer_.add("b.weight", FileDType::kF32, {1, 2}, std::vector<float>{1, 2});
  add_bf16("lm_head");
  TensorSource source = open(nvfp4({"lm_head"}));
  EXPECT_EQ(source.take_matrix("a", kOut, kIn)->format, WeightFormat::kBf16);
  const QuantTensor b = *source.take_matrix("b", 1, 2);
  EXPECT_EQ(b.format, WeightFormat::kF32);
  EXPECT_EQ(static_cast<const float*>(b.data)[1], 2.0F);
  EXPECT_EQ(b.global_scale, 1.0F);
  EXPECT_TRUE(source.take_matrix("lm_head", kOut, kIn).ok());
  EXPECT_EQ(source.summary().bf16_modules, 2);
  EXPECT_EQ(source.summary().excluded_modules, 1);
  EXPECT_EQ(source.summary().quantised_modules, 0);
  EXPECT_EQ(source.summary().note_count, 2);
}

TEST_F(TensorSourceTest, ScalesBesideAPlainMatrix) {
  for (const char* scale : {"weight_scale", "weight_scale_2", "input_scale"}) {
    writer_ = {};
    add_bf16("m");
    writer_.scalar(std::string("m.") + scale, 1.0F);
    EXPECT_THAT(
        matrix_refusal(),
        HasSubstr(fmt::format("tensor 'm.{}' is a scale, but 'm.weight' is BF16 [3, 32], which has none", scale)));
  }
}

TEST_F(TensorSourceTest, TensorsWinOverTheExclusionList) {
  add_nvfp4("lm_head");
  add_bf16("forgotten");
  TensorSource source = open(nvfp4({"lm_head"}));
  EXPECT_EQ(source.take_matrix("lm_head", kOut, kIn)->format, WeightFormat::kNvfp4);
  EXPECT_EQ(source.take_matrix("forgotten", kOut, kIn)->format, WeightFormat::kBf16);
  ASSERT_EQ(source.summary().notes.size(), 2U);
  EXPECT_THAT(
      source.summary().notes[0],
      HasSubstr("'lm_head.weight' is quantised, though 'lm_head' in the exclusion list of config.json names it"));
  EXPECT_THAT(
      source.summary().notes[1],
      HasSubstr("'forgotten.weight' is BF16 [3, 32], though the exclusion list of config.json does not name it"));
  EXPECT_THAT(source.summary_line(), AllOf(HasSubstr("1 quantised modules, 1 bf16, 0 excluded by config.json"),
                                           HasSubstr("2 modules are not as config.json says")));
}

// Exclusion lists are of linear layers: that they do not name the embedding is no contradiction.
TEST_F(TensorSourceTest, AnEmbeddingNeedsNoExclusion) {
  add_bf16("model.embed_tokens");
  TensorSource source = open(nvfp4({"lm_head"}));
  EXPECT_EQ(source.take_matrix("model.embed_tokens", kOut, kIn)->format, WeightFormat::kBf16);
  EXPECT_EQ(source.summary().note_count, 0);
}

TEST_F(TensorSourceTest, QuantisedTensorsWithoutADeclaration) {
  add_nvfp4("m");
  EXPECT_THAT(matrix_refusal({}),
              HasSubstr("'m.weight' is U8 [3, 16], but neither config.json nor hf_quant_config.json declares NVFP4"));
}

TEST_F(TensorSourceTest, KvScales) {
  writer_.scalar("l0.self_attn.k_proj.k_scale", 0.5F).scalar("l0.self_attn.v_proj.v_scale", 0.25F);
  writer_.scalar("l1.self_attn.k_scale", 2.0F).scalar("l1.self_attn.v_scale", 2.0F);
  writer_.scalar("l3.self_attn.k_proj.k_scale", 1.0F);
  TensorSource source = open();
  const KvScales first = *source.take_kv_scales("l0.self_attn");
  EXPECT_TRUE(first.in_file);
  EXPECT_EQ(first.k, 0.5F);
  EXPECT_EQ(first.v, 0.25F);
  EXPECT_EQ(*source.take_latent_scale("l1.self_attn"), 2.0F);
  const KvScales absent = *source.take_kv_scales("l2.self_attn");
  EXPECT_FALSE(absent.in_file);
  EXPECT_EQ(absent.k, 1.0F);
  EXPECT_EQ(absent.v, 1.0F);
  EXPECT_EQ(*source.take_latent_scale("l2.self_attn"), 1.0F);
  EXPECT_THAT(source.take_kv_scales("l3.self_attn").message(),
              HasSubstr("tensor 'l3.self_attn.v_proj.v_scale' is missing; expected: one number"));
}

TEST_F(TensorSourceTest, BadKvScales) {
  for (const float bad : {0.0F, -1.0F, kNan, kInf}) {
    writer_ = {};
    writer_.scalar("a.k_proj.k_scale", 1.0F).scalar("a.v_proj.v_scale", bad);
    EXPECT_THAT(open().take_kv_scales("a").message(), HasSubstr("tensor 'a.v_proj.v_scale' is "));
  }
  writer_ = {};
  writer_.scalar("a.k_proj.k_scale", 1.0F).scalar("a.v_proj.v_scale", 2.0F);
  EXPECT_THAT(open().take_latent_scale("a").message(),
              HasSubstr("'a' has k_scale 1 and v_scale 2; expected: one scale"));
  writer_ = {};
  writer_.add("a.k_proj.k_scale", FileDType::kF32, {2}).scalar("a.v_proj.v_scale", 1.0F);
  EXPECT_THAT(open().take_kv_scales("a").message(), HasSubstr("'a.k_proj.k_scale' is F32 [2]; expected: one number"));
}

TEST_F(TensorSourceTest, LeftOversAreListed) {
  for (int i = 0; i < 10; ++i) writer_.scalar(fmt::format("x{}", i), 1.0F);
  TensorSource source = open();
  EXPECT_TRUE(source.take_scale("x0").ok());
  const std::string message = source.finish().message();
  EXPECT_THAT(message,
              AllOf(HasSubstr("9 tensors belong to no part of the model: 'x1' F32 [] in model.safetensors, 'x2'"),
                    HasSubstr("'x8'"), HasSubstr(", ...; expected: none left over")));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("'x9'")));
}

ModelConfig kimi_config(const std::string& wrapper) {
  ModelConfig config;
  config.wrapper_type = wrapper;
  config.layers = 2;
  return config;
}

TEST_F(TensorSourceTest, WrappedCheckpoint) {
  writer_.scalar("language_model.model.layers.0.a", 1)
      .scalar("language_model.layers.1.a", 2)
      .scalar("language_model.lm_head.weight", 3);
  writer_.scalar("vision_tower.encoder.w", 4)
      .scalar("mm_projector.w", 5)
      .scalar("language_model.model.layers.0.self_attn.rotary_emb.inv_freq", 6);
  TensorSource source = open({}, target_name_rules(kimi_config("kimi_k25")));
  EXPECT_EQ(*source.take_scale("model.layers.0.a"), 1.0F);
  EXPECT_EQ(*source.take_scale("model.layers.1.a"), 2.0F);
  EXPECT_EQ(*source.take_scale("lm_head.weight"), 3.0F);
  EXPECT_TRUE(source.finish().ok());
  EXPECT_EQ(source.summary().skipped_tensors, 3);
  EXPECT_THAT(source.summary_line(), HasSubstr("3 skipped by name"));
  // In a checkpoint that is not wrapped, vision tensors are left over.
  EXPECT_THAT(open({}, target_name_rules(kimi_config(""))).finish().message(), HasSubstr("'vision_tower.encoder.w'"));
}

TEST_F(TensorSourceTest, TwoNamesForOneTensor) {
  writer_.scalar("language_model.model.norm.weight", 1).scalar("model.norm.weight", 2);
  const auto source = open_result(target_name_rules(kimi_config("kimi_k25")), {});
  ASSERT_FALSE(source.ok());
  EXPECT_THAT(source.message(), HasSubstr("both are 'model.norm.weight' without their prefixes"));
}

TEST_F(TensorSourceTest, PredictionLayersAndTiedHeads) {
  writer_.scalar("model.layers.1.a", 1)
      .scalar("model.layers.2.a", 2)
      .scalar("model.layers.3.a", 3)
      .scalar("lm_head.weight", 4);
  ModelConfig config = kimi_config("");
  config.nextn_layers = 1;
  config.tie_word_embeddings = true;
  TensorSource source = open({}, target_name_rules(config));
  EXPECT_TRUE(source.has("model.layers.1.a"));
  EXPECT_FALSE(source.has("model.layers.2.a"));
  EXPECT_TRUE(source.has("model.layers.3.a")) << "there is only one prediction layer";
  EXPECT_FALSE(source.has("lm_head.weight"));
}

TEST_F(TensorSourceTest, DraftNames) {
  writer_.scalar("model.fc.weight", 1)
      .scalar("layers.0.a", 2)
      .scalar("embed_tokens.weight", 3)
      .scalar("lm_head.weight", 4);
  TensorSource source = open({}, draft_name_rules());
  EXPECT_TRUE(source.take_scale("fc.weight").ok());
  EXPECT_TRUE(source.take_scale("layers.0.a").ok());
  EXPECT_TRUE(source.finish().ok());
  EXPECT_EQ(source.summary().skipped_tensors, 2);
}

}  // namespace
}  // namespace strobe
