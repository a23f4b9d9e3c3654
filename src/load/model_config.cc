#include "load/model_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"
#include "load/mapped_file.h"

namespace strobe {
namespace {

using nlohmann::json;

// Upper bounds: far above any model, low enough that products of two of them fit and tables of them can be allocated.
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxHeadDim = 4096;
constexpr int64_t kMaxExperts = 65536;
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxPositions = int64_t{1} << 24;
constexpr int64_t kNvfp4Group = 16;
constexpr std::string_view kModelTypes =
    "kimi_k2, deepseek_v3, kimi_k25 (with one of these as text_config), llama, qwen3";

bool is_mla_family(std::string_view type) {
  return type == "kimi_k2" || type == "deepseek_v3";
}
bool is_gqa_family(std::string_view type) {
  return type == "llama" || type == "qwen3";
}

// A single id or a list of them; absent is an empty list.
Result<std::vector<int64_t>> parse_ids(const JsonFields& fields, std::string_view name, int64_t vocab) {
  const Limits<int64_t> limits = {0, vocab - 1};
  const json* value = fields.find(name);
  if (value == nullptr) return std::vector<int64_t>();
  if (value->is_array()) return fields.list<int64_t>(name, limits);
  STROBE_ASSIGN(const int64_t id, fields.get<int64_t>(name, limits));
  return std::vector<int64_t>{id};
}

void append_new(std::vector<int64_t>& ids, const std::vector<int64_t>& more) {
  for (const int64_t id : more) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
}

Result<void> parse_common(const JsonFields& fields, ModelConfig& config) {
  STROBE_ASSIGN(config.hidden_size, fields.get<int64_t>("hidden_size", {1, kMaxWidth}));
  STROBE_ASSIGN(config.layers, fields.get<int64_t>("num_hidden_layers", {1, kMaxLayers}));
  STROBE_ASSIGN(config.heads, fields.get<int64_t>("num_attention_heads", {1, kMaxHeads}));
  STROBE_ASSIGN(config.intermediate_size, fields.get<int64_t>("intermediate_size", {1, kMaxWidth}));
  STROBE_ASSIGN(config.vocab_size, fields.get<int64_t>("vocab_size", {1, kMaxVocab}));
  STROBE_ASSIGN(config.max_positions, fields.get<int64_t>("max_position_embeddings", {1, kMaxPositions}));
  STROBE_ASSIGN(config.rms_norm_eps, fields.get_or<double>("rms_norm_eps", 1e-6, {1e-12, 1e-1}));
  STROBE_ASSIGN(config.tie_word_embeddings, fields.get_or<bool>("tie_word_embeddings", false));
  STROBE_TRY(fields.choice("hidden_act", {"silu"}, "silu"));
  STROBE_TRY(fields.choice("torch_dtype", {"bfloat16", "float32"}, "bfloat16"));
  STROBE_TRY(fields.choice("dtype", {"bfloat16", "float32"}, "bfloat16"));
  return {};
}

Result<MlaConfig> parse_mla(const JsonFields& fields, const RopeConfig& rope) {
  MlaConfig mla;
  STROBE_ASSIGN(mla.q_lora_rank, fields.get_or<int64_t>("q_lora_rank", 0, {1, kMaxWidth}));
  STROBE_ASSIGN(mla.kv_lora_rank, fields.get<int64_t>("kv_lora_rank", {1, kMaxWidth}));
  STROBE_ASSIGN(mla.qk_nope_head_dim, fields.get<int64_t>("qk_nope_head_dim", {1, kMaxHeadDim}));
  STROBE_ASSIGN(mla.qk_rope_head_dim, fields.get<int64_t>("qk_rope_head_dim", {2, kMaxHeadDim}));
  STROBE_ASSIGN(mla.v_head_dim, fields.get<int64_t>("v_head_dim", {1, kMaxHeadDim}));
  STROBE_ASSIGN(mla.rope_interleave, fields.get_or<bool>("rope_interleave", true));
  STROBE_ASSIGN(const bool bias, fields.get_or<bool>("attention_bias", false));
  if (mla.qk_rope_head_dim % 2 != 0) return fields.refuse("qk_rope_head_dim", "an even number");
  if (bias) return fields.refuse("attention_bias", "false");
  mla.softmax_scale = mla_softmax_scale(rope, mla.qk_head_dim());
  return mla;
}

Result<void> check_groups(const JsonFields& fields, const MoeConfig& moe) {
  if (moe.experts % moe.groups != 0) {
    return fields.refuse("n_group", fmt::format("a divisor of n_routed_experts, {}", moe.experts));
  }
  if (moe.groups_kept > moe.groups) return fields.refuse("topk_group", fmt::format("at most n_group, {}", moe.groups));
  const int64_t per_group = moe.experts / moe.groups;
  if (moe.groups > 1 && per_group < 2) {
    return fields.refuse("n_group", "groups of at least 2 experts: a group is scored by its best two");
  }
  if (moe.experts_per_token > moe.groups_kept * per_group) {
    return fields.refuse("num_experts_per_tok",
                         fmt::format("at most the {} experts of topk_group groups", moe.groups_kept * per_group));
  }
  return {};
}

// nullopt when every FFN is dense: no n_routed_experts, or the first routed layer lies past the end.
Result<std::optional<MoeConfig>> parse_moe(const JsonFields& fields, int64_t layers) {
  if (!fields.has("n_routed_experts")) return std::optional<MoeConfig>();
  MoeConfig moe;
  STROBE_ASSIGN(moe.experts, fields.get<int64_t>("n_routed_experts", {1, kMaxExperts}));
  STROBE_ASSIGN(moe.experts_per_token, fields.get<int64_t>("num_experts_per_tok", {1, moe.experts}));
  STROBE_ASSIGN(moe.shared_experts, fields.get_or<int64_t>("n_shared_experts", 0, {0, 64}));
  STROBE_ASSIGN(moe.intermediate_size, fields.get<int64_t>("moe_intermediate_size", {1, kMaxWidth}));
  STROBE_ASSIGN(moe.first_dense_layers, fields.get_or<int64_t>("first_k_dense_replace", 0, {0, layers}));
  STROBE_ASSIGN(moe.layer_freq, fields.get_or<int64_t>("moe_layer_freq", 1, {1, kMaxLayers}));
  STROBE_ASSIGN(moe.groups, fields.get_or<int64_t>("n_group", 1, {1, moe.experts}));
  STROBE_ASSIGN(moe.groups_kept, fields.get_or<int64_t>("topk_group", 1, {1, moe.experts}));
  STROBE_ASSIGN(moe.norm_topk_prob, fields.get_or<bool>("norm_topk_prob", true));
  STROBE_ASSIGN(moe.routed_scaling_factor, fields.get_or<double>("routed_scaling_factor", 1.0, {1e-6, 1e6}));
  STROBE_TRY(fields.choice("scoring_func", {"sigmoid"}, "sigmoid"));
  STROBE_TRY(fields.choice("topk_method", {"noaux_tc"}, "noaux_tc"));
  STROBE_TRY(check_groups(fields, moe));
  return std::optional<MoeConfig>(moe);
}

Result<GqaConfig> parse_gqa(const JsonFields& fields, const ModelConfig& config) {
  GqaConfig gqa;
  gqa.qk_norm = config.model_type == "qwen3";
  STROBE_ASSIGN(gqa.kv_heads, fields.get_or<int64_t>("num_key_value_heads", config.heads, {1, kMaxHeads}));
  STROBE_ASSIGN(gqa.head_dim, fields.get_or<int64_t>("head_dim", config.hidden_size / config.heads, {2, kMaxHeadDim}));
  STROBE_ASSIGN(gqa.attention_bias, fields.get_or<bool>("attention_bias", false));
  STROBE_ASSIGN(const bool mlp_bias, fields.get_or<bool>("mlp_bias", false));
  STROBE_ASSIGN(const bool window, fields.get_or<bool>("use_sliding_window", false));
  if (config.heads % gqa.kv_heads != 0) {
    return fields.refuse("num_key_value_heads", fmt::format("a divisor of num_attention_heads, {}", config.heads));
  }
  if (!fields.has("head_dim") && config.hidden_size % config.heads != 0) {
    return fields.refuse("head_dim", "a number: num_attention_heads does not divide hidden_size");
  }
  if (gqa.head_dim < 2 || gqa.head_dim % 2 != 0) {
    return error("{}: head_dim is {}; accepted: an even number", fields.where(), gqa.head_dim);
  }
  if (mlp_bias) return fields.refuse("mlp_bias", "false");
  if (window) return fields.refuse("use_sliding_window", "false");
  gqa.softmax_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(gqa.head_dim)));
  return gqa;
}

