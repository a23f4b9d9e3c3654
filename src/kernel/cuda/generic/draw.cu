// Tokens drawn from logits: a cluster of blocks a row. Each warp has a run of columns, whose weights it keeps in shared
// memory where they fit. Where a filter cuts is looked for among the weights that it may be: if they are few, or once
// bins have made them few, one block sorts them. (An atomic addition to a bin costs as much as many instructions, so
// what cannot matter is left out before.) All sums are of whole numbers, so they are those of kernel/ref/draw.cc
// whatever their order.
#include <cooperative_groups.h>

#include <climits>
#include <type_traits>

#include "kernel/cuda/generic.h"
#include "kernel/cuda/generic/launch.cuh"
#include "kernel/quick_draw.h"

namespace strobe::kernel::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kCluster = 8;
constexpr int kDigitBits = 11;
constexpr int kBins = 1 << kDigitBits;
constexpr int kOwnBins = kBins / kCluster;  // that a block adds up for all blocks of its cluster
constexpr int kListed = 2 * kThreads;       // weights that one block sorts
constexpr int64_t kMostCached = 24576;      // weights of a block in shared memory
constexpr uint64_t kAboveAll = kLargestDrawWeight + 1;
// The lower and the upper 16 bits of 32, of so many weights, have sums below 2^32.
static_assert(kMostDrawColumns / kCluster <= 65536);
static_assert(kOwnBins <= kThreads);

using cooperative_groups::cluster_group;

struct Total {
  uint64_t count = 0;
  uint64_t sum = 0;

  __device__ Total operator+(const Total& other) const { return {count + other.count, sum + other.sum}; }
  __device__ Total operator-(const Total& other) const { return {count - other.count, sum - other.sum}; }
  __device__ uint64_t measure(bool by_sum) const { return by_sum ? sum : count; }
};

// Of the weights that fall into a bin: how many, and the sums of the parts of what the bin leaves open.
struct Bins {
  uint32_t count[kBins];
  uint32_t low[kBins];
  uint32_t high[kBins];
  uint64_t all_counts[kOwnBins];  // of the whole cluster, in the block's share of the bins
  uint64_t all_sums[kOwnBins];
};

// What a filter keeps: all weights above `weight`, and the `ties` first ones of that very weight.
struct Cut {
  uint64_t weight = 0;
  uint64_t ties = 0;
  bool all_ties = true;   // there are no more of them
  bool complete = false;  // of all filters that look at sums, not of the first one alone
};

// What the filters keep, as a fact of a column.
struct Kept {
  uint64_t weight = 0;
  int last = -1;  // column of that very weight

  __device__ bool has(int column, uint64_t of) const { return of > weight || (of == weight && column <= last); }
};

// What a block hears from the others of its cluster; a place a use.
struct Heard {
  Total all[kCluster];
  Total listed[kCluster];
  Total above[kCluster];
  Total ties[kCluster];
  Total kept[kCluster];
  Cut cut;
  int last_tie;
};

__device__ Total scan_of_warp(Total value) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const Total other{__shfl_up_sync(~0U, value.count, distance), __shfl_up_sync(~0U, value.sum, distance)};
    if (threadIdx.x % 32 >= distance) value = value + other;
  }
  return value;
}

__device__ Total of_lane(const Total& value, int lane) {
  return {__shfl_sync(~0U, value.count, lane), __shfl_sync(~0U, value.sum, lane)};
}

