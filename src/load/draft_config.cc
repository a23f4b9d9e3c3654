#include "load/draft_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"
#include "load/mapped_file.h"

namespace strobe {
namespace {

using nlohmann::json;

constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxHeadDim = 4096;
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxPositions = int64_t{1} << 24;
constexpr int64_t kMaxBlock = 1024;
constexpr int64_t kDefaultBlock = 16;

// The object that holds a DFlash field: dflash_config when it has it, else the top level.
struct DflashFields {
  JsonFields top;
  std::optional<JsonFields> nested;
  [[nodiscard]] const JsonFields& with(std::string_view name) const {
    return nested && nested->has(name) ? *nested : top;
  }
};

// Keys of DFlash relatives that change the maths. A value that changes nothing is fine.
Result<void> refuse_variants(const DflashFields& fields) {
  STROBE_ASSIGN(const std::optional<std::vector<std::string>> names, fields.top.list_if<std::string>("architectures"));
  if (names && std::find(names->begin(), names->end(), "DFlashDraftModel") == names->end()) {
    return fields.top.refuse("architectures", "a list with DFlashDraftModel");
  }
  for (const char* name : {"input_embedding_scale", "output_multiplier"}) {
    const JsonFields& holder = fields.with(name);
    STROBE_ASSIGN(const double factor, holder.get_or<double>(name, 1.0));
    if (factor != 1.0) return holder.refuse(name, "1");
  }
  for (const char* name : {"final_logit_softcapping", "selector_rank", "conv_kernel_size"}) {
    if (fields.with(name).has(name)) return fields.with(name).refuse(name, "no such field (plain DFlash)");
  }
  STROBE_TRY(fields.with("attention_mode").choice("attention_mode", {"gqa", "mha"}, "gqa"));
  STROBE_TRY(fields.top.choice("hidden_act", {"silu"}, "silu"));
  STROBE_TRY(fields.top.choice("torch_dtype", {"bfloat16", "float32"}, "bfloat16"));
  STROBE_TRY(fields.top.choice("dtype", {"bfloat16", "float32"}, "bfloat16"));
  if (fields.top.has("quantization_config")) {
    return fields.top.refuse("quantization_config", "no such field: drafts are bf16");
  }
  return {};
}

Result<void> parse_dims(const JsonFields& top, DraftConfig& draft) {
  STROBE_ASSIGN(draft.hidden_size, top.get<int64_t>("hidden_size", {1, kMaxWidth}));
  STROBE_ASSIGN(draft.layers, top.get<int64_t>("num_hidden_layers", {1, kMaxLayers}));
  STROBE_ASSIGN(draft.heads, top.get<int64_t>("num_attention_heads", {1, kMaxHeads}));
  STROBE_ASSIGN(draft.kv_heads, top.get_or<int64_t>("num_key_value_heads", draft.heads, {1, kMaxHeads}));
  STROBE_ASSIGN(draft.head_dim, top.get_or<int64_t>("head_dim", draft.hidden_size / draft.heads, {2, kMaxHeadDim}));
  STROBE_ASSIGN(draft.intermediate_size, top.get<int64_t>("intermediate_size", {1, kMaxWidth}));
  STROBE_ASSIGN(draft.max_positions, top.get_or<int64_t>("max_position_embeddings", 32768, {1, kMaxPositions}));
  STROBE_ASSIGN(draft.rms_norm_eps, top.get_or<double>("rms_norm_eps", 1e-6, {1e-12, 1e-1}));
  STROBE_ASSIGN(draft.attention_bias, top.get_or<bool>("attention_bias", false));
  STROBE_ASSIGN(draft.vocab_size, top.get_if<int64_t>("vocab_size", {1, kMaxVocab}));
  if (draft.heads % draft.kv_heads != 0) {
    return top.refuse("num_key_value_heads", fmt::format("a divisor of num_attention_heads, {}", draft.heads));
  }
  if (!top.has("head_dim") && draft.hidden_size % draft.heads != 0) {
    return top.refuse("head_dim", "a number: num_attention_heads does not divide hidden_size");
  }
  if (draft.head_dim < 2 || draft.head_dim % 2 != 0) {
    return error("{}: head_dim is {}; accepted: an even number", top.where(), draft.head_dim);
  }
  draft.softmax_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(draft.head_dim)));
  return {};
}

