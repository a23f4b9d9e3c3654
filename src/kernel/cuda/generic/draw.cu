// Tokens drawn from logits: a cluster of blocks a row. Each block has a run of columns, whose weights it keeps in
// shared memory where they fit. All sums are of whole numbers, so they are those of kernel/ref/draw.cc whatever their
// order.
#include <cooperative_groups.h>

#include "kernel/cuda/generic.h"
#include "kernel/cuda/generic/launch.cuh"
#include "kernel/draw_law.h"

namespace strobe::kernel::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kCluster = 8;
constexpr int kDigitBits = 11;
constexpr int kBins = 1 << kDigitBits;
constexpr int kOwnBins = kBins / kCluster;  // that a block adds up for all blocks of its cluster
constexpr int64_t kMostCached = 24576;      // weights of a block in shared memory
// The lower 16 and the upper 17 bits of 33, of so many weights, have sums below 2^32.
static_assert(kMostDrawColumns / kCluster <= 32768);

using cooperative_groups::cluster_group;

// Of the weights that fall into a bin: how many, and the sums of the parts of what follows their digit.
struct Bins {
  uint32_t count[kBins];
  uint32_t low[kBins];
  uint32_t high[kBins];
};

struct Total {
  uint64_t count = 0;
  uint64_t sum = 0;
};

// What a filter keeps: all weights above `weight`, and the `ties` first ones of that very weight.
struct Cut {
  uint64_t weight = 0;
  uint64_t ties = 0;
};

__device__ uint64_t scan_of_warp(uint64_t value) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const uint64_t other = __shfl_up_sync(~0U, value, distance);
    if (threadIdx.x % 32 >= distance) value += other;
  }
  return value;
}

// The sum over the threads before this one; `total`: over all threads.
__device__ uint64_t sum_before(uint64_t value, uint64_t& total) {
  __shared__ uint64_t of_warps[kWarps];
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint64_t scanned = scan_of_warp(value);
  __syncthreads();  // the last call's numbers have been read
  if (lane == 31) of_warps[warp] = scanned;
  __syncthreads();
  if (warp == 0) of_warps[lane] = scan_of_warp(of_warps[lane]);
  __syncthreads();
  total = of_warps[kWarps - 1];
  return (warp > 0 ? of_warps[warp - 1] : 0) + scanned - value;
}

// A row of the call as one block of its cluster sees it.
struct Row {
  const float* logits;
  int64_t begin, end;  // the block's columns
  float largest, temperature;
  uint64_t* cache;  // [end - begin], or nullptr: weights are computed whenever they are asked for

  __device__ uint64_t compute(int64_t column) const { return draw_weight(logits[column], largest, temperature); }
  __device__ uint64_t weight(int64_t column) const {
    return cache != nullptr ? cache[column - begin] : compute(column);
  }
};

// The sum over the blocks before this one; `total`: over all blocks. `slots`: [kCluster] of this use alone.
__device__ uint64_t sum_before_block(cluster_group& cluster, uint64_t* slots, uint64_t value, uint64_t& total) {
  const unsigned block = cluster.block_rank();
  if (threadIdx.x < kCluster) cluster.map_shared_rank(slots, threadIdx.x)[block] = value;
  cluster.sync();
  uint64_t before = 0;
  total = 0;
  for (unsigned b = 0; b < kCluster; ++b) {
    if (b < block) before += slots[b];
    total += slots[b];
  }
  return before;
}

__device__ void add_to_bin(Bins& bins, unsigned bin, uint32_t count, uint32_t low, uint32_t high) {
  atomicAdd(&bins.count[bin], count);
  atomicAdd(&bins.low[bin], low);
  atomicAdd(&bins.high[bin], high);
}

// Sorts the weights that begin with `prefix` (their bits from shift + kDigitBits on) into bins by their next digit.
__device__ void fill_bins(const Row& row, Bins& bins, uint64_t prefix, int shift) {
  for (int b = threadIdx.x; b < kBins; b += kThreads) bins.count[b] = bins.low[b] = bins.high[b] = 0;
  __syncthreads();
  // Most tokens are unlikely: the lowest bin is added up in registers.
  uint32_t count = 0, low = 0, high = 0;
  for (int64_t column = row.begin + threadIdx.x; column < row.end; column += kThreads) {
    const uint64_t weight = row.weight(column);
    if (weight == 0 || weight >> (shift + kDigitBits) != prefix >> (shift + kDigitBits)) continue;
    const unsigned bin = static_cast<unsigned>(weight >> shift) % kBins;
    const uint64_t rest = weight & ((uint64_t{1} << shift) - 1);
    const auto of_low = static_cast<uint32_t>(rest & 0xffff), of_high = static_cast<uint32_t>(rest >> 16);
    if (bin == 0) {
      ++count;
      low += of_low;
      high += of_high;
    } else {
      add_to_bin(bins, bin, 1, of_low, of_high);
    }
  }
  count = __reduce_add_sync(~0U, count);
  low = __reduce_add_sync(~0U, low);
  high = __reduce_add_sync(~0U, high);
  if (threadIdx.x % 32 == 0 && count > 0) add_to_bin(bins, 0, count, low, high);
}