// The sum over the threads before this one; `all`: over all threads.
__device__ Total sum_before(const Total& value, Total& all) {
  __shared__ Total of_warps[kWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Total scanned = scan_of_warp(value);
  __syncthreads();  // the last call's numbers have been read
  if (lane == 31) of_warps[warp] = scanned;
  __syncthreads();
  const Total warps = scan_of_warp(lane < kWarps ? of_warps[lane] : Total{});
  all = of_lane(warps, 31);
  const Total ahead = of_lane(warps, max(warp - 1, 0));
  return (warp > 0 ? ahead : Total{}) + scanned - value;
}

// The same over the threads of all blocks before. `heard`: of this use alone.
__device__ Total sum_before(cluster_group& cluster, Total* heard, const Total& value, Total& all) {
  Total of_block;
  Total before = sum_before(value, of_block);
  const unsigned block = cluster.block_rank();
  if (threadIdx.x < kCluster) cluster.map_shared_rank(heard, threadIdx.x)[block] = of_block;
  cluster.sync();
  all = {};
  for (unsigned b = 0; b < kCluster; ++b) {
    if (b < block) before = before + heard[b];
    all = all + heard[b];
  }
  return before;
}

__constant__ constexpr QuickTerms kTerms;

// The law, where floating point cannot tell.
__device__ __noinline__ uint64_t weight_by_law(float logit, float largest, float temperature) {
  return draw_weight(logit, largest, temperature);
}

__device__ __noinline__ uint64_t weight_of(float logit, float largest, float temperature) {
  uint64_t weight;
  return QuickDraw(largest, temperature).weight(logit, kTerms, weight) ? weight
                                                                       : weight_by_law(logit, largest, temperature);
}

// A row of the call as one warp sees it. cached: or its weights are computed whenever they are asked for.
template <bool cached>
struct RowOf {
  const float* logits;
  int begin, end;  // the warp's columns
  float largest, temperature;
  uint64_t* cache;  // of the warp's columns

  __device__ uint64_t weight(int column) const {
    return cached ? cache[column - begin] : weight_of(logits[column], largest, temperature);
  }

  // Fills the cache. The sum of the lane's weights.
  __device__ uint64_t compute_all() const {
    constexpr int kAtOnce = 4;  // the steps to a weight wait for each other
    const QuickDraw quick(largest, temperature);
    const int lane = static_cast<int>(threadIdx.x % 32);
    uint64_t sum = 0;
    const auto some = [&](int column, auto all_there) {
      float logit[kAtOnce];
      uint64_t weight[kAtOnce];
      const auto there = [&](int i) { return all_there || column + 32 * i < end; };
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) logit[i] = there(i) ? logits[column + 32 * i] : -INFINITY;
      bool decided = true;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) decided = quick.weight(logit[i], kTerms, weight[i]) && decided;
      if (!decided) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) weight[i] = weight_by_law(logit[i], largest, temperature);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (cached && there(i)) cache[column - begin + 32 * i] = weight[i];
        sum += weight[i];
      }
    };
    int column = begin + lane;
    for (; column - lane + 32 * kAtOnce <= end; column += 32 * kAtOnce) some(column, std::true_type());
    if (column - lane < end) some(column, std::false_type());
    __syncwarp();  // the cache is filled
    return sum;
  }

  // The lane's weights that are not 0.
  template <class Visit>
  __device__ void for_each(const Visit& visit) const {
    for (int column = begin + static_cast<int>(threadIdx.x % 32); column < end; column += 32) {
      if (const uint64_t of = weight(column); of > 0) visit(column, of);
    }
  }
};

// ---- the cut of a filter ----

// The weights that have the bits of `base` from `width` on.
struct Range {
  uint64_t base = 0;
  int width = 0;

  __device__ bool has(uint64_t weight) const { return weight >> width == base >> width; }
};

// A cut of weights into bins, in their order. At first of all weights: by their first six bits, or by all from 2^32 on.
// Then of a bin by its next bits.
struct Binning {
  Range range;
  bool first;

  [[nodiscard]] __device__ int width_within() const { return max(range.width - kDigitBits, 0); }
  [[nodiscard]] __device__ bool has(uint64_t weight) const { return first || range.has(weight); }
  // Of a weight that is not 0; width: of the bin.
  __device__ int bin(uint64_t weight, int& width) const {
    if (!first) {
      width = width_within();
      return static_cast<int>(weight >> width) & ((1 << (range.width - width)) - 1);
    }
    width = min(max(58 - __clzll(static_cast<long long>(weight)), 0), 32);
    return 32 * width + static_cast<int>(weight >> width) - 1;
  }
  [[nodiscard]] __device__ Range range_of(int bin) const {
    if (!first) return {range.base | static_cast<uint64_t>(bin) << width_within(), width_within()};
    const int width = min(max((bin + 1) / 32 - 1, 0), 32);
    return {static_cast<uint64_t>(bin + 1 - 32 * width) << width, width};
  }
};