Result<void> check_nvfp4_sizes(const JsonFields& fields, const ModelConfig& config) {
  if (config.quant.algo != QuantAlgo::kNvfp4) return {};
  for (const char* name : {"hidden_size", "intermediate_size", "moe_intermediate_size"}) {
    STROBE_ASSIGN(const std::optional<int64_t> size, fields.get_if<int64_t>(name));
    if (size && *size % kNvfp4Group != 0) {
      return fields.refuse(name, fmt::format("a multiple of {} (the NVFP4 group)", kNvfp4Group));
    }
  }
  return {};
}

Result<void> parse_family(const JsonFields& fields, ModelConfig& config) {
  STROBE_TRY(parse_common(fields, config));
  const bool mla = is_mla_family(config.model_type);
  STROBE_ASSIGN(config.rope, parse_rope_config(fields, mla, 10000.0));
  if (mla) {
    STROBE_ASSIGN(config.mla, parse_mla(fields, config.rope));
    STROBE_ASSIGN(config.moe, parse_moe(fields, config.layers));
    STROBE_ASSIGN(config.nextn_layers, fields.get_or<int64_t>("num_nextn_predict_layers", 0, {0, 16}));
  } else {
    STROBE_ASSIGN(config.gqa, parse_gqa(fields, config));
  }
  const Limits<int64_t> ids = {0, config.vocab_size - 1};
  STROBE_ASSIGN(config.bos_id, fields.get_if<int64_t>("bos_token_id", ids));
  STROBE_ASSIGN(config.pad_id, fields.get_if<int64_t>("pad_token_id", ids));
  STROBE_ASSIGN(config.eos_ids, parse_ids(fields, "eos_token_id", config.vocab_size));
  return {};
}

