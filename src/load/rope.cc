#include "load/rope.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/check.h"

namespace strobe {
namespace {

constexpr double kMaxFactor = 65536.0;
constexpr int64_t kMaxPositions = int64_t{1} << 24;

// theta^(-2i/d)
double plain_frequency(double theta, int64_t i, int64_t dims) {
  return std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
}

// The dimension pair that turns `rotations` times over `positions` positions.
double correction_dim(double rotations, int64_t dims, double theta, int64_t positions) {
  const double turns = static_cast<double>(positions) / (rotations * 2.0 * std::numbers::pi);
  return static_cast<double>(dims) * std::log(turns) / (2.0 * std::log(theta));
}

std::vector<float> yarn_inv_freq(const RopeConfig& rope, int64_t dims) {
  double low = correction_dim(rope.beta_fast, dims, rope.theta, rope.original_max_positions);
  double high = correction_dim(rope.beta_slow, dims, rope.theta, rope.original_max_positions);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  const double last = static_cast<double>(dims) - 1.0;
  low = std::clamp(low, 0.0, last);
  high = std::clamp(high, 0.0, last);
  if (low == high) high += 0.001;  // a step in place of a ramp
  std::vector<float> frequencies;
  frequencies.reserve(static_cast<size_t>(dims / 2));
  for (int64_t i = 0; i < dims / 2; ++i) {
    const double keep = 1.0 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double plain = plain_frequency(rope.theta, i, dims);
    frequencies.push_back(static_cast<float>(plain * keep + plain / rope.factor * (1.0 - keep)));
  }
  return frequencies;
}

double llama3_frequency(const RopeConfig& rope, double plain) {
  const double wavelength = 2.0 * std::numbers::pi / plain;
  const auto original = static_cast<double>(rope.original_max_positions);
  if (wavelength < original / rope.high_freq_factor) return plain;
  if (wavelength > original / rope.low_freq_factor) return plain / rope.factor;
  const double smooth = (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - smooth) * plain / rope.factor + smooth * plain;
}

Result<void> parse_yarn(const JsonFields& fields, RopeConfig& rope) {
  STROBE_ASSIGN(rope.beta_fast, fields.get_or<double>("beta_fast", 32.0, {1e-3, 1e6}));
  STROBE_ASSIGN(rope.beta_slow, fields.get_or<double>("beta_slow", 1.0, {1e-3, 1e6}));
  if (rope.beta_fast < rope.beta_slow) {
    return fields.refuse("beta_fast", fmt::format("a number of at least beta_slow, {}", rope.beta_slow));
  }
  STROBE_ASSIGN(rope.mscale, fields.get_if<double>("mscale", {0.0, 100.0}));
  STROBE_ASSIGN(rope.mscale_all_dim, fields.get_if<double>("mscale_all_dim", {0.0, 100.0}));
  STROBE_ASSIGN(rope.attn_factor, fields.get_or<double>("attn_factor", 1.0, {1e-3, 1e3}));
  STROBE_ASSIGN(rope.attention_factor, fields.get_if<double>("attention_factor", {1e-3, 1e3}));
  STROBE_ASSIGN(rope.truncate, fields.get_or<bool>("truncate", true));
  return {};
}

Result<void> parse_llama3(const JsonFields& fields, RopeConfig& rope) {
  STROBE_ASSIGN(rope.low_freq_factor, fields.get<double>("low_freq_factor", {1e-3, 1e6}));
  STROBE_ASSIGN(rope.high_freq_factor, fields.get<double>("high_freq_factor", {1e-3, 1e6}));
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    return fields.refuse("high_freq_factor", fmt::format("a number above low_freq_factor, {}", rope.low_freq_factor));
  }
  return {};
}

Result<std::string> rope_type(const JsonFields& fields) {
  STROBE_ASSIGN(std::string kind, fields.choice("rope_type", {"default", "yarn", "deepseek_yarn", "llama3"}, ""));
  STROBE_ASSIGN(std::string older, fields.choice("type", {"default", "yarn", "deepseek_yarn", "llama3"}, kind));
  if (kind.empty()) kind = older;
  if (kind.empty()) return fields.refuse("rope_type", "default, yarn, deepseek_yarn, llama3");
  if (kind != older) return fields.refuse("type", fmt::format("the same as rope_type, {}", kind));
  return kind;
}

}  // namespace

