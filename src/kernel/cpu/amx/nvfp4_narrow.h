// NVFP4 weights on their way through the tile unit where there are at most 16 rows of x: a step (32 columns) of up to
// four output tiles is expanded while the step before is multiplied. Tile registers as in tiles.h, but sums in 0 to 3.
#pragma once

#include "kernel/cpu/amx/nvfp4.h"
#include "kernel/cpu/amx/tiles.h"
#include "kernel/cpu/generic/ahead.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

// One step of kTiles tiles: sums += x . weights, the weights dense and one after the other.
template <int kTiles, int kTile = 0>
[[gnu::always_inline]] static inline void multiply_expanded(const std::byte* x, int64_t x_row,
                                                            const std::byte* weights) {
  if constexpr (kTile == 0) tile_load<4>(x, x_row);
  tile_load<6 + kTile % 2>(weights, kTileStride);
  tile_multiply<kTile, 4, 6 + kTile % 2>();
  if constexpr (kTile + 1 < kTiles) multiply_expanded<kTiles, kTile + 1>(x, x_row, weights + kTileBytes);
}

// One step of kTiles NVFP4 tiles, `tile_bytes` apart, on its way to `to` while the step before is multiplied.
struct ExpandingStep {
  const std::byte* groups = nullptr;
  int64_t tile_bytes = 0;
  int64_t ahead = 0;  // from the groups to what is prefetched
  std::byte* to = nullptr;
  const std::byte* x = nullptr;  // of the step before
  int64_t x_row = 0;
  const std::byte* weights = nullptr;  // of the step before
};

// The tile unit's work is woven into the expansion: the core looks ahead some 500 instructions, and a tile takes about
// 130. All at once behind the expansion it would add up: 58 cycles a tile instead of 48. `later`: three lines a tile,
// one to two cycles.
template <int kTiles, int kTile = 0>
[[gnu::always_inline]] static inline void expand_and_multiply(const Nvfp4Expander& expander, const ExpandingStep& step,
                                                              Ahead& later) {
  const std::byte* first = step.groups + kTile * step.tile_bytes;
  const std::byte* second = first + kNvfp4GroupBytes;
  const std::byte* ahead = first + step.ahead;
  std::byte* to = step.to + kTile * kTileBytes;
  const __m512h first_scales = expander.scales(first), second_scales = expander.scales(second);
  __builtin_prefetch(ahead);
  expander.expand_half(first, 0, first_scales, to);
  if constexpr (kTile == 0) tile_load<4>(step.x, step.x_row);
  tile_load<6 + kTile % 2>(step.weights + kTile * kTileBytes, kTileStride);
  __builtin_prefetch(ahead + 64);
  later.ask();
  expander.expand_half(first, 1, first_scales, to + 256);
  __builtin_prefetch(ahead + 128);
  later.ask();
  expander.expand_half(second, 0, second_scales, to + 512);
  if constexpr (kTile > 0) tile_multiply<kTile - 1, 4, 6 + (kTile - 1) % 2>();
  __builtin_prefetch(ahead + 192);
  __builtin_prefetch(ahead + 256);
  later.ask();
  expander.expand_half(second, 1, second_scales, to + 768);
  if constexpr (kTile + 1 == kTiles) tile_multiply<kTile, 4, 6 + kTile % 2>();
  if constexpr (kTile + 1 < kTiles) expand_and_multiply<kTiles, kTile + 1>(expander, step, later);
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
