// Rows of a paged store as bf16 operands of the tile unit.
#pragma once

#include "kernel/cpu/amx/expand.h"
#include "kernel/cpu/amx/tiles.h"
#include "kernel/cpu/generic/stored_rows.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

inline constexpr int64_t kTileKeys = 32;  // of one multiplication with values

static inline bool whole(const StoredRows& stored, int64_t chunk) {
  return (chunk + 1) * kChunk <= stored.dim;
}

// Numbers [64 chunk, 64 chunk + 64) of a row. Those that are not finite come as finite ones (an e4m3 NaN as 480, others
// as 0), and show in *largest, the running maximum of magnitudes.
// `left`: how many of the chunk's numbers the row has, where it is not kWhole.
template <DType kType, bool kWhole>
[[gnu::always_inline]] static inline Halves read_chunk(const E4m3Expander& e4m3, const std::byte* row, int64_t chunk,
                                                       int64_t left, __m512i* largest) {
  const int64_t i = chunk * kChunk;
  const __mmask64 wanted = kWhole ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
  if constexpr (kType == DType::kE4m3) {
    const __m512i codes = kWhole ? _mm512_loadu_si512(row + i) : _mm512_maskz_loadu_epi8(wanted, row + i);
    return e4m3.expand(codes, largest);
  } else {
    __m512i first, second;
    if constexpr (kType == DType::kBf16) {
      first = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(wanted), row + 2 * i);
      second = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(wanted >> 32), row + 2 * i + 64);
    } else {
      alignas(64) Bf16 numbers[kChunk];
      const auto* from = reinterpret_cast<const float*>(row) + i;
      for (int64_t c = 0; c < kChunk; c += kLanes) {
        store(numbers + c, load_first(from + c, greater(0, smaller(kLanes, left - c))));
      }
      first = _mm512_load_si512(numbers);
      second = _mm512_load_si512(numbers + 32);
    }
    const __m512i infinity = _mm512_set1_epi16(0x7f80);
    for (__m512i* v : {&first, &second}) {
      const __m512i magnitude = _mm512_and_si512(*v, _mm512_set1_epi16(0x7fff));
      *largest = _mm512_max_epu16(*largest, magnitude);
      *v = _mm512_maskz_mov_epi16(_mm512_cmplt_epu16_mask(magnitude, infinity), *v);
    }
    return split_bf16(first, second);
  }
}

// What *largest says.
template <DType kType>
static inline bool has_infinite(__m512i largest) {
  return kType == DType::kE4m3 ? E4m3Expander::has_nan(largest)
                               : _mm512_cmpge_epu16_mask(largest, _mm512_set1_epi16(0x7f80)) != 0;
}

// One chunk of a step's 32 keys as key tiles.
template <DType kType, bool kWhole>
[[gnu::always_inline]] static inline void expand_keys(const E4m3Expander& expander, const StoredRows& stored,
                                                      const std::byte* const* rows, int64_t chunk, __m512i* largest,
                                                      std::byte (*tiles)[2][kTileBytes]) {
  const E4m3Expander e4m3 = expander;  // by value: in registers
  const int64_t left = kWhole ? kChunk : stored.dim - chunk * kChunk;
  __m512i running = *largest;
  for (int64_t half = 0; half < 2; ++half) {
    std::byte* low = tiles[0][half];
    std::byte* high = tiles[1][half];
    for (int64_t key = 16 * half; key < 16 * half + 16; ++key, low += kTileStride, high += kTileStride) {
      const Halves h = read_chunk<kType, kWhole>(e4m3, rows[key], chunk, left, &running);
      _mm512_store_si512(low, h.low);
      _mm512_store_si512(high, h.high);
    }
  }
  *largest = running;
}

// One chunk of a step's 32 keys as value tiles.
template <DType kType, bool kWhole>
[[gnu::always_inline]] static inline void expand_values(const E4m3Expander& expander, const StoredRows& stored,
                                                        const std::byte* const* rows, int64_t chunk, __m512i* largest,
                                                        std::byte (*tiles)[kTileBytes]) {
  const E4m3Expander e4m3 = expander;
  const int64_t left = kWhole ? kChunk : stored.dim - chunk * kChunk;
  __m512i running = *largest;
  for (int64_t pair = 0; pair < kTileKeys / 2; ++pair) {
    const Halves even = read_chunk<kType, kWhole>(e4m3, rows[2 * pair], chunk, left, &running);
    const Halves odd = read_chunk<kType, kWhole>(e4m3, rows[2 * pair + 1], chunk, left, &running);
    const Pairs low = pair_up(even.low, odd.low);
    const Pairs high = pair_up(even.high, odd.high);
    const int64_t row = pair * kTileStride;
    _mm512_store_si512(tiles[0] + row, low.first);
    _mm512_store_si512(tiles[1] + row, low.second);
    _mm512_store_si512(tiles[2] + row, high.first);
    _mm512_store_si512(tiles[3] + row, high.second);
  }
  *largest = running;
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
