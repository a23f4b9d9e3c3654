#include "load/tensor_source.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/failure.h"

namespace strobe {
namespace {

constexpr int64_t kNvfp4Group = 16;
constexpr size_t kShownNames = 8;
constexpr size_t kKeptNotes = 8;
constexpr std::string_view kInputScale = ".input_scale";
constexpr std::string_view kEmbedding = "model.embed_tokens";

bool has_shape(const StoredTensor& stored, const Shape& shape) {
  if (!stored.described) return true;
  if (static_cast<int>(stored.shape.size()) != shape.rank()) return false;
  for (int i = 0; i < shape.rank(); ++i) {
    if (stored.shape[static_cast<size_t>(i)] != shape[i]) return false;
  }
  return true;
}

bool is_scalar(const StoredTensor& stored) {
  return !stored.described || stored.shape.empty() || (stored.shape.size() == 1 && stored.shape[0] == 1);
}

// "model.layers.61.mlp..." -> 61
std::optional<int64_t> layer_of(std::string_view plain) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!plain.starts_with(kLayers)) return std::nullopt;
  plain.remove_prefix(kLayers.size());
  int64_t layer = 0;
  const auto [end, code] = std::from_chars(plain.data(), plain.data() + plain.size(), layer);
  if (code != std::errc() || end == plain.data() + plain.size() || *end != '.') return std::nullopt;
  return layer;
}

bool skipped(const NameRules& rules, std::string_view stored, std::string_view plain) {
  const auto begins = [&](const std::string& prefix) { return stored.starts_with(prefix); };
  const auto ends = [&](const std::string& suffix) { return plain.ends_with(suffix); };
  if (std::any_of(rules.skip_prefixes.begin(), rules.skip_prefixes.end(), begins)) return true;
  if (std::any_of(rules.skip_suffixes.begin(), rules.skip_suffixes.end(), ends)) return true;
  if (std::find(rules.skip_names.begin(), rules.skip_names.end(), plain) != rules.skip_names.end()) return true;
  if (rules.skip_layers_count == 0) return false;
  const std::optional<int64_t> layer = layer_of(plain);
  return layer && *layer >= rules.skip_layers_from && *layer < rules.skip_layers_from + rules.skip_layers_count;
}

std::string apply_rules(const NameRules& rules, std::string_view stored) {
  if (rules.unwrap_language_model) return plain_name(stored);
  if (!rules.strip.empty() && stored.starts_with(rules.strip)) stored.remove_prefix(rules.strip.size());
  return std::string(stored);
}

// IEEE half to float, exactly.
float half_to_float(uint16_t bits) {
  const uint32_t exponent = (bits >> 10) & 31U;
  const uint32_t mantissa = bits & 1023U;
  const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024U), static_cast<int>(exponent) - 25);
}

bool widens_to_f32(const StoredTensor& stored) {
  const FileDType dtype = stored.dtype;
  return !stored.described || dtype == FileDType::kF32 || dtype == FileDType::kBf16 || dtype == FileDType::kF16;
}

// Element i of a tensor that widens_to_f32; the data need not be aligned.
float widened(const StoredTensor& stored, int64_t i) {
  if (stored.dtype == FileDType::kF32) {
    float value = 0;
    std::memcpy(&value, stored.data + i * 4, 4);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, stored.data + i * 2, 2);
  return stored.dtype == FileDType::kBf16 ? to_float(Bf16{bits}) : half_to_float(bits);
}

// The first block scale that is NaN or has its sign bit set, or -1.
int64_t first_bad_block_scale(const StoredTensor& stored) {
  const auto* bits = reinterpret_cast<const uint8_t*>(stored.data);
  constexpr int64_t kChunk = 4096;
  for (int64_t begin = 0; begin < stored.bytes; begin += kChunk) {
    const int64_t end = std::min(begin + kChunk, stored.bytes);
    uint8_t worst = 0;  // every good byte is below 0x7f: one unsigned maximum tells
    for (int64_t i = begin; i < end; ++i) worst = std::max(worst, bits[i]);
    if (worst < 0x7f) continue;
    return std::find_if(bits + begin, bits + end, [](uint8_t b) { return b >= 0x7f; }) - bits;
  }
  return -1;
}

