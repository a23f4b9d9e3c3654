// How NVFP4 weights lie in memory for the sm_90 mixture-of-experts kernel.
//
// A matrix [out, in] is a row of tiles of 64 output rows, a tile a row of blocks of 64 columns, so that any run of
// blocks of one tile is one contiguous copy. A block is what 64 rows x 64 columns take, 4.5 bits a weight:
//
//   codes   [2 halves of 32 rows][2 fragments of 16 rows][32 lanes][16 bytes]
//   scales  [2 halves of 32 rows][32 lanes][4 bytes]
//
// Lane l of a warp has row g = l / 4 and g + 8 of each fragment and columns 16 t ... 16 t + 15, t = l % 4: those are
// one group of NVFP4, so a lane needs one scale per row. (A matrix product may take its columns in any order, as long
// as the other operand does the same.) The 16 bytes are four words: row g columns 0-7 and 8-15, row g + 8 columns 0-7
// and 8-15. A word holds four pairs of codes. Where their bits lie makes bfloat16 of them cheap: see kNvfp4PairBits.
// The 4 bytes are the scales of rows g, g + 8, g + 16, g + 24 of the half.
//
// A scale is 5 bits of exponent and 3 of mantissa, always normal: 2^(exponent - 22) * (1 + mantissa / 8). Exponent 31
// is NaN. A negative scale turns the signs of its codes; a zero makes them zero.
#pragma once

#include <cstdint>

namespace strobe::kernel::cuda {

inline constexpr int kNvfp4TileRows = 64;
inline constexpr int kNvfp4BlockColumns = 64;
inline constexpr int kNvfp4BlockCodeBytes = 2048;
inline constexpr int kNvfp4BlockBytes = 2304;
inline constexpr int kNvfp4ScaleExponentBias = 22;

// Bit positions of pair p in a word: the magnitude's three bits of the even column begin at `even`, its sign is at
// `even_sign`; likewise the odd column. The kernel brings them to bits 6-8 and 15, 22-24 and 31, which is the code's
// value times 2^-126 as two bfloat16. Pair 3 has its magnitude in two parts: bits 7, 8 in place and bit 6 at 14.
struct Nvfp4PairBits {
  int even[3];  // from the lowest bit of the magnitude
  int even_sign;
  int odd[3];
  int odd_sign;
};
inline constexpr Nvfp4PairBits kNvfp4PairBits[4] = {
    {{0, 1, 2}, 9, {16, 17, 18}, 25},     // << 6
    {{4, 5, 6}, 13, {20, 21, 22}, 29},    // << 2
    {{10, 11, 12}, 19, {26, 27, 28}, 3},  // rotated right by 4
    {{14, 7, 8}, 15, {30, 23, 24}, 31},   // in place, but for the lowest bit: >> 8
};

// Values come out of the matrix product times 2^-7: (code * 2^-126) * (scale * 2^119).
inline constexpr float kNvfp4SumFactor = 128.0F;

}  // namespace strobe::kernel::cuda