Result<void> parse_layer_types(const JsonFields& top, DraftConfig& draft) {
  STROBE_ASSIGN(const std::optional<std::vector<std::string>> types, top.list_if<std::string>("layer_types"));
  STROBE_ASSIGN(const std::optional<bool> causal, top.get_if<bool>("is_causal"));
  STROBE_ASSIGN(const std::optional<int64_t> window, top.get_if<int64_t>("sliding_window", {1, kMaxPositions}));
  if (types && static_cast<int64_t>(types->size()) < draft.layers) {
    return top.refuse("layer_types", fmt::format("one for each of the {} layers", draft.layers));
  }
  for (int64_t i = 0; i < draft.layers; ++i) {
    const std::string type = types ? (*types)[static_cast<size_t>(i)] : "full_attention";
    if (type != "full_attention" && type != "sliding_attention") {
      return error("{}[{}] is '{}'; accepted: full_attention, sliding_attention", top.path("layer_types"), i, type);
    }
    DraftLayer layer;
    const bool sliding = type == "sliding_attention";
    if (sliding && !window)
      return top.refuse("sliding_window", "a number of tokens: layer_types has sliding_attention");
    layer.causal = causal.value_or(sliding);
    layer.window_left = sliding ? *window - 1 : -1;
    draft.layer_types.push_back(layer);
  }
  return {};
}

Result<void> parse_target_layers(const DflashFields& fields, int64_t target_layers, DraftConfig& draft) {
  const JsonFields& count = fields.with("num_target_layers");
  STROBE_ASSIGN(draft.num_target_layers, count.get_if<int64_t>("num_target_layers", {1, kMaxLayers}));
  const int64_t layers = draft.num_target_layers.value_or(target_layers);
  const JsonFields& holder = fields.with("target_layer_ids");
  STROBE_ASSIGN(std::optional<std::vector<int64_t>> ids, holder.list_if<int64_t>("target_layer_ids", {0, layers - 1}));
  if (!ids) {
    STROBE_ASSIGN(draft.target_layer_ids, default_target_layer_ids(layers, draft.layers));
    return {};
  }
  if (ids->empty()) return holder.refuse("target_layer_ids", "at least one layer");
  for (size_t i = 1; i < ids->size(); ++i) {
    if ((*ids)[i] <= (*ids)[i - 1]) {
      return error("{}[{}] is {} after {}; accepted: ascending ids (features are joined in the order of the layers)",
                   holder.path("target_layer_ids"), i, (*ids)[i], (*ids)[i - 1]);
    }
  }
  draft.target_layer_ids = std::move(*ids);
  return {};
}

Result<void> parse_mask(const DflashFields& fields, DraftConfig& draft) {
  const JsonFields& id = fields.with("mask_token_id");
  STROBE_ASSIGN(draft.mask_token_id, id.get_if<int64_t>("mask_token_id", {0, kMaxVocab}));
  const JsonFields& token = fields.with("mask_token");
  STROBE_ASSIGN(draft.mask_token, token.get_if<std::string>("mask_token"));
  if (draft.mask_token && draft.mask_token->empty())
    return token.refuse("mask_token", "a token of the target's tokenizer");
  return {};
}

}  // namespace

Result<std::vector<int64_t>> default_target_layer_ids(int64_t target_layers, int64_t draft_layers) {
  if (draft_layers < 1 || target_layers < draft_layers + 3) {
    if (draft_layers == 1 && target_layers >= 1) return std::vector<int64_t>{target_layers / 2};
    return error(
        "target_layer_ids is missing, and {} draft layers cannot be spread over {} target layers by the default "
        "rule; accepted: target_layer_ids in the draft's config.json",
        draft_layers, target_layers);
  }
  if (draft_layers == 1) return std::vector<int64_t>{target_layers / 2};
  std::vector<int64_t> ids;
  ids.reserve(static_cast<size_t>(draft_layers));
  const int64_t span = target_layers - 4;  // from layer 1 to layer n - 3
  for (int64_t i = 0; i < draft_layers; ++i) {
    // round(1 + i * span / (k - 1)) with ties to even, in integers.
    const int64_t steps = draft_layers - 1;
    const int64_t whole = i * span / steps;
    const int64_t twice_rest = 2 * (i * span % steps);
    const bool up = twice_rest > steps || (twice_rest == steps && (1 + whole) % 2 != 0);
    ids.push_back(1 + whole + (up ? 1 : 0));
  }
  return ids;
}

Result<DraftConfig> parse_draft_config(const json& config, int64_t target_layers, const DraftOptions& options) {
  STROBE_CHECK(target_layers >= 1, "target layers {}", target_layers);
  STROBE_ASSIGN(const JsonFields top, JsonFields::of(config, "config.json"));
  STROBE_ASSIGN(std::optional<JsonFields> nested, top.object_if("dflash_config"));
  const DflashFields fields{top, std::move(nested)};
  DraftConfig draft;
  STROBE_TRY(refuse_variants(fields));
  STROBE_TRY(parse_dims(top, draft));
  STROBE_ASSIGN(draft.rope, parse_rope_config(top, /*deepseek=*/false, 10000.0));
  STROBE_TRY(parse_layer_types(top, draft));
  STROBE_TRY(parse_target_layers(fields, target_layers, draft));
  STROBE_ASSIGN(draft.block_size, fields.with("block_size").get_if<int64_t>("block_size", {2, kMaxBlock}));
  STROBE_TRY(parse_mask(fields, draft));
  draft.rope_amplitude = rope_amplitude(draft.rope);
  if (options.rope_amplitude) {
    if (!(*options.rope_amplitude >= 1e-3 && *options.rope_amplitude <= 1e3)) {
      return error("the draft's rope amplitude is {}; accepted: a number from 0.001 to 1000", *options.rope_amplitude);
    }
    draft.rope_amplitude = static_cast<float>(*options.rope_amplitude);
  }
  return draft;
}