std::string join_dtypes(std::initializer_list<DType> dtypes) {
  std::string text;
  for (const DType dtype : dtypes)
    text += fmt::format("{}{}", text.empty() ? "" : " or ", to_string(file_dtype(dtype)));
  return text;
}

}  // namespace

NameRules target_name_rules(const ModelConfig& config) {
  NameRules rules;
  rules.unwrap_language_model = true;
  if (!config.wrapper_type.empty()) {
    rules.skip_prefixes = {"vision_tower.", "mm_projector.", "model.vision_tower.", "model.mm_projector."};
  }
  rules.skip_suffixes = {".rotary_emb.inv_freq"};
  if (config.tie_word_embeddings) rules.skip_names = {"lm_head.weight"};
  rules.skip_layers_from = config.layers;
  rules.skip_layers_count = config.nextn_layers;
  return rules;
}

NameRules draft_name_rules() {
  NameRules rules;
  rules.strip = "model.";
  rules.skip_suffixes = {"rotary_emb.inv_freq"};
  rules.skip_names = {"embed_tokens.weight", "lm_head.weight"};
  return rules;
}

Result<TensorSource> TensorSource::open(std::shared_ptr<const Checkpoint> checkpoint, const NameRules& rules,
                                        QuantConfig quant) {
  TensorSource source;
  source.storage_ = std::make_shared<Storage>();
  source.quant_ = std::move(quant);
  std::vector<const std::vector<StoredTensor>*> lists{&checkpoint->named()};
  for (const SafetensorsFile& file : checkpoint->files()) lists.push_back(&file.tensors());
  for (const auto* list : lists) {
    for (const StoredTensor& tensor : *list) {
      std::string plain = apply_rules(rules, tensor.name);
      if (skipped(rules, tensor.name, plain)) {
        ++source.summary_.skipped_tensors;
        continue;
      }
      if (std::string_view(plain).ends_with(kInputScale)) source.has_input_scales_ = true;
      const auto [slot, added] = source.slots_.emplace(std::move(plain), Slot{&tensor, false});
      if (!added) {
        return error("{}: tensors '{}' and '{}' both are '{}' without their prefixes", checkpoint->folder().string(),
                     printable(slot->second.stored->name), printable(tensor.name), printable(slot->first));
      }
    }
  }
  source.storage_->checkpoint = std::move(checkpoint);
  return source;
}

Result<TensorSource> TensorSource::open_for_plan(std::shared_ptr<const Checkpoint> checkpoint, const NameRules& rules,
                                                 QuantConfig quant) {
  STROBE_ASSIGN(TensorSource source, open(std::move(checkpoint), rules, std::move(quant)));
  source.reads_numbers_ = false;
  return source;
}

const StoredTensor* TensorSource::find(std::string_view name) const {
  const auto found = slots_.find(std::string(name));
  return found == slots_.end() ? nullptr : found->second.stored;
}

std::string TensorSource::locate(const StoredTensor& stored) const {
  const Checkpoint& checkpoint = *storage_->checkpoint;
  return fmt::format("{}: tensor '{}'", (checkpoint.folder() / checkpoint.file_name(stored)).string(),
                     printable(stored.name));
}

