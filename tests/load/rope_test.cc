#include "load/rope.h"
#include "source_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace strobe {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Result<RopeConfig> parse(const json& config, bool deepseek = false) {
  return parse_rope_config(*JsonFields::of(config, "config.json"), deepseek, 10000.0);
}

// transformers computes in float32, we in double: powers and logarithms differ in the last bits.
constexpr float kFrequencyTolerance = 2e-6F;

TEST(Rope, EqualsTransformers) {
  std::ifstream file(source_dir() / "tests/golden/rope.json");
  const json cases = json::parse(file);
  ASSERT_GE(cases.size(), 13U);
  for (const json& golden : cases) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    const bool deepseek = golden.at("family") == "deepseek";
    const Result<RopeConfig> rope = parse(golden, deepseek);
    ASSERT_TRUE(rope.ok()) << rope.message();
    const std::vector<float> frequencies = rope_inv_freq(*rope, golden.at("dims"));
    const auto expected = golden.at("inv_freq").get<std::vector<float>>();
    ASSERT_EQ(frequencies.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(frequencies[i], expected[i], expected[i] * kFrequencyTolerance) << "pair " << i;
    }
    EXPECT_NEAR(rope_amplitude(*rope), golden.at("amplitude").get<float>(), 1e-6F);
    if (deepseek) {
      EXPECT_NEAR(mla_softmax_scale(*rope, 3 * golden.at("dims").get<int64_t>()),
                  golden.at("softmax_scale").get<float>(), 1e-7F);
    }
  }
}

TEST(Rope, KimiSoftmaxScale) {
  const json config = {{"rope_theta", 50000.0},
                       {"rope_scaling",
                        {{"type", "yarn"},
                         {"factor", 64.0},
                         {"original_max_position_embeddings", 4096},
                         {"mscale", 1.0},
                         {"mscale_all_dim", 1.0}}}};
  EXPECT_NEAR(mla_softmax_scale(*parse(config, true), 192), 0.144679F, 1e-6F);
  EXPECT_NEAR(mla_softmax_scale(*parse(config, false), 192), 1 / std::sqrt(192.0F), 1e-7F);
  EXPECT_NEAR(yarn_mscale(64, 1), 1.41589, 1e-5);
  EXPECT_EQ(yarn_mscale(1, 1), 1.0);
}

TEST(Rope, AmplitudeRules) {
  json scaling = {{"rope_type", "yarn"}, {"factor", 64.0}, {"original_max_position_embeddings", 4096}};
  const auto amplitude = [&](bool deepseek) { return rope_amplitude(*parse({{"rope_scaling", scaling}}, deepseek)); };
  EXPECT_NEAR(amplitude(false), 1.41589F, 1e-5F);
  EXPECT_NEAR(amplitude(true), 1.41589F, 1e-5F);  // absent mscale_all_dim counts as 0 there
  scaling["mscale"] = 1.0;
  scaling["mscale_all_dim"] = 1.0;
  EXPECT_FLOAT_EQ(amplitude(false), 1.0F);
  EXPECT_FLOAT_EQ(amplitude(true), 1.0F);
  scaling["attn_factor"] = 1.5;
  EXPECT_FLOAT_EQ(amplitude(false), 1.5F);
  scaling["attention_factor"] = 2.0;
  EXPECT_FLOAT_EQ(amplitude(false), 3.0F);
  EXPECT_EQ(rope_amplitude(RopeConfig{}), 1.0F);
}

