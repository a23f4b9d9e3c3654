// Rotary position embedding: the frequencies, the amplitude of cos and sin, and MLA's softmax scale.
//
// Angle of pair i at position p: p * inv_freq[i]; cos and sin are multiplied by the amplitude.
// Which columns form a pair (neighbours, or halves) is the model's affair, not ours.
//
// Sources: YaRN, arXiv 2309.00071, as DeepSeek-V3's modeling file and Hugging Face transformers compute it; Llama 3's
// frequency bands as transformers' rope_type "llama3".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json_fields.h"
#include "base/result.h"

namespace strobe {

enum class RopeKind {
  kDefault,       // theta^(-2i/d)
  kLlama3,        // long wavelengths divided by `factor`, a smooth step between
  kYarn,          // the ramp below; amplitude by the Hugging Face rule
  kDeepseekYarn,  // the same ramp and amplitude; the softmax scale grows by mscale(factor, mscale_all_dim)^2
};

[[nodiscard]] std::string_view to_string(RopeKind kind);

struct RopeConfig {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000.0;
  // Every kind but kDefault:
  double factor = 1.0;
  int64_t original_max_positions = 0;
  // yarn: dimensions that turn more than beta_fast times over the original length stay, fewer than beta_slow are
  // divided.
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;
  double attn_factor = 1.0;                // multiplied into the amplitude (SGLang's key)
  std::optional<double> attention_factor;  // replaces the rule (Hugging Face's key)
  bool truncate = true;                    // ramp bounds to whole dimensions
  // llama3:
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
};

// Reads rope_theta with rope_scaling, or rope_parameters with everything in it (transformers 5). `deepseek` makes
// "yarn" mean kDeepseekYarn. Errors: unknown type, a field missing or out of bounds, beta_fast < beta_slow.
Result<RopeConfig> parse_rope_config(const JsonFields& config, bool deepseek, double default_theta);

// 0.1 * mscale * ln(factor) + 1; 1 for factor <= 1.
[[nodiscard]] double yarn_mscale(double factor, double mscale);

// rotary_dims / 2 frequencies; rotary_dims even and > 0. Computed in double, rounded once.
//   f_i = theta^(-2i/d)
//   yarn: c(b) = d * ln(original / (2 pi b)) / (2 ln theta); low = floor c(beta_fast), high = ceil c(beta_slow), in [0,
//   d - 1];
//         keep_i = 1 - clamp((i - low) / (high - low), 0, 1)  (high - low at least 0.001)
//         inv_freq_i = f_i * keep_i + f_i / factor * (1 - keep_i)
[[nodiscard]] std::vector<float> rope_inv_freq(const RopeConfig& rope, int64_t rotary_dims);

// What cos and sin are multiplied by: 1 unless the kind is a yarn, then attn_factor times
//   attention_factor when given, else
//   kYarn: mscale(factor, mscale) / mscale(factor, mscale_all_dim) when both are given and not 0, else mscale(factor,
//   1); kDeepseekYarn: that ratio always, with 1 for an absent mscale and 0 for an absent mscale_all_dim.
[[nodiscard]] float rope_amplitude(const RopeConfig& rope);

// (qk_nope + qk_rope)^-0.5, times mscale(factor, mscale_all_dim)^2 for kDeepseekYarn when mscale_all_dim is given and
// not 0. Kimi-K2: 192^-0.5 * 1.41589^2 = 0.144679.
[[nodiscard]] float mla_softmax_scale(const RopeConfig& rope, int64_t qk_head_dim);

}  // namespace strobe
