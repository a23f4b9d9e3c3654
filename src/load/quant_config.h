// What a checkpoint says about its quantisation (NVIDIA Model-Optimizer's two forms).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace strobe {

enum class QuantAlgo { kNone, kNvfp4 };
enum class KvScheme { kNone, kFp8 };  // kFp8: e4m3 with per-tensor scales, 1 when the file has none

[[nodiscard]] std::string_view to_string(QuantAlgo algo);
[[nodiscard]] std::string_view to_string(KvScheme scheme);

struct QuantConfig {
  QuantAlgo algo = QuantAlgo::kNone;
  int64_t group_size = 0;  // columns that share a block scale; 16 for NVFP4
  KvScheme kv = KvScheme::kNone;
  std::vector<std::string> ignore;    // module patterns that are not quantised, '*' stands for any run of characters
  std::string source;                 // "config.json" or "hf_quant_config.json", for messages
  std::vector<std::string> warnings;  // e.g. the two forms disagree (config.json wins)

  // The first pattern that excludes a module ("model.layers.0.mlp.gate_proj"), or nullptr. A pattern matches when it
  // covers the whole module name or any one of its dotted components. A leading "language_model." or
  // "model.language_model." counts neither in the pattern nor in the name; "language_model.layers.0*" means
  // "model.layers.0*".
  [[nodiscard]] const std::string* excluded_by(std::string_view module) const;
  [[nodiscard]] bool excluded(std::string_view module) const { return excluded_by(module) != nullptr; }
};

// From the parsed config.json (its quantization_config, or text_config's) and, when given, hf_quant_config.json.
// Neither: algo kNone. Errors: an algorithm or method that is not NVFP4 by modelopt; NVFP4 without a group size of 16
// or without an exclusion list; an unknown KV scheme; wrong types.
Result<QuantConfig> parse_quant_config(const nlohmann::json& config, const nlohmann::json* hf_quant_config);

// '*' stands for any run of characters, everything else for itself. Linear in memory, at worst pattern * text in time.
[[nodiscard]] bool glob_match(std::string_view pattern, std::string_view text);

// Brings the names of wrapped checkpoints into the plain form:
//   language_model.model.X, language_model.X, model.language_model.X -> model.X, but language_model.lm_head.X ->
//   lm_head.X
// Names without such a prefix stay.
[[nodiscard]] std::string plain_name(std::string_view name);

}  // namespace strobe