Result<void> parse_generation(const json& file, ModelConfig& config) {
  STROBE_ASSIGN(const JsonFields fields, JsonFields::of(file, "generation_config.json"));
  STROBE_ASSIGN(const std::vector<int64_t> eos, parse_ids(fields, "eos_token_id", config.vocab_size));
  append_new(config.eos_ids, eos);
  SamplingDefaults& sampling = config.sampling;
  STROBE_ASSIGN(sampling.temperature, fields.get_if<double>("temperature", {0.0, 100.0}));
  STROBE_ASSIGN(sampling.top_p, fields.get_if<double>("top_p", {0.0, 1.0}));
  STROBE_ASSIGN(sampling.top_k, fields.get_if<int64_t>("top_k", {-1, kMaxVocab}));
  STROBE_ASSIGN(sampling.min_p, fields.get_if<double>("min_p", {0.0, 1.0}));
  STROBE_ASSIGN(sampling.repetition_penalty, fields.get_if<double>("repetition_penalty", {1e-3, 100.0}));
  return {};
}

// The language model's own object: the root, or text_config of a wrapper.
Result<JsonFields> language_model(const JsonFields& root, ModelConfig& config) {
  STROBE_ASSIGN(config.model_type, root.get<std::string>("model_type"));
  if (config.model_type != "kimi_k25") {
    if (is_mla_family(config.model_type) || is_gqa_family(config.model_type)) return root;
    return root.refuse("model_type", kModelTypes);
  }
  config.wrapper_type = config.model_type;
  STROBE_ASSIGN(JsonFields text, root.object("text_config"));
  STROBE_ASSIGN(config.model_type, text.get_or<std::string>("model_type", "kimi_k2"));
  if (!is_mla_family(config.model_type)) return text.refuse("model_type", "kimi_k2, deepseek_v3");
  return text;
}

}  // namespace

Result<ModelConfig> parse_model_config(const json& config_json, const json* generation_config,
                                       const json* hf_quant_config) {
  ModelConfig config;
  STROBE_ASSIGN(const JsonFields root, JsonFields::of(config_json, "config.json"));
  STROBE_ASSIGN(const JsonFields fields, language_model(root, config));
  STROBE_ASSIGN(std::optional<std::vector<std::string>> architectures, root.list_if<std::string>("architectures"));
  config.architectures = std::move(architectures).value_or(std::vector<std::string>());
  STROBE_TRY(parse_family(fields, config));
  if (!config.wrapper_type.empty()) {
    STROBE_ASSIGN(const std::vector<int64_t> eos, parse_ids(root, "eos_token_id", config.vocab_size));
    append_new(config.eos_ids, eos);
  }
  if (generation_config != nullptr) STROBE_TRY(parse_generation(*generation_config, config));
  STROBE_ASSIGN(config.quant, parse_quant_config(config_json, hf_quant_config));
  config.warnings = config.quant.warnings;
  STROBE_TRY(check_nvfp4_sizes(fields, config));
  if (config.eos_ids.empty()) {
    config.warnings.emplace_back(
        "neither config.json nor generation_config.json has eos_token_id: only length, stop strings "
        "and the request's stop ids end a text");
  }
  return config;
}

Result<json> read_json_file(const std::filesystem::path& path) {
  constexpr int64_t kMaxBytes = int64_t{64} << 20;
  const MappedFile file = MappedFile::open(path);
  if (file.size_bytes() > kMaxBytes) {
    return error("{}: {} bytes; accepted: at most {}", path.string(), file.size_bytes(), kMaxBytes);
  }
  return parse_json(file.text(), path.string());
}

Result<ModelConfig> load_model_config(const std::filesystem::path& folder) {
  if (!path_exists(folder / "config.json")) {
    return error("{}: there is no such file; accepted: the folder of a Hugging Face checkpoint",
                 (folder / "config.json").string());
  }
  const auto read_if = [&](const char* name) -> Result<std::optional<json>> {
    if (!path_exists(folder / name)) return std::optional<json>();
    STROBE_ASSIGN(json value, read_json_file(folder / name));
    return std::optional<json>(std::move(value));
  };
  STROBE_ASSIGN(const json config, read_json_file(folder / "config.json"));
  STROBE_ASSIGN(const std::optional<json> generation, read_if("generation_config.json"));
  STROBE_ASSIGN(const std::optional<json> hf_quant, read_if("hf_quant_config.json"));
  const auto pointer = [](const std::optional<json>& value) { return value ? &*value : nullptr; };
  Result<ModelConfig> parsed = parse_model_config(config, pointer(generation), pointer(hf_quant));
  if (!parsed) return error("{}: {}", folder.string(), parsed.message());
  return parsed;
}

}  // namespace strobe