// each(visit): visits the weights to be sorted into bins.
template <class Each>
__device__ void fill_bins(Bins& bins, const Binning& binning, bool by_sum, const Each& each) {
  for (int b = static_cast<int>(threadIdx.x); b < kBins; b += kThreads) bins.count[b] = bins.low[b] = bins.high[b] = 0;
  __syncthreads();
  each([&](uint64_t weight) {
    if (!binning.has(weight)) return;
    int width;
    const int bin = binning.bin(weight, width);
    atomicAdd(&bins.count[bin], 1U);
    if (!by_sum || width == 0) return;
    const auto open = static_cast<uint32_t>(weight & ((uint64_t{1} << width) - 1));
    atomicAdd(&bins.low[bin], open & 0xffff);
    if (width > 16) atomicAdd(&bins.high[bin], open >> 16);
  });
}

// Where a search is: the weights above all of `range` (their sum only in a search by sums), and those of it.
struct Found {
  Range range;
  Total above;
  Total here;
};

// The bin in which the sum (by_sum) or the count of the largest weights reaches `target`; nothing if none does.
template <bool by_sum, class Each>
__device__ Found find_bin(cluster_group& cluster, Bins& bins, const Binning& binning, const Total& above_all,
                          uint64_t target, const Each& each) {
  __shared__ Found found;
  fill_bins(bins, binning, by_sum, each);
  if (threadIdx.x == 0) found = {};  // everyone has read the last call's: fill_bins began together
  cluster.sync();
  if (threadIdx.x < kOwnBins) {
    const int bin = static_cast<int>(cluster.block_rank()) * kOwnBins + static_cast<int>(threadIdx.x);
    Total total;
    for (unsigned b = 0; b < kCluster; ++b) {
      const Bins& of_block = *cluster.map_shared_rank(&bins, b);
      total.count += of_block.count[bin];
      if (by_sum) total.sum += of_block.low[bin] + (uint64_t{of_block.high[bin]} << 16);
    }
    if (by_sum) total.sum += total.count * binning.range_of(bin).base;
    bins.all_counts[threadIdx.x] = total.count;
    bins.all_sums[threadIdx.x] = total.sum;
  }
  cluster.sync();
  constexpr int kEach = kBins / kThreads;
  const int first = kBins - 1 - kEach * static_cast<int>(threadIdx.x);  // this thread's largest bin
  Total mine[kEach], all;
  for (int i = 0; i < kEach; ++i) {
    const Bins& owner = *cluster.map_shared_rank(&bins, static_cast<unsigned>(first - i) / kOwnBins);
    mine[i] = {owner.all_counts[(first - i) % kOwnBins], owner.all_sums[(first - i) % kOwnBins]};
    all = all + mine[i];
  }
  Total ignored;
  Total above = above_all + sum_before(all, ignored);
  for (int i = 0; i < kEach; ++i) {
    const Total with = above + mine[i];
    if (above.measure(by_sum) < target && target <= with.measure(by_sum)) {
      found = {binning.range_of(first - i), above, mine[i]};
    }
    above = with;
  }
  __syncthreads();
  return found;
}

struct List {
  uint64_t weights[kListed];  // in any order, then sorted, the largest first; 0 behind them
};

// Lists, in the cluster's first block, the weights in [low, high) unless they are too many; how many they are.
template <class Row>
__device__ uint64_t fill_list(cluster_group& cluster, const Row& row, List& list, Heard& heard, uint64_t low,
                              uint64_t high) {
  Total own, all;
  row.for_each([&](int, uint64_t weight) { own.count += weight >= low && weight < high ? 1 : 0; });
  uint64_t at = sum_before(cluster, heard.listed, own, all).count;
  if (all.count > kListed) return all.count;
  uint64_t* weights = cluster.map_shared_rank(list.weights, 0);
  row.for_each([&](int, uint64_t weight) {
    if (weight >= low && weight < high) weights[at++] = weight;
  });
  return all.count;
}

