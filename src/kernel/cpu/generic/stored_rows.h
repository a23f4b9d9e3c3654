// Rows of a paged store by position.
#pragma once

#include "kernel/cpu/generic/query_group.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

inline constexpr int64_t kChunk = 64;  // numbers of a row that are computed with at a time

// Positions of a split, counted from where it begins.
struct Keys {
  int64_t begin = 0, end = 0;
};

inline constexpr int64_t kRowsAhead = 32;  // of a run of keys that are asked for before they are needed

// f<type>() for the type that a store keeps its numbers in.
template <class F>
static inline auto for_type(DType dtype, const F& f) {
  if (dtype == DType::kE4m3) return f.template operator()<DType::kE4m3>();
  if (dtype == DType::kBf16) return f.template operator()<DType::kBf16>();
  return f.template operator()<DType::kF32>();
}

// What stands for rows that no query sees.
alignas(64) static constexpr std::byte kNoRow[(kMaxAttentionKeyDim + kChunk) * 4] = {};

// One store's part for a group: `dim` numbers of each row from `column` on.
struct StoredRows {
  PagedStore store;
  int64_t column = 0;
  int64_t dim = 0;

  int64_t chunks() const { return divide_up(dim, kChunk); }
  int64_t number_bytes() const { return store.dtype == DType::kE4m3 ? 1 : store.dtype == DType::kBf16 ? 2 : 4; }

  // Where the rows of `keys` begin. (One division a page: they are slow.)
  void find(const QueryGroup& group, int64_t split_begin, Keys keys, const std::byte** rows) const {
    const Visible visible = group.visible_to_any();
    for (int64_t i = keys.begin; i < keys.end; ++i) rows[i] = kNoRow;
    const int64_t row_bytes = store.dim * number_bytes();
    const int64_t last = smaller(visible.last, split_begin + keys.end);
    for (int64_t position = greater(visible.first, split_begin + keys.begin); position < last;) {
      const int64_t page = position / store.page_size;
      const int64_t page_begin = page * store.page_size;
      const int64_t slot = group.request->pages[page] * int64_t{store.page_size} + position - page_begin;
      const std::byte* row = static_cast<const std::byte*>(store.data) + (slot * store.dim + column) * number_bytes();
      for (; position < last && position < page_begin + store.page_size; ++position, row += row_bytes) {
        rows[position - split_begin] = row;
      }
    }
  }

  // Asks for `count` rows, in the order in which they lie: that is what the machine's own prefetching follows.
  [[gnu::always_inline]] inline void prefetch(const std::byte* const* rows, int64_t count) const {
    const int64_t bytes = dim * number_bytes();
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(rows[i] + at);
    }
  }

  // Looks at every number of a row, where a core has found that some row holds one that is not finite.
  bool is_infinite(const std::byte* row) const {
    for (int64_t i = 0; i < dim; ++i) {
      uint32_t bits = 0;
      if (store.dtype == DType::kE4m3) {
        if ((static_cast<uint32_t>(row[i]) & 0x7fU) == 0x7f) return true;
        continue;
      }
      if (store.dtype == DType::kBf16) {
        __builtin_memcpy(reinterpret_cast<std::byte*>(&bits) + 2, row + 2 * i, 2);
      } else {
        __builtin_memcpy(&bits, row + 4 * i, 4);
        bits += 0x8000;  // what rounds to infinity counts
      }
      if ((bits & 0x7fffffffU) >= 0x7f800000U) return true;
    }
    return false;
  }
};

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
