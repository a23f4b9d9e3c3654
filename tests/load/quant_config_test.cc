#include "load/quant_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

namespace strobe {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json flat_form() {
  return json::parse(R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4",
    "kv_cache_scheme": {"type": "float", "num_bits": 8, "dynamic": false},
    "config_groups": {"group_0": {"weights": {"group_size": 16, "num_bits": 4}}}, "ignore": ["lm_head", "model.layers.0*"]}})");
}

json separate_form() {
  return json::parse(R"({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16,
    "exclude_modules": ["lm_head", "model.layers.0*"]}})");
}

std::string refusal(const json& config, const json* separate = nullptr) {
  const Result<QuantConfig> quant = parse_quant_config(config, separate);
  return quant.ok() ? "it was accepted" : quant.message();
}

TEST(QuantConfig, FlatForm) {
  const Result<QuantConfig> quant = parse_quant_config(flat_form(), nullptr);
  ASSERT_TRUE(quant.ok()) << quant.message();
  EXPECT_EQ(quant->algo, QuantAlgo::kNvfp4);
  EXPECT_EQ(quant->group_size, 16);
  EXPECT_EQ(quant->kv, KvScheme::kFp8);
  EXPECT_THAT(quant->ignore, ElementsAre("lm_head", "model.layers.0*"));
  EXPECT_EQ(quant->source, "config.json");
  EXPECT_TRUE(quant->warnings.empty());
}

TEST(QuantConfig, SeparateForm) {
  const json separate = separate_form();
  const Result<QuantConfig> quant = parse_quant_config(json::object(), &separate);
  ASSERT_TRUE(quant.ok()) << quant.message();
  EXPECT_EQ(quant->algo, QuantAlgo::kNvfp4);
  EXPECT_EQ(quant->kv, KvScheme::kFp8);
  EXPECT_EQ(quant->source, "hf_quant_config.json");
}

TEST(QuantConfig, NoQuantisation) {
  const Result<QuantConfig> quant = parse_quant_config(json::object(), nullptr);
  ASSERT_TRUE(quant.ok());
  EXPECT_EQ(quant->algo, QuantAlgo::kNone);
  EXPECT_FALSE(quant->excluded("lm_head"));
}

TEST(QuantConfig, InsideTextConfigAndGroupSizeAtTheTop) {
  json inner = flat_form();
  inner["quantization_config"].erase("config_groups");
  inner["quantization_config"]["group_size"] = 16;
  EXPECT_EQ(parse_quant_config({{"text_config", inner}}, nullptr)->algo, QuantAlgo::kNvfp4);
}

TEST(QuantConfig, BothFormsAgreeOrWarn) {
  json separate = separate_form();
  EXPECT_TRUE(parse_quant_config(flat_form(), &separate)->warnings.empty());
  separate["quantization"]["kv_cache_quant_algo"] = nullptr;
  EXPECT_THAT(parse_quant_config(flat_form(), &separate)->warnings,
              ElementsAre(HasSubstr("disagree (KV cache fp8 and none); config.json is used")));
  separate = separate_form();
  separate["quantization"]["exclude_modules"].push_back("x");
  EXPECT_THAT(parse_quant_config(flat_form(), &separate)->warnings,
              ElementsAre(HasSubstr("exclusion lists of 2 and 3 patterns")));
}