// What a search has found so far: the weights above all that begin with `prefix`, and those that do.
struct Found {
  uint64_t prefix;
  Total above;
  Total here;
};

// One digit further down: the bin in which the sum (by_sum) or the count of the largest weights reaches `target`.
__device__ Found next_digit(cluster_group& cluster, const Row& row, Bins& bins, const Found& found, int shift,
                            bool by_sum, uint64_t target) {
  __shared__ Total own[kOwnBins];
  __shared__ Found next;
  fill_bins(row, bins, found.prefix, shift);
  cluster.sync();
  if (threadIdx.x < kOwnBins) {
    const unsigned bin = cluster.block_rank() * kOwnBins + threadIdx.x;
    Total total;
    for (unsigned b = 0; b < kCluster; ++b) {
      const Bins& of_block = *cluster.map_shared_rank(&bins, b);
      total.count += of_block.count[bin];
      total.sum += of_block.low[bin] + (uint64_t{of_block.high[bin]} << 16);
    }
    total.sum += total.count * (found.prefix | uint64_t{bin} << shift);
    own[threadIdx.x] = total;
  }
  cluster.sync();
  constexpr int kEach = kBins / kThreads;
  const unsigned first = kBins - 1 - kEach * threadIdx.x;  // this thread's largest bin
  Total mine[kEach], all;
  for (unsigned i = 0; i < kEach; ++i) {
    mine[i] = cluster.map_shared_rank(own, (first - i) / kOwnBins)[(first - i) % kOwnBins];
    all.count += mine[i].count;
    all.sum += mine[i].sum;
  }
  uint64_t ignored = 0;
  Total above{found.above.count + sum_before(all.count, ignored), found.above.sum + sum_before(all.sum, ignored)};
  for (unsigned i = 0; i < kEach; ++i) {
    const uint64_t before = by_sum ? above.sum : above.count;
    const uint64_t with = before + (by_sum ? mine[i].sum : mine[i].count);
    if (before < target && target <= with) next = {found.prefix | uint64_t{first - i} << shift, above, mine[i]};
    above.count += mine[i].count;
    above.sum += mine[i].sum;
  }
  __syncthreads();
  return next;
}

// Where the largest weights reach `target`, at most what there is: their sum (by_sum), or how many they are. kept: the
// sum of what the cut keeps.
__device__ Cut find_cut(cluster_group& cluster, const Row& row, Bins& bins, bool by_sum, uint64_t target,
                        uint64_t& kept) {
  Found found{};
  for (int shift = 3 * kDigitBits; shift >= 0; shift -= kDigitBits) {
    found = next_digit(cluster, row, bins, found, shift, by_sum, target);
  }
  const uint64_t weight = found.prefix;
  const uint64_t missing = target - (by_sum ? found.above.sum : found.above.count);
  const uint64_t ties = by_sum ? (missing + weight - 1) / weight : missing;
  kept = found.above.sum + ties * weight;
  return {weight, ties};
}

// kernel/args.h: the filters, one after the other. count, sum: of all weights that are not 0.
__device__ Cut filter(cluster_group& cluster, const Row& row, Bins& bins, const DrawParams& params, uint64_t count,
                      uint64_t sum) {
  Cut cut;
  if (params.top_k > 0 && static_cast<uint64_t>(params.top_k) < count) {
    cut = find_cut(cluster, row, bins, false, static_cast<uint64_t>(params.top_k), sum);
  }
  if (params.top_p < 1) cut = find_cut(cluster, row, bins, true, top_p_sum(params.top_p, sum), sum);
  const uint64_t least = min_p_weight(params.min_p);
  if (params.min_p > 0 && least > cut.weight) cut = {least - 1, 0};
  return cut;
}

// What a thread keeps of a run of columns.
struct Keeper {
  const Row& row;
  int64_t begin, end;
  Cut cut;
  uint64_t ties_before;  // in the columns before

  // visit(column, weight) for each kept one, until it returns false.
  template <class Visit>
  __device__ void for_each(const Visit& visit) const {
    uint64_t ties = ties_before;
    for (int64_t column = begin; column < end; ++column) {
      const uint64_t weight = row.weight(column);
      const bool kept = weight > cut.weight || (weight == cut.weight && weight > 0 && ties < cut.ties);
      if (weight == cut.weight) ++ties;
      if (kept && !visit(column, weight)) return;
    }
  }
};

