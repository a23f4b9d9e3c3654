// TensorSource: a checkpoint's tensors under plain names, each taken once, none left over.
//
//   TensorSource source(checkpoint, target_name_rules(config), config.quant);
//   STROBE_ASSIGN(layer.norm, source.take("model.layers.0.input_layernorm.weight", {DType::kBf16}, {hidden}));
//   STROBE_ASSIGN(layer.gate, source.take_matrix("model.layers.0.mlp.gate_proj", intermediate, hidden));
//   ...
//   STROBE_TRY(source.finish());
//   log_info("{}", source.summary_line());
//
// Every Error names the tensor as the file spells it, its file, what was found and what was expected.
// What is returned points into the mapped files (read-only memory!) or into buffers of the source; storage() keeps both
// alive.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "load/model_config.h"
#include "load/quant_config.h"
#include "load/safetensors.h"
#include "tensor/buffer.h"
#include "tensor/quant_tensor.h"
#include "tensor/tensor.h"

namespace strobe {

// How names in files become plain names, and which tensors are left alone on purpose.
struct NameRules {
  bool unwrap_language_model = false;      // plain_name() of quant_config.h
  std::string strip;                       // one optional prefix to remove ("model." for drafts)
  std::vector<std::string> skip_prefixes;  // of names as in the file: other models in the same checkpoint
  std::vector<std::string> skip_suffixes;  // tables that are computed, e.g. ".rotary_emb.inv_freq"
  std::vector<std::string> skip_names;     // whole plain names
  int64_t skip_layers_from = 0;            // "model.layers.N." for N from here on (multi-token prediction) ...
  int64_t skip_layers_count = 0;           // ... this many of them
};

// Plain names "model.embed_tokens.weight", "model.layers.N...", "model.norm.weight", "lm_head.weight". vision_tower.*
// and mm_projector.* are skipped only for a wrapped model; multi-token-prediction layers when the config has some.
[[nodiscard]] NameRules target_name_rules(const ModelConfig& config);
// Plain names "fc.weight", "hidden_norm.weight", "norm.weight", "layers.N...". Copies of the target's embed_tokens and
// lm_head are skipped: a draft uses the target's.
[[nodiscard]] NameRules draft_name_rules();

struct LoadSummary {
  int64_t quantised_modules = 0;  // matrices taken as NVFP4
  int64_t bf16_modules = 0;       // matrices taken as bf16 or f32 that the exclusion list does not name
  int64_t excluded_modules = 0;   // matrices taken as bf16 or f32 that it names
  int64_t skipped_tensors = 0;    // by name rules
  int64_t kv_scaled = 0;          // attention modules with KV scales of their own
  int64_t taken_tensors = 0;
  int64_t taken_bytes = 0;
  std::vector<std::string> notes;  // config and tensors disagree about a module (the tensors win); at most 8 kept
  int64_t note_count = 0;
};

// Scales of the fp8 KV cache of one attention module: a stored e4m3 number times the scale is the value.
struct KvScales {
  float k = 1.0F;
  float v = 1.0F;
  bool in_file = false;
};

class TensorSource {
 public:
  // Error: two tensors of the checkpoint have one plain name.
  static Result<TensorSource> open(std::shared_ptr<const Checkpoint> checkpoint, const NameRules& rules,
                                   QuantConfig quant);
  // For plans: no number is read. Names are checked, and dtypes and shapes as far as the checkpoint describes its
  // tensors; data of what is taken is nullptr, scales are 1.
  static Result<TensorSource> open_for_plan(std::shared_ptr<const Checkpoint> checkpoint, const NameRules& rules,
                                            QuantConfig quant);

  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

  // The tensor as stored. Errors: missing, taken before, a dtype not in `accepted`, another shape.
  Result<Tensor> take(std::string_view name, std::initializer_list<DType> accepted, const Shape& shape);
  // The same widened to f32 when it is stored as BF16 or F16 (both exact).
  Result<Tensor> take_f32(std::string_view name, const Shape& shape);
  // One number (F32, BF16 or F16) of shape [] or [1], finite and > 0.
  Result<float> take_scale(std::string_view name);

  // The weight matrix `module`.weight of out x in. What the file holds decides:
  //   U8 [out, in/2] with weight_scale F8_E4M3 [out, in/16] and weight_scale_2 F32 []  -> kNvfp4 (global_scale =
  //   weight_scale_2) BF16 or F32 [out, in] without scales                                             -> kBf16, kF32
  // Errors: another dtype or shape; a scale missing, or present beside an unquantised weight; a scale that is zero,
  // negative or not finite; a block scale that is NaN or negative; NVFP4 tensors in a checkpoint that declares no
  // quantisation; in not a multiple of 16; `input_scale` missing here but present for other matrices of the checkpoint.
  // When the file and the exclusion list disagree the file wins and the summary keeps a note.
  Result<QuantTensor> take_matrix(std::string_view module, int64_t out, int64_t in);
  // The activation scale that came with a matrix taken as NVFP4; nullopt when the file has none.
  [[nodiscard]] std::optional<float> input_scale(std::string_view module) const;

  // `attention`.k_proj.k_scale with `attention`.v_proj.v_scale (or `attention`.k_scale with .v_scale). Both absent: 1.
  // Errors: only one of them; zero, negative or not finite. For an fp8 KV cache; a bf16 cache has no use for them.
  Result<KvScales> take_kv_scales(std::string_view attention);
  // The same for MLA, where K and V are one latent: the one scale. Error: k_scale and v_scale differ.
  Result<float> take_latent_scale(std::string_view attention);

  // Error when tensors were neither taken nor skipped: their count and up to eight of them with their files.
  Result<void> finish() const;

  [[nodiscard]] const LoadSummary& summary() const { return summary_; }
  // "240 quantised modules, 0 bf16, 57 excluded by config.json; 1045 tensors, 26.6 MiB, 0 skipped by name", and how
  // many modules are not as the exclusion list says.
  [[nodiscard]] std::string summary_line() const;

  // Keeps the mapped files and converted copies alive.
  [[nodiscard]] std::shared_ptr<const void> storage() const { return storage_; }

 private:
  struct Slot {
    const StoredTensor* stored = nullptr;
    bool used = false;
  };
  struct Storage {
    std::shared_ptr<const Checkpoint> checkpoint;
    std::vector<Buffer> buffers;
  };

  TensorSource() = default;
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;
  Result<const StoredTensor*> claim(std::string_view name, std::string_view expected);
  Result<QuantTensor> take_nvfp4(std::string_view module, const StoredTensor& weight, int64_t out, int64_t in);
  void note(std::string text);
  [[nodiscard]] std::string locate(const StoredTensor& stored) const;
  Tensor view(const StoredTensor& stored, DType dtype, Shape shape);

  std::shared_ptr<Storage> storage_;
  QuantConfig quant_;
  bool reads_numbers_ = true;
  bool has_input_scales_ = false;
  std::unordered_map<std::string, Slot> slots_;  // by plain name
  std::unordered_map<std::string, float> input_scales_;
  LoadSummary summary_;
};

}  // namespace strobe
