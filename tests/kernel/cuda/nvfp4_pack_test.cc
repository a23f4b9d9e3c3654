// The repacking of NVFP4 weights for sm_90: decoded again from the layout's definition. Needs no GPU.
#include "kernel/cuda/sm90/nvfp4_pack.h"

#include <cmath>
#include <cstring>

#include "harness.h"
#include "kernel/cuda/sm90/nvfp4_layout.h"

namespace strobe::kernel::cuda {
namespace {

// What the packed matrix of `in` columns says about one weight, read as nvfp4_layout.h describes it.
double packed_value(const std::vector<uint8_t>& packed, int64_t in, int64_t row, int64_t column) {
  const int64_t block = row / 64 * (in / 64) + column / 64;
  const int64_t half = row % 64 / 32;
  const int64_t fragment = row % 32 / 16;
  const int64_t lane = row % 8 * 4 + column % 64 / 16;
  const int64_t upper = row % 16 / 8;
  const int64_t word = upper * 2 + column % 16 / 8;
  const uint8_t* start = packed.data() + block * 2304;
  uint32_t bits = 0;
  std::memcpy(&bits, start + half * 1024 + fragment * 512 + lane * 16 + word * 4, 4);
  const uint8_t scale = start[2048 + half * 128 + lane * 4 + fragment * 2 + upper];

  const Nvfp4PairBits& pair = kNvfp4PairBits[column % 8 / 2];
  const auto bit = [&](int position) { return static_cast<int>(bits >> position & 1U); };
  const bool odd = column % 2 == 1;
  const int* magnitude = odd ? pair.odd : pair.even;
  const int code = bit(magnitude[0]) | bit(magnitude[1]) << 1 | bit(magnitude[2]) << 2;
  constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const double factor = scale >> 3 == 31 ? std::nan("") : std::ldexp(8 + (scale & 7), (scale >> 3) - 22 - 3);
  return (bit(odd ? pair.odd_sign : pair.even_sign) == 1 ? -1 : 1) * kMagnitudes[code] * factor;
}

void expect_same(double packed, double expected, int64_t row, int64_t column) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(packed)) << row << ", " << column;
  } else {
    EXPECT_EQ(packed, expected) << row << ", " << column;
  }
}

// Every e4m3 code as a scale, zeros, negative ones and NaN included.
Weight every_scale(int64_t out, int64_t in, uint64_t seed) {
  Random random(seed);
  Weight weight(WeightFormat::kNvfp4, out, in, random);
  weight.global_scale = 1;
  for (size_t i = 0; i < weight.scales.size(); ++i) weight.scales[i] = static_cast<uint8_t>(i * 37 + seed);
  return weight;
}

TEST(Nvfp4Pack, HoldsEveryWeight) {
  for (const auto& [out, in] : {std::pair<int64_t, int64_t>{64, 64}, {128, 192}, {192, 512}}) {
    const Weight weight = every_scale(out, in, static_cast<uint64_t>(out));
    std::vector<uint8_t> packed(static_cast<size_t>(nvfp4_packed_bytes(out, in)), 0x5a);
    EXPECT_EQ(packed.size(), static_cast<size_t>(out * in * 9 / 16));
    pack_nvfp4(weight.tensor(), 0, out / 64, packed.data());
    for (int64_t r = 0; r < out; ++r) {
      for (int64_t c = 0; c < in; ++c) expect_same(packed_value(packed, in, r, c), weight.at(r, c), r, c);
    }
  }
}

TEST(Nvfp4Pack, InterleavesGateAndUp) {
  const Weight gate = every_scale(96, 128, 1);
  const Weight up = every_scale(96, 128, 2);
  std::vector<uint8_t> packed(static_cast<size_t>(nvfp4_packed_bytes(192, 128)), 0x5a);
  pack_nvfp4_gate_up(gate.tensor(), up.tensor(), 0, 3, packed.data());
  for (int64_t r = 0; r < 96; ++r) {
    for (int64_t c = 0; c < 128; ++c) {
      const int64_t gate_row = r / 32 * 64 + r % 32;
      expect_same(packed_value(packed, 128, gate_row, c), gate.at(r, c), r, c);
      expect_same(packed_value(packed, 128, gate_row + 32, c), up.at(r, c), r, c);
    }
  }
}

TEST(Nvfp4Pack, TilesCanBePackedApart) {
  const Weight weight = every_scale(256, 128, 3);
  const auto bytes = static_cast<size_t>(nvfp4_packed_bytes(256, 128));
  std::vector<uint8_t> whole(bytes);
  std::vector<uint8_t> parts(bytes, 0x5a);
  pack_nvfp4(weight.tensor(), 0, 4, whole.data());
  pack_nvfp4(weight.tensor(), 3, 4, parts.data());
  pack_nvfp4(weight.tensor(), 0, 1, parts.data());
  pack_nvfp4(weight.tensor(), 1, 3, parts.data());
  EXPECT_EQ(whole, parts);
}

}  // namespace
}  // namespace strobe::kernel::cuda
