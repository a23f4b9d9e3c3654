#include "tensor/quant_tensor.h"

namespace strobe {
namespace {

constexpr int64_t kTileRows = 16;
constexpr int64_t kGroup = 16;  // columns that share an NVFP4 block scale

int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

std::string_view to_string(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "f32";
    case WeightFormat::kBf16:
      return "bf16";
    case WeightFormat::kNvfp4:
      return "nvfp4";
    case WeightFormat::kBf16Tile16:
      return "bf16_tile16";
    case WeightFormat::kNvfp4Tile16:
      return "nvfp4_tile16";
  }
  return "?";
}

QuantTensor QuantTensor::rows(int64_t begin, int64_t end) const {
  STROBE_CHECK(begin >= 0 && begin <= end && end <= out, "rows [{}, {}) of {}", begin, end, out);
  QuantTensor part = *this;
  part.out = end - begin;
  const auto* bytes = static_cast<const std::byte*>(data);
  switch (format) {
    case WeightFormat::kF32:
      part.data = bytes + begin * in * 4;
      break;
    case WeightFormat::kBf16:
      part.data = bytes + begin * in * 2;
      break;
    case WeightFormat::kNvfp4:
      part.data = bytes + begin * in / 2;
      part.scales = static_cast<const std::byte*>(scales) + begin * in / kGroup;
      break;
    default:
      check_failed(__FILE__, __LINE__, "format is row-major", to_string(format));
  }
  return part;
}

int64_t weight_bytes(WeightFormat format, int64_t out, int64_t in) {
  switch (format) {
    case WeightFormat::kF32:
      return out * in * 4;
    case WeightFormat::kBf16:
      return out * in * 2;
    case WeightFormat::kNvfp4:
      return out * in / 2 + out * in / kGroup;
    case WeightFormat::kBf16Tile16:
      return round_up(out, kTileRows) * round_up(in, 2) * 2;
    case WeightFormat::kNvfp4Tile16:
      return round_up(out, kTileRows) * (in / 2 + in / kGroup);
  }
  return 0;
}

}  // namespace strobe