TEST(QuantConfig, KvSchemes) {
  const auto scheme = [](const json& value) {
    json config = flat_form();
    config["quantization_config"]["kv_cache_scheme"] = value;
    return parse_quant_config(config, nullptr);
  };
  EXPECT_EQ(scheme("FP8")->kv, KvScheme::kFp8);
  EXPECT_EQ(scheme("fp8")->kv, KvScheme::kFp8);
  EXPECT_EQ(scheme("auto")->kv, KvScheme::kNone);
  EXPECT_EQ(scheme(nullptr)->kv, KvScheme::kNone);
  EXPECT_THAT(scheme("NVFP4").message(), HasSubstr("quantization_config.kv_cache_scheme is \"NVFP4\"; accepted: FP8"));
  EXPECT_THAT(scheme({{"type", "int"}, {"num_bits", 8}}).message(),
              HasSubstr("kv_cache_scheme.type is \"int\"; accepted: float"));
  EXPECT_THAT(scheme({{"type", "float"}, {"num_bits", 4}}).message(),
              HasSubstr("kv_cache_scheme.num_bits is 4; accepted: 8"));
  EXPECT_THAT(scheme({{"type", "float"}}).message(), HasSubstr("kv_cache_scheme.num_bits is missing"));
  EXPECT_THAT(scheme({{"type", "float"}, {"num_bits", 8}, {"dynamic", true}}).message(),
              HasSubstr("dynamic is true; accepted: false"));
  EXPECT_FALSE(scheme(8).ok());
}

TEST(QuantConfig, Refusals) {
  const auto without = [](const char* key) {
    json config = flat_form();
    config["quantization_config"].erase(key);
    return config;
  };
  const auto with = [](const char* key, const json& value) {
    json config = flat_form();
    config["quantization_config"][key] = value;
    return config;
  };
  EXPECT_EQ(refusal(without("quant_algo")),
            "config.json: quantization_config.quant_algo is missing; accepted: a string");
  EXPECT_THAT(refusal(with("quant_algo", "FP8")), HasSubstr("quant_algo is \"FP8\"; accepted: NVFP4"));
  EXPECT_THAT(refusal(with("quant_algo", 4)), HasSubstr("quant_algo is 4"));
  EXPECT_THAT(refusal(without("ignore")),
              HasSubstr("quantization_config.ignore is missing; accepted: a list of module names"));
  EXPECT_THAT(refusal(with("ignore", json::array({1}))), HasSubstr("ignore[0] is 1"));
  EXPECT_THAT(refusal(with("ignore", json::array({"re:.*"}))), HasSubstr("holds 're:.*'"));
  EXPECT_THAT(refusal(with("ignore", "lm_head")), HasSubstr("ignore is \"lm_head\"; accepted: an array"));
  EXPECT_THAT(refusal(without("config_groups")), HasSubstr("quantization_config.group_size is missing"));
  EXPECT_THAT(refusal(with("config_groups", json::object())), HasSubstr("group_size is missing"));
  EXPECT_THAT(refusal(with("config_groups", {{"group_0", {{"weights", {{"group_size", 32}}}}}})),
              HasSubstr("config_groups.group_0.weights.group_size is 32; accepted: an integer from 16 to 16"));
  EXPECT_THAT(refusal(with("quant_method", "compressed-tensors")),
              HasSubstr("quant_method is \"compressed-tensors\"; accepted: modelopt"));
  EXPECT_THAT(refusal({{"quantization_config", 3}}), HasSubstr("quantization_config is 3; accepted: an object"));

  for (const char* key : {"quant_algo", "group_size", "exclude_modules"}) {
    json separate = separate_form();
    separate["quantization"].erase(key);
    EXPECT_THAT(refusal(json::object(), &separate),
                HasSubstr(std::string("hf_quant_config.json: quantization.") + key + " is missing"));
  }
  const json empty = json::object();
  EXPECT_THAT(refusal(json::object(), &empty), HasSubstr("hf_quant_config.json: quantization is missing"));
}

