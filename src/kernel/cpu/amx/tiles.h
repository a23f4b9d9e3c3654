// The tile unit (AMX): eight registers of 16 rows x 64 bytes, and C[16 x 16 f32] += A[16 x 32 bf16] . B[32 x 16 bf16].
//
// What one instruction computes for a row of C does not depend on the other rows, nor on how many rows the registers
// are configured for: the products of even and of odd columns are summed in f32 in two chains of fused multiply-adds
// over the 16 pairs, the two are added, and the sum is added to C. Subnormal inputs and results count as zero.
//
// The wrappers are inline assembly because the compiler's intrinsics take register numbers as macro text, and do not
// say that tile loads read memory.
#pragma once

#include <cstdint>

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

inline constexpr int64_t kTileBytes = 1024;
inline constexpr int64_t kTileStride = 64;   // bytes from one row of a tile to the next, where it lies dense
inline constexpr int64_t kStepColumns = 32;  // of one multiplication

// Registers by role. Two row tiles x two output tiles, or one row tile x up to four:
//   0 1   sums of the first row tile        4  first row tile of x       6 7  weights
//   2 3   sums of the second row tile       5  second row tile of x
struct TileRows {
  int64_t first = 0;
  int64_t second = 0;
};

template <int kRegister>
[[gnu::always_inline]] static inline void tile_zero() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(kRegister));
}
// Rows are `stride` bytes apart.
template <int kRegister>
[[gnu::always_inline]] static inline void tile_load(const void* from, int64_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kRegister) : "memory");
}
template <int kRegister>
[[gnu::always_inline]] static inline void tile_store(void* to, int64_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kRegister) : "memory");
}
// sums += x . weights
template <int kSums, int kX, int kWeights>
[[gnu::always_inline]] static inline void tile_multiply() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kX), "i"(kWeights));
}
// Back to the initial state, so that the operating system need not save 8 KiB of registers.
[[gnu::always_inline]] static inline void release_tiles() {
  __asm__ volatile("tilerelease");
}

// Sets the number of rows of both row tiles, and zeroes all registers. The weights always have 16 rows.
static inline void configure_tiles(TileRows rows) {
  struct alignas(64) Config {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };
  Config config = {.palette = 1};
  for (int i = 0; i < 8; ++i) config.row_bytes[i] = kTileStride;
  const auto first = static_cast<uint8_t>(rows.first);
  const auto second = static_cast<uint8_t>(rows.second);
  const uint8_t by_register[8] = {first, first, second, second, first, second, 16, 16};
  __builtin_memcpy(config.rows, by_register, sizeof by_register);
  __asm__ volatile("ldtilecfg %0" : : "m"(config));
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
