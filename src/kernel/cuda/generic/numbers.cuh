// Numbers of device memory, whatever their type, one at a time and in vectors.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "kernel/args.h"

namespace strobe::kernel::cuda {

__device__ inline float bf16_float(uint16_t bits) {
  return __uint_as_float(uint32_t{bits} << 16);
}
__device__ inline uint16_t float_bf16(float value) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
// Two numbers in one register, `low` in its lower half.
__device__ inline uint32_t float_bf16x2(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return uint32_t{__bfloat16_as_ushort(pair.x)} | uint32_t{__bfloat16_as_ushort(pair.y)} << 16;
}
__device__ inline float low_float(uint32_t pair) {
  return __uint_as_float(pair << 16);
}
__device__ inline float high_float(uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000U);
}
__device__ inline float2 e4m3x2_floats(uint16_t pair) {
  return __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3)));
}
__device__ inline float e4m3_float(uint8_t bits) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, __NV_E4M3)));
}
// To nearest, saturating.
__device__ inline uint8_t float_e4m3(float value) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
}

__device__ inline float read_number(const void* data, DType dtype, int64_t index) {
  if (dtype == DType::kBf16) return bf16_float(static_cast<const uint16_t*>(data)[index]);
  if (dtype == DType::kE4m3) return e4m3_float(static_cast<const uint8_t*>(data)[index]);
  return static_cast<const float*>(data)[index];
}
__device__ inline void write_number(void* data, DType dtype, int64_t index, float value) {
  if (dtype == DType::kBf16) {
    static_cast<uint16_t*>(data)[index] = float_bf16(value);
  } else if (dtype == DType::kE4m3) {
    static_cast<uint8_t*>(data)[index] = float_e4m3(value);
  } else {
    static_cast<float*>(data)[index] = value;
  }
}

__device__ inline float get(const Rows& rows, int64_t row, int64_t column) {
  return read_number(rows.data, rows.dtype, row * rows.stride + column);
}
__device__ inline void put(const Rows& rows, int64_t row, int64_t column, float value) {
  write_number(rows.data, rows.dtype, row * rows.stride + column, value);
}

// Four numbers from `index` on, which must be a multiple of 4 in an array aligned to four of its numbers.
__device__ inline float4 read_4(const void* data, DType dtype, int64_t index) {
  if (dtype == DType::kF32) return *reinterpret_cast<const float4*>(static_cast<const float*>(data) + index);
  if (dtype == DType::kBf16) {
    const uint2 pairs = *reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(data) + index);
    return {low_float(pairs.x), high_float(pairs.x), low_float(pairs.y), high_float(pairs.y)};
  }
  const uint32_t codes = *reinterpret_cast<const uint32_t*>(static_cast<const uint8_t*>(data) + index);
  const float2 low = e4m3x2_floats(static_cast<uint16_t>(codes));
  const float2 high = e4m3x2_floats(static_cast<uint16_t>(codes >> 16));
  return {low.x, low.y, high.x, high.y};
}
__device__ inline void write_4(void* data, DType dtype, int64_t index, float4 v) {
  if (dtype == DType::kF32) {
    *reinterpret_cast<float4*>(static_cast<float*>(data) + index) = v;
  } else if (dtype == DType::kBf16) {
    *reinterpret_cast<uint2*>(static_cast<uint16_t*>(data) + index) = {float_bf16x2(v.x, v.y), float_bf16x2(v.z, v.w)};
  } else {
    *reinterpret_cast<uint32_t*>(static_cast<uint8_t*>(data) + index) =
        uint32_t{float_e4m3(v.x)} | uint32_t{float_e4m3(v.y)} << 8 | uint32_t{float_e4m3(v.z)} << 16 |
        uint32_t{float_e4m3(v.w)} << 24;
  }
}

// Four numbers from a column on, of a row of `columns`; those behind its end are zero. `aligned`: vectors_of_4() said
// so. Which it is does not change the values.
__device__ inline float4 read_4_guarded(const void* data, DType dtype, int64_t row_start, int64_t column,
                                        int64_t columns, bool aligned) {
  if (aligned && column + 4 <= columns) return read_4(data, dtype, row_start + column);
  float v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = column + i < columns ? read_number(data, dtype, row_start + column + i) : 0.0F;
  return {v[0], v[1], v[2], v[3]};
}
__device__ inline void write_4_guarded(void* data, DType dtype, int64_t row_start, int64_t column, int64_t columns,
                                       bool aligned, float4 value) {
  if (aligned && column + 4 <= columns) {
    write_4(data, dtype, row_start + column, value);
    return;
  }
  const float v[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (column + i < columns) write_number(data, dtype, row_start + column + i, v[i]);
  }
}

// 2^x: 2^-infinity is 0, 2^0 is 1.
__device__ inline float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Whether rows `stride` numbers apart can be read in vectors of `count` numbers.
inline bool vectors_of(int count, const void* data, DType dtype, int64_t stride) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  return address % static_cast<uintptr_t>(count * size_bytes(dtype)) == 0 && stride % count == 0;
}
inline bool vectors_of_4(const Rows& rows) {
  return vectors_of(4, rows.data, rows.dtype, rows.stride);
}

// read_8_as_bf16 where vectors do not fit; apart, because the code of eight guarded reads is long.
static __device__ __noinline__ uint4 read_8_one_by_one(const Rows& rows, int64_t start, int count) {
  const auto read = [&](int i) { return i < count ? read_number(rows.data, rows.dtype, start + i) : 0.0F; };
  return {float_bf16x2(read(0), read(1)), float_bf16x2(read(2), read(3)), float_bf16x2(read(4), read(5)),
          float_bf16x2(read(6), read(7))};
}

// Eight numbers as bf16, of a row of `columns`: zeros behind its end. `aligned`: what vectors_of_8 says of the rows.
__device__ inline uint4 read_8_as_bf16(const Rows& rows, int64_t row, int64_t column, int64_t columns, bool aligned) {
  const int64_t start = row * rows.stride + column;
  if (!aligned || column + 8 > columns) {
    return read_8_one_by_one(rows, start, static_cast<int>(columns > column + 8 ? 8 : columns - column));
  }
  if (rows.dtype == DType::kBf16) {
    return *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(rows.data) + start);
  }
  const float4* f = reinterpret_cast<const float4*>(static_cast<const float*>(rows.data) + start);
  const float4 a = f[0];
  const float4 b = f[1];
  return {float_bf16x2(a.x, a.y), float_bf16x2(a.z, a.w), float_bf16x2(b.x, b.y), float_bf16x2(b.z, b.w)};
}
// What read_8_as_bf16 wants to know.
inline bool vectors_of_8(const Rows& rows) {
  return vectors_of(rows.dtype == DType::kF32 ? 4 : 8, rows.data, rows.dtype, rows.stride);
}

// D += A B: A 16 x 16 (a: rows g and g + 8 at columns 2t, then at 2t + 8; g = lane / 4, t = lane % 4), B 16 x 8 (b:
// rows 2t and 2t + 8 of column g), D 16 x 8 (d: row g at columns 2t and 2t + 1, then row g + 8). A column of D takes
// nothing from other columns of B.
__device__ inline void mma_bf16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

}  // namespace strobe::kernel::cuda
