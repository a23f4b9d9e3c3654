#include "kernel/cpu/pack.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/failure.h"

namespace strobe::kernel {
namespace {

// get(row, column) -> Bf16
template <class Get>
void pack_bf16(const QuantTensor& weight, Bf16* to, const Get& get) {
  for (int64_t tile = 0; tile < weight.out; tile += kTileRows) {
    for (int64_t column = 0; column < weight.in; column += 2) {
      for (int64_t r = tile; r < tile + kTileRows; ++r) {
        *to++ = r < weight.out ? get(r, column) : Bf16{};
        *to++ = r < weight.out && column + 1 < weight.in ? get(r, column + 1) : Bf16{};
      }
    }
  }
}

// An e4m3 magnitude in the tile's form; not for zero and NaN.
uint8_t tile_scale(uint8_t e4m3) {
  const uint32_t bits = std::bit_cast<uint32_t>(to_float(E4m3{static_cast<uint8_t>(e4m3 & 0x7fU)}));
  return static_cast<uint8_t>((bits >> 20) - (kScaleExponentOffset << 3));
}

// One row's 16 columns of one group: its scale, and its two words.
void pack_nvfp4_row(const uint8_t* codes, uint8_t scale, int64_t lane, uint8_t* group) {
  if ((scale & 0x7fU) == 0) return;
  group[lane] = tile_scale(scale);
  const uint32_t turn = (scale & 0x80U) >> 4U;
  for (uint32_t half = 0; half < 2; ++half) {
    uint32_t word = 0;
    for (uint32_t column = 0; column < 8; ++column) {
      const uint32_t code = codes[half * 4 + column / 2] >> (4 * (column % 2)) & 15U;  // low nibble = even column
      word |= (code ^ turn) << (4 * (column / 2) + 16 * (column % 2));
    }
    std::memcpy(group + kTileRows + half * 64 + lane * 4, &word, sizeof word);
  }
}

void pack_nvfp4(const QuantTensor& weight, uint8_t* to) {
  const auto* codes = static_cast<const uint8_t*>(weight.data);
  const auto* scales = static_cast<const uint8_t*>(weight.scales);
  const int64_t groups = weight.in / kNvfp4Group;
  for (int64_t tile = 0; tile < weight.out; tile += kTileRows) {
    for (int64_t group = 0; group < groups; ++group, to += kNvfp4GroupBytes) {
      std::memset(to, 0, kNvfp4GroupBytes);
      for (int64_t lane = 0; lane < kTileRows && tile + lane < weight.out; ++lane) {
        const int64_t block = (tile + lane) * groups + group;
        if ((scales[block] & 0x7fU) == 0x7f) fail("NVFP4 block scale of row {}, group {} is NaN", tile + lane, group);
        pack_nvfp4_row(codes + block * kNvfp4Group / 2, scales[block], lane, to);
      }
    }
  }
}

}  // namespace

WeightFormat tiled_format(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kBf16:
      return WeightFormat::kBf16Tile16;
    case WeightFormat::kNvfp4:
      return WeightFormat::kNvfp4Tile16;
    default:
      return format;
  }
}

QuantTensor pack_tiles(const QuantTensor& weight, void* packed) {
  QuantTensor result = weight;
  result.format = tiled_format(weight.format);
  result.data = packed;
  result.scales = nullptr;
  const int64_t in = weight.in;
  switch (weight.format) {
    case WeightFormat::kF32: {
      const auto* from = static_cast<const float*>(weight.data);
      pack_bf16(weight, static_cast<Bf16*>(packed), [&](int64_t r, int64_t c) { return to_bf16(from[r * in + c]); });
      break;
    }
    case WeightFormat::kBf16: {
      const auto* from = static_cast<const Bf16*>(weight.data);
      pack_bf16(weight, static_cast<Bf16*>(packed), [&](int64_t r, int64_t c) { return from[r * in + c]; });
      break;
    }
    case WeightFormat::kNvfp4:
      STROBE_CHECK(in % kNvfp4Group == 0, "in = {}", in);
      pack_nvfp4(weight, static_cast<uint8_t*>(packed));
      break;
    default:
      check_failed(__FILE__, __LINE__, "weight is row-major", to_string(weight.format));
  }
  return result;
}

}  // namespace strobe::kernel
