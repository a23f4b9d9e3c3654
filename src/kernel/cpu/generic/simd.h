// Sixteen numbers at a time, whatever the machine: F32x16 is 4, 2 or 1 native vectors. The number of lanes is part of
// the algorithms (it fixes the order of sums), the native width is not.
//
// Included by files that are compiled once per instruction set. Whatever such a file defines must be invisible to the
// other builds of the program, or the linker could keep, say, an AVX512 copy of an inline function for everybody:
// - everything here is in the instruction set's namespace, static and always inlined;
// - these files call no function of the standard library and no inline function of other rooms;
// - tests/kernel/isa_symbols checks the objects: they define no symbol that a linker may merge.
#pragma once

#include <cstdint>

#include "isa.h"
#include "tensor/dtype.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

inline constexpr int kLanes = 16;
inline constexpr int kParts = kLanes / kNativeLanes;

using NativeI32 [[gnu::vector_size(kNativeLanes * 4)]] = int32_t;

// Bit patterns, and masks as comparisons give them: all ones or all zeros a lane.
struct U32x16 {
  NativeU32 part[kParts];
};

struct F32x16 {
  NativeF32 part[kParts];
};

[[gnu::always_inline]] static inline F32x16 splat(float x) {
  F32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = native_splat(x);
  return r;
}
[[gnu::always_inline]] static inline F32x16 in_register(F32x16 a) {
  for (int i = 0; i < kParts; ++i) a.part[i] = native_in_register(a.part[i]);
  return a;
}
[[gnu::always_inline]] static inline U32x16 splat_u32(uint32_t x) {
  U32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = NativeU32{} + x;
  return r;
}

[[gnu::always_inline]] static inline F32x16 operator+(F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = a.part[i] + b.part[i];
  return a;
}
[[gnu::always_inline]] static inline F32x16 operator-(F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = a.part[i] - b.part[i];
  return a;
}
[[gnu::always_inline]] static inline F32x16 operator-(F32x16 a) {
  for (int i = 0; i < kParts; ++i) a.part[i] = -a.part[i];
  return a;
}
[[gnu::always_inline]] static inline F32x16 operator*(F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = a.part[i] * b.part[i];
  return a;
}
[[gnu::always_inline]] static inline F32x16 operator/(F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = a.part[i] / b.part[i];
  return a;
}
// a * b + c, rounded once where the machine can (portable: twice). Never left to the compiler's choice.
[[gnu::always_inline]] static inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  for (int i = 0; i < kParts; ++i) a.part[i] = native_fma(a.part[i], b.part[i], c.part[i]);
  return a;
}

[[gnu::always_inline]] static inline U32x16 operator&(U32x16 a, U32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = a.part[i] & b.part[i];
  return a;
}
[[gnu::always_inline]] static inline U32x16 operator|(U32x16 a, U32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = a.part[i] | b.part[i];
  return a;
}
[[gnu::always_inline]] static inline U32x16 operator+(U32x16 a, U32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = a.part[i] + b.part[i];
  return a;
}
[[gnu::always_inline]] static inline U32x16 operator-(U32x16 a, U32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = a.part[i] - b.part[i];
  return a;
}
[[gnu::always_inline]] static inline U32x16 operator<<(U32x16 a, int bits) {
  for (int i = 0; i < kParts; ++i) a.part[i] = a.part[i] << bits;
  return a;
}
[[gnu::always_inline]] static inline U32x16 operator>>(U32x16 a, int bits) {
  for (int i = 0; i < kParts; ++i) a.part[i] = a.part[i] >> bits;
  return a;
}

[[gnu::always_inline]] static inline U32x16 bits_of(F32x16 a) {
  U32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = (NativeU32)a.part[i];
  return r;
}
[[gnu::always_inline]] static inline F32x16 from_bits(U32x16 a) {
  F32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = (NativeF32)a.part[i];
  return r;
}

// Comparisons with NaN are false.
[[gnu::always_inline]] static inline U32x16 operator<(F32x16 a, F32x16 b) {
  U32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = (NativeU32)(a.part[i] < b.part[i]);
  return r;
}
[[gnu::always_inline]] static inline U32x16 operator<=(F32x16 a, F32x16 b) {
  U32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = (NativeU32)(a.part[i] <= b.part[i]);
  return r;
}
[[gnu::always_inline]] static inline U32x16 operator==(F32x16 a, F32x16 b) {
  U32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = (NativeU32)(a.part[i] == b.part[i]);
  return r;
}
[[gnu::always_inline]] static inline U32x16 operator<(U32x16 a, U32x16 b) {
  U32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = (NativeU32)(a.part[i] < b.part[i]);
  return r;
}
[[gnu::always_inline]] static inline U32x16 operator==(U32x16 a, U32x16 b) {
  U32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = (NativeU32)(a.part[i] == b.part[i]);
  return r;
}
// mask ? a : b
[[gnu::always_inline]] static inline F32x16 select(U32x16 mask, F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = (NativeI32)mask.part[i] != 0 ? a.part[i] : b.part[i];
  return a;
}
[[gnu::always_inline]] static inline U32x16 select(U32x16 mask, U32x16 a, U32x16 b) {
  return bits_of(select(mask, from_bits(a), from_bits(b)));
}
// a where it is larger, else b: a NaN in `a` loses, one in `b` stays.
[[gnu::always_inline]] static inline F32x16 larger(F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = native_max(a.part[i], b.part[i]);
  return a;
}
// The same with the smaller one.
[[gnu::always_inline]] static inline F32x16 smaller(F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = native_min(a.part[i], b.part[i]);
  return a;
}

