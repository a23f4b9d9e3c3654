// Rows into the paged store, rounded to its type, and out of it.
#include "kernel/cpu/generic/kernels.h"
#include "kernel/cpu/generic/rows.h"
#include "kernel/cpu/generic/tasks.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

// The nearest e4m3 codes, ties to even, saturating at +-448; NaN stays NaN. Same as to_e4m3.
[[gnu::always_inline]] inline U32x16 to_e4m3_codes(F32x16 value) {
  const U32x16 sign = (bits_of(value) >> 24) & splat_u32(0x80);
  const U32x16 m = bits_of(value) & splat_u32(0x7fffffff);
  const F32x16 magnitude = from_bits(m);
  // Subnormal: a multiple of 2^-9. Adding 2^23 leaves the nearest integer, ties to even, in the low bits.
  const U32x16 subnormal = bits_of(magnitude * splat(512.0F) + splat(0x1p23F)) - splat_u32(0x4b000000U);
  // Else keep 3 mantissa bits: add half of the dropped unit, less one where the kept part is even.
  const U32x16 normal = ((m + splat_u32(0x7ffff) + ((m >> 20) & splat_u32(1))) >> 20) - splat_u32(120U << 3);
  U32x16 code = select(magnitude < splat(0x1p-6F), subnormal, normal);
  code = select(magnitude < splat(448.0F), code, splat_u32(0x7e));
  code = select(value == value, code, splat_u32(0x7f));
  return code | sign;
}

void store_row(const StoreRows& c, int64_t row, int64_t slot) {
  const int64_t at = slot * c.store.dim + c.column;
  for (int64_t i = 0; i < c.dim; i += kLanes) {
    const int64_t count = smaller(kLanes, c.dim - i);
    const F32x16 x = get(c.x, row, i, count);
    switch (c.store.dtype) {
      case DType::kF32:
        store_first(static_cast<float*>(c.store.data) + at + i, count, x);
        break;
      case DType::kBf16:
        store_first(static_cast<Bf16*>(c.store.data) + at + i, count, x);
        break;
      default: {
        alignas(64) uint8_t codes[kLanes];
        store_u8(codes, to_e4m3_codes(x / splat(c.store.scale)));
        __builtin_memcpy(static_cast<uint8_t*>(c.store.data) + at + i, codes, static_cast<size_t>(count));
      }
    }
  }
}

void load_row(const LoadRows& c, int64_t row) {
  const int64_t page = row / c.store.page_size;
  const int64_t slot = c.pages[page] * int64_t{c.store.page_size} + row - page * c.store.page_size;
  const int64_t at = slot * c.store.dim + c.column;
  for (int64_t i = 0; i < c.dim; i += kLanes) {
    const int64_t count = smaller(kLanes, c.dim - i);
    F32x16 value;
    switch (c.store.dtype) {
      case DType::kF32:
        value = load_first(static_cast<const float*>(c.store.data) + at + i, count);
        break;
      case DType::kBf16:
        value = load_first(static_cast<const Bf16*>(c.store.data) + at + i, count);
        break;
      default: {
        alignas(64) uint8_t bytes[kLanes] = {};
        __builtin_memcpy(bytes, static_cast<const uint8_t*>(c.store.data) + at + i, static_cast<size_t>(count));
        const U32x16 nan = (load_u8(bytes) & splat_u32(0x7f)) == splat_u32(0x7f);
        value = load_e4m3(bytes) * splat(kE4m3Unit) * splat(c.store.scale);
        value = select(nan, splat(__builtin_nanf("")), value);
      }
    }
    for (int64_t copy = 0; copy < c.copies; ++copy) set(c.y, row, copy * c.copy_stride + i, count, value);
  }
}

}  // namespace

void load_rows(WorkerPool& pool, const LoadRows& c) {
  const int64_t width = greater(1, c.dim * c.copies);
  in_chunks(pool, c.rows, 1 + 4096 / width, 16 * 1024 / width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) load_row(c, row);
  });
}

void store_rows(WorkerPool& pool, const StoreRows& c) {
  const int64_t width = greater(1, c.dim);
  in_chunks(pool, c.rows, 1 + 4096 / width, 16 * 1024 / width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      if (c.slots[row] >= 0) store_row(c, row, c.slots[row]);
    }
  });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
