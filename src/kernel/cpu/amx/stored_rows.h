// Rows of a paged store as bf16 operands of the tile unit.
#pragma once

#include "kernel/cpu/amx/expand.h"
#include "kernel/cpu/amx/tiles.h"
#include "kernel/cpu/generic/attention_driver.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

inline constexpr int64_t kStepKeys = 32;  // of one multiplication with values

// Steps of 32 keys of a split.
struct Steps {
  int64_t begin = 0, end = 0;
};

// What stands for rows that no query sees.
alignas(64) static constexpr std::byte kNoRow[(kMaxAttentionKeyDim + kChunk) * 4] = {};

// One store's part for the group: `dim` numbers from `column` on.
struct Source {
  PagedStore store;
  int64_t column = 0;
  int64_t dim = 0;
  E4m3Expander e4m3;

  int64_t chunks() const { return divide_up(dim, kChunk); }
  bool whole(int64_t chunk) const { return (chunk + 1) * kChunk <= dim; }
  int64_t number_bytes() const { return store.dtype == DType::kE4m3 ? 1 : store.dtype == DType::kBf16 ? 2 : 4; }

  // Where the numbers of the positions of a split's steps begin. (One division a page: they are slow.)
  void find_rows(const QueryGroup& group, int64_t split_begin, Steps steps, const std::byte** rows) const {
    const Visible visible = group.visible_to_any();
    for (int64_t i = steps.begin * kStepKeys; i < steps.end * kStepKeys; ++i) rows[i] = kNoRow;
    const int64_t row_bytes = store.dim * number_bytes();
    const int64_t last = smaller(visible.last, split_begin + steps.end * kStepKeys);
    for (int64_t position = greater(visible.first, split_begin + steps.begin * kStepKeys); position < last;) {
      const int64_t page = position / store.page_size;
      const int64_t page_begin = page * store.page_size;
      const int64_t slot = group.request->pages[page] * int64_t{store.page_size} + position - page_begin;
      const std::byte* row = static_cast<const std::byte*>(store.data) + (slot * store.dim + column) * number_bytes();
      for (; position < last && position < page_begin + store.page_size; ++position, row += row_bytes) {
        rows[position - split_begin] = row;
      }
    }
  }
};

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

template <DType kType>
static inline bool has_infinite(__m512i largest) {
  return kType == DType::kE4m3 ? E4m3Expander::has_nan(largest)
                               : _mm512_cmpge_epu16_mask(largest, _mm512_set1_epi16(0x7f80)) != 0;
}

// Asks for rows [begin, end), in the order in which they lie: that is what the machine's own prefetching follows.
[[gnu::always_inline]] static inline void prefetch_rows(const Source& source, const std::byte* const* rows,
                                                        int64_t begin, int64_t end) {
  const int64_t bytes = source.dim * source.number_bytes();
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(rows[i] + at);
  }
}

// One chunk of a step's 32 keys as key tiles.
template <DType kType, bool kWhole>
[[gnu::always_inline]] static inline void expand_keys(const Source& source, const std::byte* const* rows, int64_t chunk,
                                                      __m512i* largest, std::byte (*tiles)[2][kTileBytes]) {
  const E4m3Expander e4m3 = source.e4m3;  // by value: in registers
  const int64_t left = kWhole ? kChunk : source.dim - chunk * kChunk;
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
[[gnu::always_inline]] static inline void expand_values(const Source& source, const std::byte* const* rows,
                                                        int64_t chunk, __m512i* largest,
                                                        std::byte (*tiles)[kTileBytes]) {
  const E4m3Expander e4m3 = source.e4m3;
  const int64_t left = kWhole ? kChunk : source.dim - chunk * kChunk;
  __m512i running = *largest;
  for (int64_t pair = 0; pair < kStepKeys / 2; ++pair) {
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

// Looks at every number again, where has_infinite says that some row has one.
static inline bool row_is_infinite(const Source& source, const std::byte* row) {
  for (int64_t i = 0; i < source.dim; ++i) {
    uint32_t bits = 0;
    if (source.store.dtype == DType::kE4m3) {
      if ((static_cast<uint32_t>(row[i]) & 0x7fU) == 0x7f) return true;
      continue;
    }
    if (source.store.dtype == DType::kBf16) {
      __builtin_memcpy(reinterpret_cast<std::byte*>(&bits) + 2, row + 2 * i, 2);
    } else {
      __builtin_memcpy(&bits, row + 4 * i, 4);
      bits += 0x8000;  // what rounds to infinity counts
    }
    if ((bits & 0x7fffffffU) >= 0x7f800000U) return true;
  }
  return false;
}

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