Result<const StoredTensor*> TensorSource::claim(std::string_view name, std::string_view expected) {
  const auto found = slots_.find(std::string(name));
  if (found == slots_.end()) {
    // What else the module has tells why, e.g. weight_packed of another quantiser.
    const std::string_view module = name.substr(0, name.rfind('.') + 1);
    std::vector<std::string> siblings;
    for (const auto& [other, slot] : slots_) {
      if (!module.empty() && other.starts_with(module)) siblings.push_back(printable(slot.stored->name));
    }
    std::sort(siblings.begin(), siblings.end());
    if (siblings.size() > 4) siblings.resize(4);
    return error("{}: tensor '{}' is missing; expected: {}{}", storage_->checkpoint->folder().string(), printable(name),
                 expected, siblings.empty() ? "" : fmt::format(" (there are {})", fmt::join(siblings, ", ")));
  }
  Slot& slot = found->second;
  if (slot.used) return error("{} is wanted twice by the model's recipe", locate(*slot.stored));
  slot.used = true;
  ++summary_.taken_tensors;
  summary_.taken_bytes += slot.stored->bytes;
  return slot.stored;
}

Tensor TensorSource::view(const StoredTensor& stored, DType dtype, Shape shape) {
  if (!reads_numbers_) return Tensor(nullptr, dtype, shape);
  // Kernels never write weights; Tensor has no read-only form.
  auto* data = const_cast<std::byte*>(stored.data);
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_bytes(dtype)) != 0) {
    Buffer copy = Buffer::host(stored.bytes);
    std::memcpy(copy.data(), data, static_cast<size_t>(stored.bytes));
    data = copy.at(0);
    storage_->buffers.push_back(std::move(copy));
  }
  return Tensor(data, dtype, shape);
}

Result<Tensor> TensorSource::take(std::string_view name, std::initializer_list<DType> accepted, const Shape& shape) {
  const std::string expected = fmt::format("{} {}", join_dtypes(accepted), shape);
  STROBE_ASSIGN(const StoredTensor* stored, claim(name, expected));
  const std::optional<DType> dtype = stored->described ? compute_dtype(stored->dtype) : *accepted.begin();
  if (!dtype || std::find(accepted.begin(), accepted.end(), *dtype) == accepted.end() || !has_shape(*stored, shape)) {
    return error("{} is {}; expected: {}", locate(*stored), describe(*stored), expected);
  }
  return view(*stored, *dtype, shape);
}

Result<Tensor> TensorSource::take_f32(std::string_view name, const Shape& shape) {
  const std::string expected = fmt::format("F32, BF16 or F16 {}", shape);
  STROBE_ASSIGN(const StoredTensor* stored, claim(name, expected));
  if (!widens_to_f32(*stored) || !has_shape(*stored, shape)) {
    return error("{} is {}; expected: {}", locate(*stored), describe(*stored), expected);
  }
  if (stored->dtype == FileDType::kF32 || !reads_numbers_) return view(*stored, DType::kF32, shape);
  Buffer copy = Buffer::host(shape.elements() * size_bytes(DType::kF32));
  const Tensor tensor = copy.tensor(DType::kF32, shape);
  for (int64_t i = 0; i < shape.elements(); ++i) tensor.as<float>()[i] = widened(*stored, i);
  storage_->buffers.push_back(std::move(copy));
  return tensor;
}

Result<float> TensorSource::take_scale(std::string_view name) {
  STROBE_ASSIGN(const StoredTensor* stored, claim(name, "one number, F32 [], finite and > 0"));
  if (!widens_to_f32(*stored) || !is_scalar(*stored)) {
    return error("{} is {}; expected: one number, F32 []", locate(*stored), describe(*stored));
  }
  if (!reads_numbers_) return 1.0F;
  const float scale = widened(*stored, 0);
  if (!std::isfinite(scale) || scale <= 0) {
    return error("{} is {}; expected: a finite number above 0", locate(*stored), scale);
  }
  return scale;
}

