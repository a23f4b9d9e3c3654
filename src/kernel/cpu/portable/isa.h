// The native vector of plain x86-64 and of any other machine: 4 lanes. No fused multiply-add, so none is used.
#pragma once

#include <cstdint>

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

inline constexpr int kNativeLanes = 4;
using NativeF32 [[gnu::vector_size(16)]] = float;

[[gnu::always_inline]] static inline NativeF32 native_fma(NativeF32 a, NativeF32 b, NativeF32 c) {
  return a * b + c;
}

// a where it is larger (smaller), else b.
[[gnu::always_inline]] static inline NativeF32 native_max(NativeF32 a, NativeF32 b) {
  return a > b ? a : b;
}
[[gnu::always_inline]] static inline NativeF32 native_min(NativeF32 a, NativeF32 b) {
  return a < b ? a : b;
}

// The same vector, which the compiler must hold in a register: it does not read it from memory again for each use.
[[gnu::always_inline]] static inline NativeF32 native_in_register(NativeF32 a) {
  return a;
}
[[gnu::always_inline]] static inline NativeF32 native_splat(float x) {
  return NativeF32{x, x, x, x};
}

// Entry codes[lane] & 15 of the 4-bit floats {0, .5, 1, 1.5, 2, 3, 4, 6, -0, -.5, ...}, by arithmetic: there is no
// table lookup in the baseline. Exponent 0 means m / 2, which is 2 (1 + m / 2) / 2 - 1.
using NativeU32 [[gnu::vector_size(16)]] = uint32_t;
[[gnu::always_inline]] static inline NativeF32 native_e2m1(NativeU32 codes) {
  const NativeU32 magnitude = codes & 7U;
  const auto value = (NativeF32)((magnitude << 22) + (126U << 23));
  const auto small = (NativeU32)(magnitude < 2U);
  const NativeF32 fixed = value + value - 1.0F;
  return (NativeF32)(((NativeU32)fixed & small) | ((NativeU32)value & ~small) | (codes & 8U) << 28);
}

[[gnu::always_inline]] static inline bool native_any(NativeU32 bits) {
  return (bits[0] | bits[1] | bits[2] | bits[3]) != 0;
}
// A bit a lane of a mask.
[[gnu::always_inline]] static inline uint32_t native_lanes(NativeU32 mask) {
  return (mask[0] & 1) | (mask[1] & 2) | (mask[2] & 4) | (mask[3] & 8);
}

// Between lanes and the 16 or 8 bits of memory that each is.
using NativeU16 [[gnu::vector_size(8)]] = uint16_t;
using NativeU8 [[gnu::vector_size(4)]] = uint8_t;
[[gnu::always_inline]] static inline NativeU32 native_load_u16(const void* p) {
  NativeU16 halves;
  __builtin_memcpy(&halves, p, sizeof halves);
  return __builtin_convertvector(halves, NativeU32);
}
[[gnu::always_inline]] static inline NativeU32 native_load_u8(const void* p) {
  NativeU8 bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  return __builtin_convertvector(bytes, NativeU32);
}
[[gnu::always_inline]] static inline void native_store_u16(void* p, NativeU32 a) {
  const NativeU16 halves = __builtin_convertvector(a, NativeU16);
  __builtin_memcpy(p, &halves, sizeof halves);
}
[[gnu::always_inline]] static inline void native_store_u8(void* p, NativeU32 a) {
  const NativeU8 bytes = __builtin_convertvector(a, NativeU8);
  __builtin_memcpy(p, &bytes, sizeof bytes);
}

// No half precision: simd.h computes e4m3 by arithmetic.
inline constexpr bool kNativeHalves = false;
[[gnu::always_inline]] static inline NativeF32 native_load_e4m3(const void*) {
  return NativeF32{};
}

// Rows x tiles that a product keeps in registers at once (16 registers, 4 of them a tile's worth of sums).
inline constexpr int kGemmRows = 2;
inline constexpr int kGemmTilesOneRow = 2;
inline constexpr int kGemmTilesManyRows = 1;

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