// Lane i of a permuted vector comes from lane order(i), a function of the lane alone. A constant: of an order that is
// set lane after lane GCC makes none, but as many instructions.
template <class F>
[[gnu::always_inline]] static inline NativeI32 lane_order(F) {
  struct Lanes {
    int32_t from[kNativeLanes];
  };
  constexpr Lanes kLanesInOrder = [] {
    Lanes lanes{};
    for (int lane = 0; lane < kNativeLanes; ++lane) lanes.from[lane] = F()(lane);
    return lanes;
  }();
  NativeI32 order;
  __builtin_memcpy(&order, &kLanesInOrder, sizeof order);
  return order;
}

// Sums and maxima over the lanes, in a fixed tree: parts first, then halves of a native vector.
template <int kDistance>
[[gnu::always_inline]] static inline NativeF32 swap_halves(NativeF32 v) {
  return __builtin_shuffle(v, lane_order([](int lane) { return lane ^ kDistance; }));
}
template <int kDistance = kNativeLanes / 2>
[[gnu::always_inline]] static inline float sum_native(NativeF32 v) {
  v = v + swap_halves<kDistance>(v);
  if constexpr (kDistance > 1) return sum_native<kDistance / 2>(v);
  return v[0];
}
template <int kDistance = kNativeLanes / 2>
[[gnu::always_inline]] static inline float max_native(NativeF32 v) {
  v = native_max(v, swap_halves<kDistance>(v));
  if constexpr (kDistance > 1) return max_native<kDistance / 2>(v);
  return v[0];
}
[[gnu::always_inline]] static inline F32x16 swap_neighbours(F32x16 a) {
  for (int i = 0; i < kParts; ++i) a.part[i] = swap_halves<1>(a.part[i]);
  return a;
}
// Each of the first (kHalf 0) or last 8 lanes twice.
template <int kHalf>
[[gnu::always_inline]] static inline F32x16 in_pairs(F32x16 a) {
  F32x16 r;
  for (int i = 0; i < kParts; ++i) {
    const int half = kHalf * kParts + i;  // of a native vector
    const NativeI32 order = half % 2 == 0 ? lane_order([](int lane) { return lane / 2; })
                                          : lane_order([](int lane) { return kNativeLanes / 2 + lane / 2; });
    r.part[i] = __builtin_shuffle(a.part[half / 2], order);
  }
  return r;
}
[[gnu::always_inline]] static inline float sum_lanes(F32x16 a) {
  for (int width = kParts / 2; width >= 1; width /= 2) {
    for (int i = 0; i < width; ++i) a.part[i] = a.part[i] + a.part[i + width];
  }
  return sum_native(a.part[0]);
}
// to[i] = sum_lanes(v[i]), the same tree for all together where a vector is 16 lanes: 3 operations a sum instead of 9.
template <int kSegment, class V>
[[gnu::always_inline]] static inline V add_segments(V a, V b) {
  NativeI32 low, high;
  for (int lane = 0; lane < kNativeLanes; ++lane) {
    const int segments = kNativeLanes / 2 / kSegment;  // of each of the two
    const int segment = lane / kSegment;
    low[lane] = segment / segments * kNativeLanes + segment % segments * 2 * kSegment + lane % kSegment;
    high[lane] = low[lane] + kSegment;
  }
  return __builtin_shuffle(a, b, low) + __builtin_shuffle(a, b, high);
}
template <int kCount>
[[gnu::always_inline]] static inline void sums_of_lanes(const F32x16 (&v)[kCount], float* to) {
  if constexpr (kNativeLanes == 16 && kCount == 16) {
    NativeF32 n[16];
    for (int i = 0; i < 16; ++i) n[i] = v[i].part[0];
    for (int i = 0; i < 8; ++i) n[i] = add_segments<8>(n[2 * i], n[2 * i + 1]);
    for (int i = 0; i < 4; ++i) n[i] = add_segments<4>(n[2 * i], n[2 * i + 1]);
    for (int i = 0; i < 2; ++i) n[i] = add_segments<2>(n[2 * i], n[2 * i + 1]);
    n[0] = add_segments<1>(n[0], n[1]);
    __builtin_memcpy(to, &n[0], sizeof n[0]);
  } else {
    for (int i = 0; i < kCount; ++i) to[i] = sum_lanes(v[i]);
  }
}
// NaN in any lane may or may not win: callers keep NaN out.
[[gnu::always_inline]] static inline float max_lanes(F32x16 a) {
  for (int width = kParts / 2; width >= 1; width /= 2) {
    for (int i = 0; i < width; ++i) a.part[i] = native_max(a.part[i], a.part[i + width]);
  }
  return max_native(a.part[0]);
}
[[gnu::always_inline]] static inline bool any(U32x16 mask) {
  NativeU32 v = mask.part[0];
  for (int i = 1; i < kParts; ++i) v = v | mask.part[i];
  return native_any(v);
}