Result<QuantTensor> TensorSource::take_matrix(std::string_view module, int64_t out, int64_t in) {
  const std::string weight_name = fmt::format("{}.weight", module);
  const Shape plain_shape = {out, in};
  const std::string expected =
      fmt::format("BF16 or F32 {}, or NVFP4 U8 [{}, {}] with scales", plain_shape, out, in / 2);
  STROBE_ASSIGN(const StoredTensor* stored, claim(weight_name, expected));
  const bool scaled = !stored->described && has(fmt::format("{}.weight_scale", module));
  if (stored->dtype == FileDType::kU8 || scaled) return take_nvfp4(module, *stored, out, in);

  const bool f32 = stored->described && stored->dtype == FileDType::kF32;
  if ((stored->described && !f32 && stored->dtype != FileDType::kBf16) || !has_shape(*stored, plain_shape)) {
    return error("{} is {}; expected: {}", locate(*stored), describe(*stored), expected);
  }
  for (const char* suffix : {"weight_scale", "weight_scale_2", "input_scale"}) {
    const StoredTensor* scale = find(fmt::format("{}.{}", module, suffix));
    if (scale == nullptr) continue;
    return error("{} is a scale, but '{}' is {}, which has none", locate(*scale), printable(stored->name),
                 describe(*stored));
  }
  const bool excluded = quant_.excluded(module);
  ++(excluded ? summary_.excluded_modules : summary_.bf16_modules);
  // The lists are of linear layers; an embedding is none.
  if (quant_.algo == QuantAlgo::kNvfp4 && !excluded && module != kEmbedding) {
    note(fmt::format("{} is {}, though the exclusion list of {} does not name it", locate(*stored),
                     stored->described ? describe(*stored) : "not quantised", quant_.source));
  }
  const Tensor tensor = view(*stored, f32 ? DType::kF32 : DType::kBf16, plain_shape);
  QuantTensor matrix;
  matrix.format = f32 ? WeightFormat::kF32 : WeightFormat::kBf16;
  matrix.out = out;
  matrix.in = in;
  matrix.data = tensor.data();
  return matrix;
}

Result<QuantTensor> TensorSource::take_nvfp4(std::string_view module, const StoredTensor& stored, int64_t out,
                                             int64_t in) {
  if (quant_.algo != QuantAlgo::kNvfp4) {
    return error("{} is {}, but neither config.json nor hf_quant_config.json declares NVFP4", locate(stored),
                 describe(stored));
  }
  if (in % kNvfp4Group != 0) {
    return error("{} is {} for {} columns; expected: a multiple of {} columns, or BF16 [{}, {}]", locate(stored),
                 describe(stored), in, kNvfp4Group, out, in);
  }
  if (!has_shape(stored, {out, in / 2})) {
    return error("{} is {}; expected: U8 [{}, {}] (two columns a byte), or BF16 [{}, {}]", locate(stored),
                 describe(stored), out, in / 2, out, in);
  }
  const std::string block_name = fmt::format("{}.weight_scale", module);
  const std::string block_expected = fmt::format("F8_E4M3 [{}, {}]", out, in / kNvfp4Group);
  STROBE_ASSIGN(const StoredTensor* blocks, claim(block_name, block_expected));
  if ((blocks->described && blocks->dtype != FileDType::kE4m3) || !has_shape(*blocks, {out, in / kNvfp4Group})) {
    return error("{} is {}; expected: {}", locate(*blocks), describe(*blocks), block_expected);
  }
  if (const int64_t bad = reads_numbers_ ? first_bad_block_scale(*blocks) : -1; bad >= 0) {
    const int64_t columns = in / kNvfp4Group;
    return error("{} is {} at [{}, {}]; expected: a number of 0 or more", locate(*blocks),
                 to_float(E4m3{static_cast<uint8_t>(blocks->data[bad])}), bad / columns, bad % columns);
  }
  QuantTensor matrix;
  STROBE_ASSIGN(matrix.global_scale, take_scale(fmt::format("{}.weight_scale_2", module)));
  if (has_input_scales_) {
    // Kernels that quantise activations need it for every matrix: one that is missing among others was forgotten.
    STROBE_ASSIGN(const float input, take_scale(fmt::format("{}{}", module, kInputScale)));
    input_scales_.emplace(module, input);
  }
  ++summary_.quantised_modules;
  if (const std::string* pattern = quant_.excluded_by(module)) {
    note(fmt::format("{} is quantised, though '{}' in the exclusion list of {} names it", locate(stored), *pattern,
                     quant_.source));
  }
  matrix.format = WeightFormat::kNvfp4;
  matrix.out = out;
  matrix.in = in;
  matrix.data = stored.data;
  matrix.scales = blocks->data;
  return matrix;
}