TEST(QuantConfig, Exclusions) {
  QuantConfig quant;
  quant.ignore = {"lm_head", "model.layers.0*", "model.layers.*.self_attn*", "gate", "*shared_experts*"};
  for (const char* module : {"lm_head", "model.layers.0.mlp.gate_proj", "model.layers.7.self_attn.o_proj",
                             "model.layers.7.mlp.gate", "model.layers.7.mlp.shared_experts.up_proj",
                             "language_model.model.layers.0.mlp.up_proj", "language_model.lm_head"}) {
    EXPECT_TRUE(quant.excluded(module)) << module;
  }
  for (const char* module : {"model.layers.7.mlp.gate_proj", "model.layers.7.mlp.experts.0.gate_proj",
                             "model.embed_tokens", "lm_head2", "my.lm_heads", "", "model.layers.1.mlp.up_proj"}) {
    EXPECT_FALSE(quant.excluded(module)) << module;
  }
  // As written, "layers.0*" takes layer 0 only, since the dot is part of no component but "model.layers.10" begins
  // otherwise.
  EXPECT_FALSE(quant.excluded("model.layers.10.mlp.up_proj"));
  EXPECT_EQ(*quant.excluded_by("lm_head"), "lm_head");
}

TEST(QuantConfig, AComponentMayBeNamedWithAStar) {
  QuantConfig quant;
  quant.ignore = {"shared_exp*", "q_?_proj"};
  EXPECT_TRUE(quant.excluded("model.layers.7.mlp.shared_experts.up_proj"));
  EXPECT_FALSE(quant.excluded("model.layers.7.mlp.experts.3.up_proj"));
  EXPECT_FALSE(quant.excluded("model.layers.7.self_attn.q_a_proj")) << "only '*' is special";
}

TEST(QuantConfig, ExclusionsOfWrappedCheckpoints) {
  for (const char* pattern : {"language_model.layers.1.self_attn*", "language_model.model.layers.1.self_attn*",
                              "model.language_model.layers.1.self_attn*", "*language_model*layers.1.self_attn*"}) {
    QuantConfig quant;
    quant.ignore = {pattern};
    for (const char* module : {"model.layers.1.self_attn.o_proj", "language_model.layers.1.self_attn.o_proj",
                               "language_model.model.layers.1.self_attn.o_proj"}) {
      EXPECT_TRUE(quant.excluded(module)) << pattern << " " << module;
    }
    EXPECT_FALSE(quant.excluded("model.layers.11.self_attn.o_proj")) << pattern;
  }
  QuantConfig head;
  head.ignore = {"language_model.lm_head"};
  EXPECT_TRUE(head.excluded("lm_head"));
}

TEST(GlobMatch, AgreesWithRegularExpressions) {
  // All patterns and texts of up to five of these characters.
  const std::string alphabet = "ab*";
  std::vector<std::string> patterns = {""};
  for (size_t begin = 0, length = 1; length <= 5; ++length) {
    const size_t end = patterns.size();
    for (; begin < end; ++begin) {
      for (const char c : alphabet) patterns.push_back(patterns[begin] + c);
    }
  }
  for (const std::string& pattern : patterns) {
    std::string expression;
    for (const char c : pattern) expression += c == '*' ? ".*" : std::string(1, c);
    const std::regex regex(expression);
    for (const std::string& text : patterns) {
      if (text.find('*') != std::string::npos) continue;
      ASSERT_EQ(glob_match(pattern, text), std::regex_match(text, regex)) << pattern << " " << text;
    }
  }
}

TEST(GlobMatch, HostilePatternsAreQuick) {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "*a";
  EXPECT_FALSE(glob_match(pattern + "b", std::string(2000, 'a')));
}

TEST(PlainName, Prefixes) {
  EXPECT_EQ(plain_name("language_model.model.layers.1.mlp.up_proj"), "model.layers.1.mlp.up_proj");
  EXPECT_EQ(plain_name("language_model.layers.1.mlp.up_proj"), "model.layers.1.mlp.up_proj");
  EXPECT_EQ(plain_name("model.language_model.layers.1.mlp.up_proj"), "model.layers.1.mlp.up_proj");
  EXPECT_EQ(plain_name("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(plain_name("language_model.embed_tokens.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(plain_name("model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(plain_name("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(plain_name(""), "");
}

}  // namespace
}  // namespace strobe