Result<DraftConfig> load_draft_config(const std::filesystem::path& folder, int64_t target_layers,
                                      const DraftOptions& options) {
  const auto path = folder / "config.json";
  if (!path_exists(path)) {
    return error("{}: there is no such file; accepted: the folder of a DFlash draft", path.string());
  }
  STROBE_ASSIGN(const json config, read_json_file(path));
  Result<DraftConfig> draft = parse_draft_config(config, target_layers, options);
  if (!draft) return error("{}: {}", folder.string(), draft.message());
  if (path_exists(folder / "mask_embedding.pt")) {
    draft->warnings.emplace_back(
        "mask_embedding.pt lies beside the draft and is not read: the target's row for the mask token is used, and few "
        "tokens may be accepted");
  }
  return draft;
}

Result<BlockSize> resolve_block_size(const DraftConfig& draft, std::optional<int64_t> flag) {
  if (!flag) return BlockSize{draft.block_size.value_or(kDefaultBlock), ""};
  if (*flag < 2 || *flag > kMaxBlock) {
    return error("the block size is {}; accepted: 2 to {} tokens (the first is the bonus token)", *flag, kMaxBlock);
  }
  BlockSize size{*flag, ""};
  if (draft.block_size && *draft.block_size != *flag) {
    size.warning = fmt::format("the block size is {} by flag, the draft's config.json says {}; the flag is used", *flag,
                               *draft.block_size);
  }
  return size;
}

Result<int64_t> resolve_mask_token(const DraftConfig& draft, int64_t target_vocab, const MaskTokenSources& sources) {
  const std::string token = draft.mask_token.value_or("<|MASK|>");
  const std::optional<int64_t> by_name = sources.find_token ? sources.find_token(token) : std::nullopt;
  std::optional<int64_t> id = draft.mask_token_id;
  std::string origin = "mask_token_id of the draft's config.json";
  if (id && draft.mask_token && by_name && *by_name != *id) {
    return error(
        "the draft's config.json has mask_token_id {}, but the target's tokenizer gives its mask_token '{}' the id "
        "{}; accepted: the same id, or only one of the fields",
        *id, token, *by_name);
  }
  if (!id && sources.tokenizer_mask_id) {
    id = sources.tokenizer_mask_id;
    origin = "the tokenizer's mask token";
  }
  if (!id && by_name) {
    id = by_name;
    origin = fmt::format("the tokenizer's entry for '{}'", token);
  }
  if (!id && sources.tokenizer_size) {
    id = sources.tokenizer_size;
    origin = "the first id that the tokenizer leaves free";
  }
  if (!id) return error("the draft's config.json has no mask_token_id, and the target's tokenizer has no '{}'", token);
  if (*id < 0 || *id >= target_vocab) {
    return error("the mask token id {} ({}) is outside the target's vocabulary; accepted: 0 to {}", *id, origin,
                 target_vocab - 1);
  }
  return *id;
}

Result<std::vector<std::string>> check_draft_against_target(const DraftConfig& draft, const ModelConfig& target) {
  if (draft.hidden_size != target.hidden_size) {
    return error("the draft's hidden_size is {}; accepted: the target's, {}", draft.hidden_size, target.hidden_size);
  }
  if (draft.vocab_size && *draft.vocab_size != target.vocab_size) {
    return error("the draft's vocab_size is {}; accepted: the target's, {}", *draft.vocab_size, target.vocab_size);
  }
  for (const int64_t id : draft.target_layer_ids) {
    if (id < 0 || id > target.layers - 2) {
      return error(
          "the draft's target_layer_ids has {}; accepted: 0 to {} (the target has {} layers, and the output of its "
          "last one is never captured)",
          id, target.layers - 2, target.layers);
    }
  }
  if (draft.mask_token_id && *draft.mask_token_id >= target.vocab_size) {
    return error("the draft's mask_token_id is {}; accepted: 0 to {} (the target's vocabulary)", *draft.mask_token_id,
                 target.vocab_size - 1);
  }
  std::vector<std::string> warnings = draft.warnings;
  if (draft.num_target_layers && *draft.num_target_layers != target.layers) {
    warnings.push_back(fmt::format("the draft was made for a target of {} layers; this one has {}",
                                   *draft.num_target_layers, target.layers));
  }
  if (draft.max_positions < target.max_positions) {
    warnings.push_back(fmt::format("the draft knows {} positions, the target {}: beyond them the draft guesses badly",
                                   draft.max_positions, target.max_positions));
  }
  return warnings;
}

}  // namespace strobe