// Where the first `count` weights of the list, and those above them, reach `target`. top_p: if below 1, then the cut of
// that filter among what this one keeps; nothing may be above.
__device__ Cut cut_of_list(List& list, int count, const Total& above, bool by_sum, uint64_t target, float top_p) {
  __shared__ int at, first, last;
  __shared__ uint64_t sum_at;
  const int thread = static_cast<int>(threadIdx.x);
  int size = 2;
  while (size < count) size *= 2;
  for (int i = count + thread; i < size; i += kThreads) list.weights[i] = 0;
  __syncthreads();
  for (int run = 2; run <= size; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      if (thread < size / 2) {
        const int i = 2 * step * (thread / step) + thread % step;
        uint64_t &a = list.weights[i], &b = list.weights[i + step];
        const uint64_t larger = max(a, b), smaller = min(a, b);
        const bool falls = (i & run) == 0;
        a = falls ? larger : smaller;
        b = falls ? smaller : larger;
      }
      __syncthreads();
    }
  }
  const int i = 2 * thread;
  const uint64_t mine[2] = {i < count ? list.weights[i] : 0, i + 1 < count ? list.weights[i + 1] : 0};
  Total all;
  Total before = sum_before({.count = 0, .sum = mine[0] + mine[1]}, all);
  before.count = static_cast<uint64_t>(i);
  const auto reach = [&](bool by, const Total& above_list, uint64_t enough) {
    Total to = above_list + before;
    for (int e = 0; e < 2; ++e) {
      const Total with = to + Total{1, mine[e]};
      if (i + e < count && to.measure(by) < enough && enough <= with.measure(by)) {
        at = i + e;
        sum_at = with.sum;
      }
      to = with;
    }
    __syncthreads();
  };
  reach(by_sum, above, target);
  if (top_p < 1) {
    const uint64_t enough = top_p_sum(top_p, sum_at);
    __syncthreads();  // everyone has read it
    reach(true, {}, enough);
  }
  const uint64_t weight = list.weights[at];
  for (int e = 0; e < 2; ++e) {
    if (i + e >= count || mine[e] != weight) continue;
    if (i + e == 0 || list.weights[i + e - 1] != weight) first = i + e;
    if (i + e == count - 1 || list.weights[i + e + 1] != weight) last = i + e;
  }
  __syncthreads();
  return {.weight = weight, .ties = static_cast<uint64_t>(at - first + 1), .all_ties = at == last};
}

// What the search has to work with: bins, or afterwards the list.
union Places {
  Bins bins;
  List list;
};

// Where the largest weights reach `target`, at most what there is: their sum (by_sum), or how many they are. floor:
// the weights from there on reach it. top_p: of the filter after this one, 1 for none; if it was made on the way, the
// cut is complete.
template <bool by_sum, class Row>
__device__ Cut find_cut(cluster_group& cluster, const Row& row, Places& places, Heard& heard, uint64_t target,
                        uint64_t floor, float top_p) {
  Total above;
  uint64_t count = fill_list(cluster, row, places.list, heard, floor, kAboveAll);
  bool all = true;  // that is above is in the list, too: with their sums, the next filter's cut is known
  if (count > kListed) {
    const auto each = [&](const auto& visit) {
      row.for_each([&](int, uint64_t weight) {
        if (weight >= floor) visit(weight);
      });
    };
    Found found = find_bin<by_sum>(cluster, places.bins, {.range = {}, .first = true}, {}, target, each);
    while (found.range.width > 0 && found.here.count > kListed) {
      found = find_bin<by_sum>(cluster, places.bins, {.range = found.range, .first = false}, found.above, target, each);
    }
    if (found.here.count > kListed) {  // of one weight
      const uint64_t missing = target - found.above.measure(by_sum), weight = found.range.base;
      const uint64_t ties = by_sum ? (missing + weight - 1) / weight : missing;
      return {.weight = weight, .ties = ties, .all_ties = ties == found.here.count, .complete = by_sum};
    }
    all = !by_sum && found.above.count + found.here.count <= kListed;
    if (!all) above = found.above;
    const uint64_t low = found.range.base, high = all ? kAboveAll : low + (uint64_t{1} << found.range.width);
    count = fill_list(cluster, row, places.list, heard, low, high);
  }
  cluster.sync();
  if (cluster.block_rank() == 0) {
    Cut cut = cut_of_list(places.list, static_cast<int>(count), above, by_sum, target, all ? top_p : 1);
    cut.complete = by_sum || all;
    if (threadIdx.x < kCluster) cluster.map_shared_rank(&heard, threadIdx.x)->cut = cut;
  }
  cluster.sync();
  return heard.cut;
}

