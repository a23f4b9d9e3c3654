// Any bytes as config.json of a target and of a draft, as hf_quant_config.json, generation_config.json and as a shard
// index. What is accepted must hold together: the numbers that size tables and kernels are checked, and the rope tables
// computed.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "base/json_fields.h"
#include "load/draft_config.h"
#include "load/model_config.h"
#include "load/safetensors.h"
#include "load/safetensors_writer.h"

namespace {

using namespace strobe;
using nlohmann::json;

// A folder with two shards, for indices to name.
const std::filesystem::path& folder() {
  static const strobe::testing::TempFolder temporary;
  static const bool filled = [] {
    for (const char* tensor : {"a", "b"}) {
      strobe::testing::SafetensorsWriter()
          .add(tensor, FileDType::kU8, {1})
          .write(temporary / fmt::format("{}.safetensors", tensor));
    }
    return true;
  }();
  STROBE_CHECK(filled);
  return temporary.path();
}

void check_rope(const RopeConfig& rope, int64_t dims) {
  for (const float frequency : rope_inv_freq(rope, dims)) {
    STROBE_CHECK(std::isfinite(frequency) && frequency >= 0, "{}", frequency);
  }
  STROBE_CHECK(std::isfinite(rope_amplitude(rope)) && rope_amplitude(rope) > 0);
}

void check_target(const ModelConfig& config) {
  STROBE_CHECK(config.mla.has_value() != config.gqa.has_value());
  STROBE_CHECK(config.layers >= 1 && config.hidden_size >= 1 && config.vocab_size >= 1 && config.heads >= 1);
  if (config.mla) {
    check_rope(config.rope, config.mla->qk_rope_head_dim);
    STROBE_CHECK(std::isfinite(config.mla->softmax_scale) && config.mla->softmax_scale > 0);
  } else {
    check_rope(config.rope, config.gqa->head_dim);
    STROBE_CHECK(config.heads % config.gqa->kv_heads == 0);
  }
  if (config.moe) {
    const MoeConfig& moe = *config.moe;
    STROBE_CHECK(moe.experts % moe.groups == 0 && moe.experts_per_token <= moe.experts / moe.groups * moe.groups_kept);
  }
  for (const int64_t id : config.eos_ids) STROBE_CHECK(id >= 0 && id < config.vocab_size);
  static_cast<void>(config.quant.excluded("model.layers.1.mlp.experts.0.gate_proj"));
}

void check_draft(const DraftConfig& draft) {
  check_rope(draft.rope, draft.head_dim);
  STROBE_CHECK(static_cast<int64_t>(draft.layer_types.size()) == draft.layers && draft.features() >= 1);
  for (int64_t i = 1; i < draft.features(); ++i) {
    STROBE_CHECK(draft.target_layer_ids[static_cast<size_t>(i)] > draft.target_layer_ids[static_cast<size_t>(i - 1)]);
  }
  static_cast<void>(resolve_mask_token(draft, 1000));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::ofstream(folder() / "model.safetensors.index.json", std::ios::binary) << text;
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder());
  if (checkpoint.ok()) STROBE_CHECK(checkpoint->tensor_count() >= 1 && checkpoint->tensor_count() <= 2);

  const Result<json> value = parse_json(text, "input");
  if (!value.ok()) return 0;
  const Result<ModelConfig> target = parse_model_config(*value);
  if (target.ok()) check_target(*target);
  const Result<DraftConfig> draft = parse_draft_config(*value, 61);
  if (draft.ok()) check_draft(*draft);
  if (target.ok() && draft.ok()) static_cast<void>(check_draft_against_target(*draft, *target));
  static_cast<void>(parse_quant_config(json::object(), &*value));
  static const json plain =
      json::parse(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 512})");
  const Result<ModelConfig> with_generation = parse_model_config(plain, &*value);
  if (with_generation.ok()) check_target(*with_generation);
  return 0;
}
