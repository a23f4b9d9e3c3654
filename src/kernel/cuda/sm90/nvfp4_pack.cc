#include "kernel/cuda/sm90/nvfp4_pack.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "kernel/cuda/sm90/nvfp4_layout.h"

namespace strobe::kernel::cuda {
namespace {

constexpr int64_t kGroup = 16;
constexpr int64_t kRowsPerHalf = 32;

// word |= kPlaced[column in the word][code]
using PlacedCodes = std::array<std::array<uint32_t, 16>, 8>;

constexpr PlacedCodes place_codes() {
  PlacedCodes placed{};
  for (size_t column = 0; column < 8; ++column) {
    const Nvfp4PairBits& pair = kNvfp4PairBits[column / 2];
    const bool odd = column % 2 == 1;
    for (uint32_t code = 0; code < 16; ++code) {
      uint32_t word = (code >> 3U) << (odd ? pair.odd_sign : pair.even_sign);
      for (uint32_t bit = 0; bit < 3; ++bit) word |= (code >> bit & 1U) << (odd ? pair.odd[bit] : pair.even[bit]);
      placed[column][code] = word;
    }
  }
  return placed;
}
constexpr PlacedCodes kPlaced = place_codes();

struct PackedScale {
  uint8_t bits = 0;
  bool negative = false;
  bool zero = false;
};

PackedScale pack_scale(E4m3 scale) {
  const uint32_t exponent = scale.bits >> 3U & 15U;
  const uint32_t mantissa = scale.bits & 7U;
  PackedScale packed{.negative = scale.bits >= 128};
  if (exponent == 15 && mantissa == 7) {
    packed.bits = 0xff;
  } else if (exponent > 0) {
    packed.bits = static_cast<uint8_t>((exponent - 7 + kNvfp4ScaleExponentBias) << 3U | mantissa);
  } else if (mantissa > 0) {  // mantissa * 2^-9
    const auto top = static_cast<uint32_t>(std::bit_width(mantissa)) - 1;
    packed.bits = static_cast<uint8_t>((top - 9 + kNvfp4ScaleExponentBias) << 3U | (mantissa << (3 - top) & 7U));
  } else {
    packed.zero = true;
  }
  return packed;
}

// 16 codes of one row into two words of one lane, their scale into one byte.
void pack_group(const QuantTensor& w, int64_t row, int64_t group, uint8_t* words, uint8_t* scale_to) {
  const PackedScale scale = pack_scale(static_cast<const E4m3*>(w.scales)[row * (w.in / kGroup) + group]);
  const uint8_t* codes = static_cast<const uint8_t*>(w.data) + (row * w.in + group * kGroup) / 2;
  const uint32_t flip = scale.negative ? 0x88U : 0;
  const uint32_t keep = scale.zero ? 0 : 0xffU;
  for (int64_t word = 0; word < 2; ++word) {
    uint32_t bits = 0;
    for (size_t pair = 0; pair < 4; ++pair) {
      const uint32_t two = (codes[word * 4 + static_cast<int64_t>(pair)] ^ flip) & keep;
      bits |= kPlaced[2 * pair][two & 15U] | kPlaced[2 * pair + 1][two >> 4U];
    }
    std::memcpy(words + 4 * word, &bits, 4);
  }
  *scale_to = scale.bits;
}

// 32 rows of a weight into one half of every block of a tile.
void pack_half(const QuantTensor& w, int64_t first_row, int64_t half, uint8_t* tile) {
  for (int64_t block = 0; block < w.in / kNvfp4BlockColumns; ++block) {
    uint8_t* codes = tile + block * kNvfp4BlockBytes + half * (kNvfp4BlockCodeBytes / 2);
    uint8_t* scales = tile + block * kNvfp4BlockBytes + kNvfp4BlockCodeBytes + half * 128;
    for (int64_t row = 0; row < kRowsPerHalf; ++row) {
      for (int64_t t = 0; t < 4; ++t) {
        const int64_t fragment = row / 16;
        const int64_t upper = row / 8 % 2;
        const int64_t lane = row % 8 * 4 + t;
        pack_group(w, first_row + row, block * 4 + t, codes + fragment * 512 + lane * 16 + upper * 8,
                   scales + lane * 4 + fragment * 2 + upper);
      }
    }
  }
}

void check_weight(const QuantTensor& w) {
  STROBE_CHECK(w.format == WeightFormat::kNvfp4, "{}", to_string(w.format));
  STROBE_CHECK(w.in % kNvfp4BlockColumns == 0, "in {}, expected a multiple of 64", w.in);
}

}  // namespace

int64_t nvfp4_packed_bytes(int64_t out, int64_t in) {
  return out / kNvfp4TileRows * (in / kNvfp4BlockColumns) * kNvfp4BlockBytes;
}

void pack_nvfp4(const QuantTensor& weight, int64_t tile_begin, int64_t tile_end, uint8_t* to) {
  check_weight(weight);
  STROBE_CHECK(weight.out % kNvfp4TileRows == 0, "out {}, expected a multiple of 64", weight.out);
  for (int64_t i = tile_begin; i < tile_end; ++i) {
    uint8_t* tile = to + i * nvfp4_packed_bytes(kNvfp4TileRows, weight.in);
    pack_half(weight, i * kNvfp4TileRows, 0, tile);
    pack_half(weight, i * kNvfp4TileRows + kRowsPerHalf, 1, tile);
  }
}

void pack_nvfp4_gate_up(const QuantTensor& gate, const QuantTensor& up, int64_t tile_begin, int64_t tile_end,
                        uint8_t* to) {
  check_weight(gate);
  check_weight(up);
  STROBE_CHECK(gate.out == up.out && gate.in == up.in, "[{}, {}] and [{}, {}]", gate.out, gate.in, up.out, up.in);
  STROBE_CHECK(gate.out % kRowsPerHalf == 0, "out {}, expected a multiple of 32", gate.out);
  for (int64_t i = tile_begin; i < tile_end; ++i) {
    uint8_t* tile = to + i * nvfp4_packed_bytes(kNvfp4TileRows, gate.in);
    pack_half(gate, i * kRowsPerHalf, 0, tile);
    pack_half(up, i * kRowsPerHalf, 1, tile);
  }
}

}  // namespace strobe::kernel::cuda
