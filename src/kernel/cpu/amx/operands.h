// Rows of a paged store as bf16 operands of the tile unit.
#pragma once

#include "kernel/cpu/amx/expand.h"
#include "kernel/cpu/amx/tiles.h"
#include "kernel/cpu/generic/stored_rows.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

inline constexpr int64_t kTileKeys = 32;  // of one multiplication with values

// Numbers [64 chunk, 64 chunk + 64) of a row. Those that are not finite come as finite ones (an e4m3 NaN as 480, others
// as 0), and show in *largest, the running maximum of magnitudes.
// `left`: how many of the chunk's numbers the row has, where it is not kWhole.
template <DType kType, bool kWhole>
[[gnu::always_inline]] static inline Halves read_chunk(const E4m3Expander& e4m3, const std::byte* row, int64_t chunk,
                                                       int64_t left, __m512i* largest) {
  const int64_t i = chunk * kChunk;
  const __mmask64 wanted = ~__mmask64{0} >> (kWhole ? 0 : kChunk - left);
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

// Whether code for whole chunks alone is worth its size: others read bf16 and f32 with masks in any case.
template <DType kType>
inline constexpr bool kWholeChunksApart = kType == DType::kE4m3;

// What *largest says.
template <DType kType>
static inline bool has_infinite(__m512i largest) {
  return kType == DType::kE4m3 ? E4m3Expander::has_nan(largest)
                               : _mm512_cmpge_epu16_mask(largest, _mm512_set1_epi16(0x7f80)) != 0;
}

// A chunk of some rows on its way to the tile unit; what is done lies before `at`. So it can be cut into parts, between
// which the tile unit is given other work: it waits for what its instructions load, the vector units need not.
template <DType kType>
struct Expansion {
  const E4m3Expander e4m3 = E4m3Expander::make();
  __m512i largest = _mm512_setzero_si512();
  const std::byte* const* rows = nullptr;
  int64_t chunk = 0;
  int64_t left = 0;  // numbers of it that rows have
  std::byte* to = nullptr;
  int64_t at = 0;

  [[gnu::always_inline]] inline void begin(const StoredRows& stored, const std::byte* const* from, int64_t index,
                                           std::byte* tiles) {
    rows = from;
    chunk = index;
    left = smaller(kChunk, stored.dim - index * kChunk);
    to = tiles;
    at = 0;
  }
  bool whole() const { return left == kChunk; }

  // Keys as rows of key tiles up to key `end`: the low numbers' tiles, and `half` bytes behind them the high ones'.
  template <bool kWhole>
  [[gnu::always_inline]] inline void keys(int64_t end, int64_t half) {
    for (; at < end; ++at) {
      const Halves h = read_chunk<kType, kWhole>(e4m3, rows[at], chunk, left, &largest);
      _mm512_store_si512(to + at * kTileStride, h.low);
      _mm512_store_si512(to + half + at * kTileStride, h.high);
    }
  }
  // Keys as value tiles up to pair `end`: of each 16 pairs four tiles.
  template <bool kWhole>
  [[gnu::always_inline]] inline void pairs(int64_t end) {
    for (; at < end; ++at) {
      const Halves even = read_chunk<kType, kWhole>(e4m3, rows[2 * at], chunk, left, &largest);
      const Halves odd = read_chunk<kType, kWhole>(e4m3, rows[2 * at + 1], chunk, left, &largest);
      const Pairs low = pair_up(even.low, odd.low);
      const Pairs high = pair_up(even.high, odd.high);
      std::byte* row = to + at / 16 * (4 * kTileBytes) + at % 16 * kTileStride;
      _mm512_store_si512(row, low.first);
      _mm512_store_si512(row + kTileBytes, low.second);
      _mm512_store_si512(row + 2 * kTileBytes, high.first);
      _mm512_store_si512(row + 3 * kTileBytes, high.second);
    }
  }
};

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