void TensorSource::note(std::string text) {
  if (summary_.notes.size() < kKeptNotes) summary_.notes.push_back(std::move(text));
  ++summary_.note_count;
}

std::optional<float> TensorSource::input_scale(std::string_view module) const {
  const auto found = input_scales_.find(std::string(module));
  return found == input_scales_.end() ? std::nullopt : std::optional<float>(found->second);
}

Result<KvScales> TensorSource::take_kv_scales(std::string_view attention) {
  std::string k_name = fmt::format("{}.k_proj.k_scale", attention);
  std::string v_name = fmt::format("{}.v_proj.v_scale", attention);
  if (!has(k_name) && !has(v_name)) {
    k_name = fmt::format("{}.k_scale", attention);
    v_name = fmt::format("{}.v_scale", attention);
  }
  if (!has(k_name) && !has(v_name)) return KvScales{};
  KvScales scales;
  scales.in_file = true;
  ++summary_.kv_scaled;
  STROBE_ASSIGN(scales.k, take_scale(k_name));
  STROBE_ASSIGN(scales.v, take_scale(v_name));
  return scales;
}

Result<float> TensorSource::take_latent_scale(std::string_view attention) {
  STROBE_ASSIGN(const KvScales scales, take_kv_scales(attention));
  if (scales.k != scales.v) {
    return error("{}: '{}' has k_scale {} and v_scale {}; expected: one scale, for K and V are one latent",
                 storage_->checkpoint->folder().string(), attention, scales.k, scales.v);
  }
  return scales.k;
}

Result<void> TensorSource::finish() const {
  std::vector<const StoredTensor*> left;
  for (const auto& [name, slot] : slots_) {
    if (!slot.used) left.push_back(slot.stored);
  }
  if (left.empty()) return {};
  std::sort(left.begin(), left.end(), [](const StoredTensor* a, const StoredTensor* b) { return a->name < b->name; });
  std::vector<std::string> shown;
  for (const StoredTensor* tensor : left) {
    if (shown.size() == kShownNames) break;
    shown.push_back(fmt::format("'{}' {} in {}", printable(tensor->name), describe(*tensor),
                                storage_->checkpoint->file_name(*tensor)));
  }
  return error("{}: {} tensors belong to no part of the model: {}{}; expected: none left over",
               storage_->checkpoint->folder().string(), left.size(), fmt::join(shown, ", "),
               left.size() > shown.size() ? ", ..." : "");
}

std::string TensorSource::summary_line() const {
  const std::string list = quant_.source.empty() ? "" : fmt::format(" by {}", quant_.source);
  std::string line = fmt::format(
      "{} quantised modules, {} bf16, {} excluded{}; {} tensors, {}, {} skipped by name", summary_.quantised_modules,
      summary_.bf16_modules, summary_.excluded_modules, list, summary_.taken_tensors,
      // An index names tensors without their sizes.
      summary_.taken_bytes > 0 ? fmt::format("{:.1f} MiB", static_cast<double>(summary_.taken_bytes) / (1 << 20))
                               : std::string("of which only the names are known"),
      summary_.skipped_tensors);
  if (summary_.note_count > 0) {
    line += fmt::format("; {} modules are not as {} says", summary_.note_count, quant_.source);
  }
  return line;
}

}  // namespace strobe