// A weight from which on there are at least top_k: that of so many threads' largest ones, or 1.
template <class Row>
__device__ uint64_t floor_of_count(cluster_group& cluster, const Row& row, Bins& bins, uint64_t top_k) {
  if (top_k > kListed) return 1;
  uint64_t largest = 0;
  row.for_each([&](int, uint64_t weight) { largest = max(largest, weight); });
  const auto each = [&](const auto& visit) {
    if (largest > 0) visit(largest);
  };
  return max(find_bin<false>(cluster, bins, {.range = {}, .first = true}, {}, top_k, each).range.base, uint64_t{1});
}

// kernel/args.h: the filters, one after the other. sum: of the lane's weights.
template <class Row>
__device__ Cut filter(cluster_group& cluster, const Row& row, Places& places, Heard& heard, const DrawParams& params,
                      uint64_t sum) {
  Cut cut;
  Total all;
  if (params.top_k > 0 || params.top_p < 1) {
    Total own{0, sum};
    row.for_each([&](int, uint64_t) { ++own.count; });
    sum_before(cluster, heard.all, own, all);
  }
  uint64_t kept = all.sum;
  if (params.top_k > 0 && static_cast<uint64_t>(params.top_k) < all.count) {
    const auto top_k = static_cast<uint64_t>(params.top_k);
    const uint64_t floor = floor_of_count(cluster, row, places.bins, top_k);
    cut = find_cut<false>(cluster, row, places, heard, top_k, floor, params.top_p);
    if (params.top_p < 1 && !cut.complete) {
      Total above, of_cluster;
      row.for_each([&](int, uint64_t weight) { above.sum += weight > cut.weight ? weight : 0; });
      sum_before(cluster, heard.above, above, of_cluster);
      kept = of_cluster.sum + cut.ties * cut.weight;
    }
  }
  if (params.top_p < 1 && !cut.complete) {
    const uint64_t target = top_p_sum(params.top_p, kept);
    // All weights below have less than what may be missing.
    const uint64_t floor = max((all.sum - target) / all.count, uint64_t{1});
    cut = find_cut<true>(cluster, row, places, heard, target, floor, 1);
  }
  const uint64_t least = min_p_weight(params.min_p);
  if (params.min_p > 0 && least > cut.weight) cut = {.weight = least - 1};
  return cut;
}

// ---- the column at a point ----

// The warp's part of a sum over all columns.
struct Part {
  uint64_t before;  // the sum over the columns before the warp's
  uint64_t mine;
  uint64_t all;
};

// own: over the lane's columns.
__device__ Part part_of(cluster_group& cluster, Total* heard, uint64_t own) {
  Total all;
  const Total before = sum_before(cluster, heard, {.count = 0, .sum = own}, all);
  const uint64_t begin = of_lane(before, 0).sum;
  return {begin, of_lane({0, before.sum + own}, 31).sum - begin, all.sum};
}

// found(column) by the lane in whose columns the sum of value(column, weight) exceeds `point`, if the warp has it.
template <class Row, class Value, class Do>
__device__ void at_point(const Row& row, uint64_t before, uint64_t mine, uint64_t point, const Value& value,
                         const Do& found) {
  if (point < before || point >= before + mine) return;
  const int each = (row.end - row.begin + 31) / 32 | 1;  // odd: no bank conflicts
  const int begin = min(row.begin + each * static_cast<int>(threadIdx.x % 32), row.end);
  const int end = min(begin + each, row.end);
  Total own;
  for (int column = begin; column < end; ++column) own.sum += value(column, row.weight(column));
  uint64_t reached = before + scan_of_warp(own).sum - own.sum;
  if (point < reached || point >= reached + own.sum) return;
  for (int column = begin; column < end; ++column) {
    reached += value(column, row.weight(column));
    if (point < reached) return found(column);
  }
}