struct Slots {
  uint64_t sums[kCluster];
  uint64_t counts[kCluster];
  uint64_t ties[kCluster];
  uint64_t kept[kCluster];
};

__device__ Keeper make_keeper(cluster_group& cluster, const Row& row, const Cut& cut, Slots& slots) {
  const int64_t each = (row.end - row.begin + kThreads - 1) / kThreads | 1;  // odd: no bank conflicts
  Keeper keeper{row, min(row.begin + each * threadIdx.x, row.end), 0, cut, 0};
  keeper.end = min(keeper.begin + each, row.end);
  if (cut.ties == 0) return keeper;
  uint64_t ties = 0, total = 0;
  for (int64_t column = keeper.begin; column < keeper.end; ++column) ties += row.weight(column) == cut.weight ? 1 : 0;
  keeper.ties_before = sum_before(ties, total);
  keeper.ties_before += sum_before_block(cluster, slots.ties, total, ties);
  return keeper;
}

// Draws the row's token; the thread that has it writes it.
__device__ void draw(cluster_group& cluster, const Row& row, const DrawTokens& call, int64_t r,
                     const DrawParams& params, Bins& bins, Slots& slots) {
  uint64_t count = 0, sum = 0, of_block = 0, total = 0;
  for (int64_t column = row.begin + threadIdx.x; column < row.end; column += kThreads) {
    const uint64_t weight = row.compute(column);
    if (row.cache != nullptr) row.cache[column - row.begin] = weight;
    sum += weight;
    count += weight > 0 ? 1 : 0;
  }
  Cut cut;
  if (params.top_k > 0 || params.top_p < 1 || params.min_p > 0) {
    sum_before(sum, of_block);
    sum_before_block(cluster, slots.sums, of_block, sum);
    sum_before(count, of_block);
    sum_before_block(cluster, slots.counts, of_block, count);
    cut = filter(cluster, row, bins, params, count, sum);
  }
  __syncthreads();  // the cache is filled
  const Keeper keeper = make_keeper(cluster, row, cut, slots);
  uint64_t of_thread = 0;
  keeper.for_each([&](int64_t, uint64_t weight) {
    of_thread += weight;
    return true;
  });
  uint64_t reached = sum_before(of_thread, of_block);
  reached += sum_before_block(cluster, slots.kept, of_block, total);

  const uint64_t point = draw_point(random_bits(params.seed, call.positions[r] + 1), total);
  if (point < reached || point >= reached + of_thread) return;
  keeper.for_each([&](int64_t column, uint64_t weight) {
    reached += weight;
    if (point >= reached) return true;
    call.tokens[r] = static_cast<int32_t>(column);
    return false;
  });
}

__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(kThreads) draw_kernel(DrawTokens call, bool cached) {
  extern __shared__ uint64_t cache[];
  __shared__ Bins bins;
  __shared__ Slots slots;
  cluster_group cluster = cooperative_groups::this_cluster();
  wait_for_launch_ahead();
  let_next_launch_begin();
  const int64_t i = blockIdx.x / kCluster;
  const int64_t sequence = i / call.blocks.block_rows, place = i % call.blocks.block_rows;
  const int64_t r = call.row_begin == nullptr ? i : call.row_begin[sequence] + place;
  const int64_t tokens = call.blocks.block_tokens[sequence];
  const DrawParams params = call.params[sequence];
  // All blocks of a cluster see the same and leave together.
  if (place >= tokens || params.temperature == 0) return;
  const float* logits = call.logits + r * call.stride;
  const float largest = logits[call.tokens[r]];
  if (!isfinite(largest)) return;
  const int64_t each = (call.columns + kCluster - 1) / kCluster;
  const int64_t begin = min(each * cluster.block_rank(), call.columns);
  const Row row{logits, begin, min(begin + each, call.columns), largest, params.temperature, cached ? cache : nullptr};
  cluster.sync();  // every block has read the most likely token, and none writes into one that has not begun
  draw(cluster, row, call, r, params, bins, slots);
  cluster.sync();  // nobody leaves while others read his shared memory
}

}  // namespace

void draw_tokens(const DrawTokens& call, cudaStream_t stream) {
  const int64_t rows = call.blocks.sequences * call.blocks.block_rows;
  if (rows == 0) return;
  const int64_t each = (call.columns + kCluster - 1) / kCluster;
  const bool cached = each <= kMostCached;
  const int64_t bytes = cached ? each * static_cast<int64_t>(sizeof(uint64_t)) : 0;
  allow_shared_memory(reinterpret_cast<const void*>(draw_kernel), static_cast<int>(bytes), "draw_tokens");
  launch("draw_tokens", draw_kernel, static_cast<unsigned>(rows * kCluster), kThreads, static_cast<size_t>(bytes),
         stream, call, cached);
}

}  // namespace strobe::kernel::cuda
