// Weights as the fast CPU kernels read them: tiles of 16 output rows, so that one vector of 16 lanes holds one column
// (or a pair) of 16 rows, sums need no horizontal adds, and the memory of a tile is one straight stream.
//
// kBf16Tile16: [out/16][in/2][16][2] bf16: 64 bytes hold columns 2p, 2p+1 of 16 rows. This is also the layout of the
// AMX
//   unit's second operand (16 pairs of columns x 16 rows = one 1 KiB tile).
//
// kNvfp4Tile16: [out/16][in/16] groups of 144 bytes: 16 scales (one byte a row), then two halves of 64 bytes.
//   A scale is kept as a magnitude with 5 exponent and 3 mantissa bits (the upper bits of fp16), so that none is
//   subnormal:
//     value = (1 + (byte & 7) / 8) * 2^((byte >> 3) - kScaleExponentBias)
//   (the f32 bits are (byte << 20) + (kScaleExponentOffset << 23), the fp16 bits byte << 7). A negative scale turns the
//   signs of its codes, a zero scale makes its codes 0. Half h holds columns 8h ... 8h+7 as one little-endian 32-bit
//   word a row: the code of column 8h + 2i + c (i < 4, c < 2) is in the four bits from 4i + 16c. So nibble i of the
//   16-bit lanes is the pair (2i, 2i + 1) of all 16 rows in the order of a bf16 tile.
#pragma once

#include "tensor/quant_tensor.h"

namespace strobe::kernel {

inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kNvfp4Group = 16;        // columns that share a scale
inline constexpr int64_t kNvfp4GroupBytes = 144;  // of one tile and group
inline constexpr uint32_t kScaleExponentBias = 15;
inline constexpr uint32_t kScaleExponentOffset =
    127 - kScaleExponentBias;  // added to the exponent field of f32 or bf16

// f32 weights are rounded to bf16, as the activations are.
[[nodiscard]] WeightFormat tiled_format(WeightFormat format);

// Writes `weight` (row-major) in tiled_format into `packed`. Throws Failure where an NVFP4 block scale is NaN.
QuantTensor pack_tiles(const QuantTensor& weight, void* packed);

}  // namespace strobe::kernel