std::string_view to_string(RopeKind kind) {
  switch (kind) {
    case RopeKind::kDefault:
      return "default";
    case RopeKind::kLlama3:
      return "llama3";
    case RopeKind::kYarn:
      return "yarn";
    case RopeKind::kDeepseekYarn:
      return "deepseek_yarn";
  }
  return "?";
}

Result<RopeConfig> parse_rope_config(const JsonFields& config, bool deepseek, double default_theta) {
  constexpr Limits<double> kTheta = {1.0 + 1e-6, 1e12};
  RopeConfig rope;
  STROBE_ASSIGN(rope.theta, config.get_or<double>("rope_theta", default_theta, kTheta));
  const char* key = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  STROBE_ASSIGN(const std::optional<JsonFields> fields, config.object_if(key));
  if (!fields) return rope;
  STROBE_ASSIGN(rope.theta, fields->get_or<double>("rope_theta", rope.theta, kTheta));
  STROBE_ASSIGN(const std::string kind, rope_type(*fields));
  if (kind == "default") return rope;
  rope.kind = kind == "llama3"                      ? RopeKind::kLlama3
              : deepseek || kind == "deepseek_yarn" ? RopeKind::kDeepseekYarn
                                                    : RopeKind::kYarn;
  STROBE_ASSIGN(rope.factor, fields->get<double>("factor", {1.0, kMaxFactor}));
  STROBE_ASSIGN(rope.original_max_positions,
                fields->get<int64_t>("original_max_position_embeddings", {1, kMaxPositions}));
  STROBE_TRY(rope.kind == RopeKind::kLlama3 ? parse_llama3(*fields, rope) : parse_yarn(*fields, rope));
  return rope;
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

std::vector<float> rope_inv_freq(const RopeConfig& rope, int64_t rotary_dims) {
  STROBE_CHECK(rotary_dims > 0 && rotary_dims % 2 == 0, "rotary dims {}", rotary_dims);
  if (rope.kind == RopeKind::kYarn || rope.kind == RopeKind::kDeepseekYarn) return yarn_inv_freq(rope, rotary_dims);
  std::vector<float> frequencies;
  frequencies.reserve(static_cast<size_t>(rotary_dims / 2));
  for (int64_t i = 0; i < rotary_dims / 2; ++i) {
    const double plain = plain_frequency(rope.theta, i, rotary_dims);
    frequencies.push_back(static_cast<float>(rope.kind == RopeKind::kLlama3 ? llama3_frequency(rope, plain) : plain));
  }
  return frequencies;
}

float rope_amplitude(const RopeConfig& rope) {
  if (rope.kind != RopeKind::kYarn && rope.kind != RopeKind::kDeepseekYarn) return 1.0F;
  if (rope.attention_factor) return static_cast<float>(*rope.attention_factor * rope.attn_factor);
  double rule = 0;
  if (rope.kind == RopeKind::kDeepseekYarn) {
    rule =
        yarn_mscale(rope.factor, rope.mscale.value_or(1.0)) / yarn_mscale(rope.factor, rope.mscale_all_dim.value_or(0));
  } else if (rope.mscale.value_or(0) != 0 && rope.mscale_all_dim.value_or(0) != 0) {
    rule = yarn_mscale(rope.factor, *rope.mscale) / yarn_mscale(rope.factor, *rope.mscale_all_dim);
  } else {
    rule = yarn_mscale(rope.factor, 1.0);
  }
  return static_cast<float>(rule * rope.attn_factor);
}

float mla_softmax_scale(const RopeConfig& rope, int64_t qk_head_dim) {
  const double plain = 1.0 / std::sqrt(static_cast<double>(qk_head_dim));
  if (rope.kind != RopeKind::kDeepseekYarn) return static_cast<float>(plain);
  const double m = yarn_mscale(rope.factor, rope.mscale_all_dim.value_or(0));
  return static_cast<float>(plain * m * m);
}

}  // namespace strobe
