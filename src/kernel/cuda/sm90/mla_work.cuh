// How an MLA decode call is cut into work: row blocks of 64 folded rows, splits of positions, shares of the grid.
// Everything about one row follows from its own position.
#pragma once

#include <cstdint>

#include "kernel/args.h"

namespace strobe::kernel::cuda::sm90 {

inline constexpr int kRowBlock = 64;     // folded rows a block of threads takes
inline constexpr int kPage = 64;         // positions
inline constexpr int kMaxSplits = 16;    // of a row
inline constexpr int kGroup = 4;         // splits that are folded into one before groups are merged
inline constexpr int kClass = 2048;      // positions p with the same p / kClass have splits of the same length
inline constexpr int kItemOverhead = 2;  // what an item costs beside its pages, in pages

// n / value for n in [0, 2^31), without a division where it is asked for.
struct Divisor {
  int value = 1;
  int shift = 0;  // 2^shift >= value
  uint32_t factor = 1;
  __host__ __device__ int quotient(int n) const {
    const auto high = static_cast<uint32_t>(uint64_t{static_cast<uint32_t>(n)} * factor >> 32);
    return static_cast<int>((high + static_cast<uint32_t>(n)) >> shift);
  }
};
inline Divisor divisor(int value) {
  int shift = 0;
  while ((int64_t{1} << shift) < value) ++shift;
  const uint64_t beyond = (uint64_t{1} << shift) - static_cast<uint64_t>(value);
  return {.value = value,
          .shift = shift,
          .factor = static_cast<uint32_t>((beyond << 32) / static_cast<uint64_t>(value) + 1)};
}

// Pages in each split of a row at this position: an even number, because pages are worked on in pairs.
__host__ __device__ inline int split_pages(int position) {
  return 2 * (position / kClass + 1);
}
__host__ __device__ inline int split_count(int position) {
  const int pages = position / kPage + 1;
  const int each = split_pages(position);
  return (pages + each - 1) / each;
}

// Folded rows [begin, end) of a request, at most 64, all of one class.
struct RowBlock {
  int begin = 0;
  int end = 0;
};

// A request as the scheduler sees it: `blocks` row blocks of `slots` items each (an item is one split of one row block;
// those behind a row block's last split are empty), all taken to cost the same.
struct RequestWork {
  int blocks = 0;
  int slots = 0;
  int item_cost = 0;
  __host__ __device__ int items() const { return blocks * slots; }
  __host__ __device__ int cost() const { return items() * item_cost; }
};

// Tokens of the request before the first class boundary.
__host__ __device__ inline int first_tokens(const AttentionRequest& request) {
  const int to_boundary = kClass - request.first_position % kClass;
  return request.row_count < to_boundary ? request.row_count : to_boundary;
}

__host__ __device__ inline RequestWork request_work(const AttentionRequest& request, int heads) {
  if (request.row_count <= 0) return {};
  const int first = first_tokens(request);
  const int rest = request.row_count - first;
  const int last_position = request.first_position + request.row_count - 1;
  RequestWork work;
  // Whole classes are 2048 * heads rows: whole row blocks.
  work.blocks = (first * heads + kRowBlock - 1) / kRowBlock + (rest * heads + kRowBlock - 1) / kRowBlock;
  work.slots = rest == 0 ? split_count(last_position) : kMaxSplits;
  work.item_cost = split_pages(last_position) + kItemOverhead;
  return work;
}

__host__ __device__ inline RowBlock row_block(const AttentionRequest& request, int heads, int index) {
  const int first = first_tokens(request);
  const int first_blocks = (first * heads + kRowBlock - 1) / kRowBlock;
  const bool in_first = index < first_blocks;
  const int base = in_first ? 0 : first * heads;
  const int begin = base + (in_first ? index : index - first_blocks) * kRowBlock;
  const int limit = (in_first ? first : request.row_count) * heads;
  return {.begin = begin, .end = begin + kRowBlock < limit ? begin + kRowBlock : limit};
}

}  // namespace strobe::kernel::cuda::sm90