TEST(Rope, RampThatHasNoRoom) {
  // Every dimension turns often enough (a tiny original length turns none): frequencies must be all kept, or all
  // divided.
  const auto frequencies = [](double theta, int64_t original) {
    RopeConfig rope{.kind = RopeKind::kYarn, .theta = theta, .factor = 8, .original_max_positions = original};
    return rope_inv_freq(rope, 8);
  };
  const std::vector<float> kept = frequencies(1.5, 1 << 20);
  const std::vector<float> divided = frequencies(10000, 1);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(kept[i], std::pow(1.5, -2.0 * static_cast<double>(i) / 8), 1e-6);
    // The ramp starts at dimension 0, so the first pair is always kept.
    if (i > 0) {
      EXPECT_NEAR(divided[i], std::pow(10000.0, -2.0 * static_cast<double>(i) / 8) / 8, 1e-6);
    }
  }
}

TEST(Rope, BothSpellings) {
  const json older = {{"rope_theta", 5e4},
                      {"rope_scaling", {{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 64}}}};
  const json newer = {
      {"rope_parameters",
       {{"rope_theta", 5e4}, {"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 64}}}};
  EXPECT_EQ(rope_inv_freq(*parse(older), 64), rope_inv_freq(*parse(newer), 64));
  EXPECT_EQ(parse(json::object())->kind, RopeKind::kDefault);
  EXPECT_EQ(parse({{"rope_scaling", nullptr}})->kind, RopeKind::kDefault);
  EXPECT_EQ(parse({{"rope_scaling", {{"rope_type", "default"}}}})->kind, RopeKind::kDefault);
}

struct BadRope {
  const char* config;
  const char* message;
};

TEST(Rope, RefusesBadConfigs) {
  const std::vector<BadRope> cases = {
      {R"({"rope_theta": 0})", "config.json: rope_theta is 0; accepted: a number from"},
      {R"({"rope_theta": "big"})", "rope_theta is \"big\""},
      {R"({"rope_scaling": [1]})", "rope_scaling is an array of 1; accepted: an object"},
      {R"({"rope_scaling": {}})", "rope_scaling.rope_type is missing; accepted: default, yarn"},
      {R"({"rope_scaling": {"type": "dynamic"}})", "rope_scaling.type is \"dynamic\"; accepted: default, yarn"},
      {R"({"rope_scaling": {"type": "yarn", "rope_type": "llama3"}})",
       "rope_scaling.type is \"yarn\"; accepted: the same as"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 4}})",
       "rope_scaling.original_max_position_embeddings is missing"},
      {R"({"rope_scaling": {"type": "yarn", "original_max_position_embeddings": 4096}})",
       "rope_scaling.factor is missing"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 0.5, "original_max_position_embeddings": 4096}})",
       "factor is 0.5"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 1e9, "original_max_position_embeddings": 4096}})", "factor is 1"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 0}})", "_embeddings is 0"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 64, "beta_fast": 1, "beta_slow": 2}})",
       "beta_fast is 1; accepted: a number of at least beta_slow, 2"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 64, "beta_fast": 0}})",
       "beta_fast is 0"},
      {R"({"rope_scaling": {"type": "llama3", "factor": 8, "original_max_position_embeddings": 8192, "low_freq_factor": 4, "high_freq_factor": 4}})",
       "high_freq_factor is 4; accepted: a number above low_freq_factor, 4"},
  };
  for (const BadRope& bad : cases) {
    const Result<RopeConfig> rope = parse(json::parse(bad.config));
    ASSERT_FALSE(rope.ok()) << bad.config;
    EXPECT_THAT(rope.message(), HasSubstr(bad.message));
  }
}

TEST(Rope, EveryFrequencyIsFinite) {
  for (const double theta : {1.0 + 1e-6, 2.0, 1e12}) {
    for (const int64_t original : {int64_t{1}, int64_t{1} << 24}) {
      for (const int64_t dims : {2, 64, 4096}) {
        RopeConfig rope{.kind = RopeKind::kYarn, .theta = theta, .factor = 65536, .original_max_positions = original};
        for (const float frequency : rope_inv_freq(rope, dims)) {
          ASSERT_TRUE(std::isfinite(frequency) && frequency > 0) << theta << " " << original << " " << dims;
        }
      }
    }
  }
}

}  // namespace
}  // namespace strobe