// The first lane of a mask that has some.
[[gnu::always_inline]] static inline int first_lane(U32x16 mask) {
  uint32_t lanes = 0;
  for (int i = 0; i < kParts; ++i) lanes |= native_lanes(mask.part[i]) << (i * kNativeLanes);
  return __builtin_ctz(lanes);
}

// Loads and stores need no alignment.
[[gnu::always_inline]] static inline F32x16 load(const float* p) {
  F32x16 r;
  __builtin_memcpy(&r, p, sizeof r);
  return r;
}
[[gnu::always_inline]] static inline void store(float* p, F32x16 a) {
  __builtin_memcpy(p, &a, sizeof a);
}
[[gnu::always_inline]] static inline U32x16 load_u32(const void* p) {
  U32x16 r;
  __builtin_memcpy(&r, p, sizeof r);
  return r;
}
alignas(64) static constexpr uint32_t kLaneNumbers[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
[[gnu::always_inline]] static inline U32x16 lane_numbers() {
  return load_u32(kLaneNumbers);
}
// 16 bytes, one a lane.
[[gnu::always_inline]] static inline U32x16 load_u8(const void* p) {
  U32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = native_load_u8(static_cast<const uint8_t*>(p) + i * kNativeLanes);
  return r;
}
[[gnu::always_inline]] static inline void store_u8(void* p, U32x16 a) {
  for (int i = 0; i < kParts; ++i) native_store_u8(static_cast<uint8_t*>(p) + i * kNativeLanes, a.part[i]);
}
[[gnu::always_inline]] static inline F32x16 load(const Bf16* p) {
  U32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = native_load_u16(p + i * kNativeLanes);
  return from_bits(r << 16);
}
// The bits of the nearest bf16, ties to even, in the upper half of each lane, anything in the lower; NaN stays NaN.
// Same as to_bf16.
[[gnu::always_inline]] static inline U32x16 upper_half_bf16(F32x16 a) {
  const U32x16 bits = bits_of(a);
  const U32x16 rounded = bits + splat_u32(0x7fff) + ((bits >> 16) & splat_u32(1));
  const U32x16 quiet = bits | splat_u32(0x400000);
  return select(a == a, rounded, quiet);
}
[[gnu::always_inline]] static inline U32x16 round_to_bf16(F32x16 a) {
  return upper_half_bf16(a) & splat_u32(0xffff0000U);
}
[[gnu::always_inline]] static inline void store(Bf16* p, F32x16 a) {
  const U32x16 bits = upper_half_bf16(a) >> 16;
  for (int i = 0; i < kParts; ++i) native_store_u16(p + i * kNativeLanes, bits.part[i]);
}

// The first `count` numbers (0 to 16); the other lanes are 0 and nothing behind them is touched.
template <class T>
[[gnu::always_inline]] static inline F32x16 load_first(const T* p, int64_t count) {
  if (count >= kLanes) return load(p);
  alignas(64) T all[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) all[i] = p[i];
  return load(all);
}
template <class T>
[[gnu::always_inline]] static inline void store_first(T* p, int64_t count, F32x16 a) {
  if (count >= kLanes) return store(p, a);
  alignas(64) T all[kLanes];
  store(all, a);
  for (int64_t i = 0; i < count; ++i) p[i] = all[i];
}

// 4-bit floats, one in the low 4 bits of each lane (the other bits are ignored).
[[gnu::always_inline]] static inline F32x16 e2m1_values(U32x16 codes) {
  F32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = native_e2m1(codes.part[i]);
  return r;
}
// e4m3 codes as f32, exact. Exponent 0 means m / 8 * 2^-6, which is 2 (1 + m / 8) 2^-7 - 2^-6; doing it in this way
// meets no subnormal f32 (slow). The NaN codes 0x7f and 0xff give +-480.
[[gnu::always_inline]] static inline F32x16 e4m3_magnitudes_signed(U32x16 codes) {
  const U32x16 magnitude = codes & splat_u32(0x7f);
  const F32x16 value = from_bits((magnitude << 20) + splat_u32(120U << 23));
  const F32x16 small = value + value - splat(0x1p-6F);
  const U32x16 bits = bits_of(select(magnitude < splat_u32(8), small, value));
  return from_bits(bits | (codes & splat_u32(0x80)) << 24);
}
// What load_e4m3 leaves out: the numbers are its results times this, exactly.
inline constexpr float kE4m3Unit = kNativeHalves ? 256.0F : 1.0F;
// 16 codes from memory, by the machine's half-precision conversion where it has one.
[[gnu::always_inline]] static inline F32x16 load_e4m3(const void* p) {
  if constexpr (!kNativeHalves) return e4m3_magnitudes_signed(load_u8(p));
  F32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = native_load_e4m3(static_cast<const uint8_t*>(p) + i * kNativeLanes);
  return r;
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
