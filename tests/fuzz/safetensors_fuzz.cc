// Any bytes as a safetensors file: parsed in memory, and when that succeeds opened as a checkpoint whose tensors are
// all taken, so that every byte a header may point to is read.
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "base/check.h"
#include "load/safetensors_writer.h"
#include "load/tensor_source.h"

namespace {

using namespace strobe;

const std::filesystem::path& folder() {
  static const strobe::testing::TempFolder temporary;
  return temporary.path();
}

uint64_t sum_bytes(const void* data, int64_t bytes) {
  uint64_t sum = 0;
  for (const uint8_t byte : std::span(static_cast<const uint8_t*>(data), static_cast<size_t>(bytes))) sum += byte;
  return sum;
}

uint64_t take_all(TensorSource& source, const std::vector<StoredTensor>& tensors) {
  uint64_t sum = 0;
  for (const StoredTensor& tensor : tensors) {
    const std::string name = plain_name(tensor.name);
    Shape shape;
    if (tensor.shape.size() > Shape::kMaxRank) continue;
    for (const int64_t dim : tensor.shape) shape.append(dim);
    constexpr std::string_view kWeight = ".weight";
    if (shape.rank() == 2 && std::string_view(name).ends_with(kWeight)) {
      const int64_t in = tensor.dtype == FileDType::kU8 && shape[1] < (int64_t{1} << 62) ? shape[1] * 2 : shape[1];
      const auto matrix = source.take_matrix(name.substr(0, name.size() - kWeight.size()), shape[0], in);
      if (!matrix.ok()) continue;
      sum += sum_bytes(matrix->data, tensor.bytes);
      if (matrix->scales != nullptr) sum += sum_bytes(matrix->scales, matrix->out * matrix->in / 16);
    } else if (const auto wide = source.take_f32(name, shape); wide.ok()) {
      sum += sum_bytes(wide->data(), wide->bytes());
    } else if (const auto kept = source.take(name, {DType::kU8, DType::kE4m3, DType::kI32, DType::kI64}, shape);
               kept.ok()) {
      sum += sum_bytes(kept->data(), kept->bytes());
    }
  }
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tensors = SafetensorsFile::parse(std::as_bytes(std::span(data, size)), "input");
  if (!tensors.ok()) {
    STROBE_CHECK(!tensors.message().empty());
    return 0;
  }
  uint64_t sum = 0;
  for (const StoredTensor& tensor : *tensors) sum += sum_bytes(tensor.data, tensor.bytes);

  std::ofstream(folder() / "model.safetensors", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  Result<Checkpoint> checkpoint = Checkpoint::open(folder());
  STROBE_CHECK(checkpoint.ok(), "{}", checkpoint.message());
  STROBE_CHECK(checkpoint->tensor_count() == static_cast<int64_t>(tensors->size()));
  ModelConfig config;
  config.wrapper_type = "kimi_k25";
  QuantConfig quant;
  quant.algo = QuantAlgo::kNvfp4;
  Result<TensorSource> source =
      TensorSource::open(std::make_shared<const Checkpoint>(std::move(*checkpoint)), target_name_rules(config), quant);
  if (!source.ok()) return 0;
  sum += take_all(*source, *tensors);
  static_cast<void>(source->take_kv_scales("model.layers.0.self_attn"));
  static_cast<void>(source->finish());
  static_cast<void>(source->summary_line());
  return sum == 1 ? -1 : 0;  // -1: of no interest to the corpus; the sum must be computed
}