template <class Row>
__device__ Kept kept_of(cluster_group& cluster, const Row& row, const Cut& cut, Heard& heard) {
  if (cut.ties == 0) return {cut.weight, -1};
  if (cut.all_ties) return {cut.weight, INT_MAX};
  const auto is_tie = [&](int, uint64_t weight) { return uint64_t{weight == cut.weight ? 1U : 0U}; };
  uint64_t ties = 0;
  row.for_each([&](int column, uint64_t weight) { ties += is_tie(column, weight); });
  const Part part = part_of(cluster, heard.ties, ties);
  at_point(row, part.before, part.mine, cut.ties - 1, is_tie, [&](int column) {
    for (unsigned b = 0; b < kCluster; ++b) cluster.map_shared_rank(&heard, b)->last_tie = column;
  });
  cluster.sync();
  return {cut.weight, heard.last_tie};
}

// Draws the row's token; the thread that has it writes it.
template <class Row>
__device__ void draw(cluster_group& cluster, const Row& row, const DrawTokens& call, int64_t r,
                     const DrawParams& params, Places& places, Heard& heard) {
  uint64_t sum = row.compute_all();
  Kept kept;
  if (params.top_k > 0 || params.top_p < 1 || params.min_p > 0) {
    kept = kept_of(cluster, row, filter(cluster, row, places, heard, params, sum), heard);
    sum = 0;
    row.for_each([&](int column, uint64_t weight) { sum += kept.has(column, weight) ? weight : 0; });
  }
  const Part part = part_of(cluster, heard.kept, sum);
  const uint64_t point = draw_point(random_bits(params.seed, int64_t{call.positions[r]} + 1), part.all);
  const auto value = [&](int column, uint64_t weight) { return kept.has(column, weight) ? weight : 0; };
  at_point(row, part.before, part.mine, point, value, [&](int column) { call.tokens[r] = column; });
}

template <bool cached>
__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(kThreads) draw_kernel(DrawTokens call) {
  extern __shared__ uint64_t cache[];
  __shared__ Places places;
  __shared__ Heard heard;
  __shared__ DrawParams params;
  cluster_group cluster = cooperative_groups::this_cluster();
  wait_for_launch_ahead();
  let_next_launch_begin();
  const int64_t i = blockIdx.x / kCluster;
  const int64_t sequence = i / call.blocks.block_rows, place = i % call.blocks.block_rows;
  const int64_t r = call.row_begin == nullptr ? i : call.row_begin[sequence] + place;
  const int64_t tokens = call.blocks.block_tokens[sequence];
  const float temperature = call.params[sequence].temperature;
  // All blocks of a cluster see the same and leave together.
  if (place >= tokens || temperature == 0) return;
  if (threadIdx.x == 0) params = call.params[sequence];
  const float* logits = call.logits + r * call.stride;
  const float largest = logits[call.tokens[r]];
  if (!isfinite(largest)) return;
  const auto columns = static_cast<int>(call.columns), warp = static_cast<int>(threadIdx.x / 32);
  const int of_block = (columns + kCluster - 1) / kCluster, of_warp = ((of_block + kWarps - 1) / kWarps + 31) / 32 * 32;
  const int block_begin = min(of_block * static_cast<int>(cluster.block_rank()), columns);
  const int block_end = min(block_begin + of_block, columns);
  const int begin = min(block_begin + of_warp * warp, block_end);
  const RowOf<cached> row{.logits = logits,
                          .begin = begin,
                          .end = min(begin + of_warp, block_end),
                          .largest = largest,
                          .temperature = temperature,
                          .cache = cache + (begin - block_begin)};
  cluster.sync();  // every block has read the most likely token, and none writes into one that has not begun
  draw(cluster, row, call, r, params, places, heard);
  cluster.sync();  // nobody leaves while others read his shared memory
}

}  // namespace

void draw_tokens(const DrawTokens& call, cudaStream_t stream) {
  const int64_t rows = call.blocks.sequences * call.blocks.block_rows;
  if (rows == 0) return;
  const int64_t each = (call.columns + kCluster - 1) / kCluster;
  const bool cached = each <= kMostCached;
  const auto kernel = cached ? draw_kernel<true> : draw_kernel<false>;
  const int64_t bytes = cached ? each * static_cast<int64_t>(sizeof(uint64_t)) : 0;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), static_cast<int>(bytes), "draw_tokens");
  launch("draw_tokens", kernel, static_cast<unsigned>(rows * kCluster), kThreads, static_cast<size_t>(bytes), stream,
         call);
}

}  // namespace strobe::kernel::cuda
