// Rows into the paged store, rounded to its type, and out of it.
#include "kernel/cpu/generic/kernels.h"
#include "kernel/cpu/generic/rows.h"
#include "kernel/cpu/generic/tasks.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {
namespace {

// The nearest e4m3 codes, ties to even, saturating at +-448; NaN stays NaN. Same as to_e4m3.
[[gnu::always_inline]] inline U32x16 to_e4m3_codes(F32x16 value) {
  const U32x16 sign = (bits_of(value) >> 24) & splat_u32(0x80);
  const F32x16 magnitude = smaller(from_bits(bits_of(value) & splat_u32(0x7fffffff)), splat(448.0F));
  // Subnormal: a multiple of 2^-9. Adding 2^23 leaves the nearest integer, ties to even, in the low bits.
  const U32x16 subnormal = bits_of(fma(magnitude, splat(512.0F), splat(0x1p23F))) - splat_u32(0x4b000000U);
  // Else keep 3 mantissa bits: add half of the dropped unit, less one where the kept part is even. And the exponent's
  // bias becomes 7.
  const U32x16 m = bits_of(magnitude);
  const U32x16 normal = (m + splat_u32(0x7ffff - (120U << 23)) + ((m >> 20) & splat_u32(1))) >> 20;
  U32x16 code = select(magnitude < splat(0x1p-6F), subnormal, normal);
  code = select(value == value, code, splat_u32(0x7f));
  return code | sign;
}

// Division by a store's scale. Where that is a power of two, which 1 is, its inverse is exact and does the same.
struct Divisor {
  float scale;
  float inverse;
  bool exact;

  explicit Divisor(float by) : scale(by), inverse(1.0F / by) {
    constexpr float kSmallest = 0x1p-126F, kLargest = 0x1p126F;
    uint32_t bits;
    __builtin_memcpy(&bits, &by, sizeof bits);
    exact = (bits & 0x7fffffU) == 0 && by >= kSmallest && by <= kLargest;
  }
  [[gnu::always_inline]] inline F32x16 divide(F32x16 x) const { return exact ? x * splat(inverse) : x / splat(scale); }
};

// Numbers as a store of type T keeps them, and back.
template <class T>
[[gnu::always_inline]] inline void put(T* to, int64_t count, F32x16 x, const Divisor&) {
  store_first(to, count, x);
}
[[gnu::always_inline]] inline void put(E4m3* to, int64_t count, F32x16 x, const Divisor& scale) {
  const U32x16 codes = to_e4m3_codes(scale.divide(x));
  if (count == kLanes) return store_u8(to, codes);
  alignas(64) uint8_t all[kLanes];
  store_u8(all, codes);
  __builtin_memcpy(to, all, static_cast<size_t>(count));
}
template <class T>
[[gnu::always_inline]] inline F32x16 take(const T* from, int64_t count, float) {
  return load_first(from, count);
}
[[gnu::always_inline]] inline F32x16 take(const E4m3* from, int64_t count, float scale) {
  alignas(64) uint8_t some[kLanes] = {};
  const void* codes = from;
  if (count < kLanes) codes = __builtin_memcpy(some, from, static_cast<size_t>(count));
  const U32x16 nan = (load_u8(codes) & splat_u32(0x7f)) == splat_u32(0x7f);
  return select(nan, splat(__builtin_nanf("")), load_e4m3(codes) * splat(kE4m3Unit) * splat(scale));
}

// f(T()) for the type that a store keeps its numbers in.
template <class F>
[[gnu::always_inline]] inline void with_stored_type(DType dtype, const F& f) {
  dtype == DType::kE4m3 ? f(E4m3()) : with_type(dtype, f);
}

template <class T>
void store_row(const StoreRows& c, int64_t row, const Divisor& scale) {
  const auto* x = row_of<const float>(c.x, row);
  T* to = static_cast<T*>(c.store.data) + c.slots[row] * c.store.dim + c.column;
  const Divisor by = scale;
  for_vectors(
      c.dim, [&](int64_t i, int64_t count)
                 __attribute__((always_inline)) { put(to + i, count, load_first(x + i, count), by); });
}

template <class T, class Y>
void load_row(const LoadRows& c, int64_t row) {
  const int64_t page = row / c.store.page_size;
  const int64_t slot = c.pages[page] * int64_t{c.store.page_size} + row - page * c.store.page_size;
  const T* from = static_cast<const T*>(c.store.data) + slot * c.store.dim + c.column;
  Y* y = row_of<Y>(c.y, row);
  const int64_t copies = c.copies, stride = c.copy_stride;
  const float scale = c.store.scale;
  for_vectors(
      c.dim, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
        const F32x16 numbers = take(from + i, count, scale);
        for (int64_t copy = 0; copy < copies; ++copy) store_first(y + copy * stride + i, count, numbers);
      });
}

}  // namespace

void load_rows(WorkerPool& pool, const LoadRows& c) {
  const int64_t width = greater(1, c.dim * c.copies);
  with_stored_type(c.store.dtype, [&]<class T>(T) {
    with_type(c.y.dtype, [&]<class Y>(Y) {
      in_chunks(pool, c.rows, 1 + 4096 / width, 16 * 1024 / width, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) load_row<T, Y>(c, row);
      });
    });
  });
}

void store_rows(WorkerPool& pool, const StoreRows& c) {
  const int64_t width = greater(1, c.dim);
  with_stored_type(c.store.dtype, [&]<class T>(T) {
    in_chunks(pool, c.rows, 1 + 4096 / width, 16 * 1024 / width, [&](int64_t begin, int64_t end) {
      const Divisor scale(c.store.scale);
      for (int64_t row = begin; row < end; ++row) {
        if (c.slots[row] >= 0) store_row<T>(c, row, scale);
      }
    });
  });
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
