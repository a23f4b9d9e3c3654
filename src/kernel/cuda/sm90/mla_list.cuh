// MLA decode: each block of threads finds its share of the work by itself, from the requests on the device. One warp
// fills the list that all roles then work through.
#pragma once

#include "kernel/cuda/sm90/mla_shared.cuh"

namespace strobe::kernel::cuda::sm90::mla {

// Cost and row blocks, added up over the lanes before this one and over all.
struct Sums {
  int cost, blocks, all_cost, all_blocks, largest_item;
};
__device__ inline Sums sums_before(const RequestWork& work, int lane) {
  int cost = work.cost();
  int blocks = work.blocks;
  const int largest_item = __reduce_max_sync(~0U, work.item_cost);
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other_cost = __shfl_up_sync(~0U, cost, step);
    const int other_blocks = __shfl_up_sync(~0U, blocks, step);
    if (lane >= step) cost += other_cost, blocks += other_blocks;
  }
  return {cost - work.cost(), blocks - work.blocks, __shfl_sync(~0U, cost, 31), __shfl_sync(~0U, blocks, 31),
          largest_item};
}

// This block's share if the call has one request: equal numbers of items. Each thread by itself.
__device__ inline Cursor share_of_one(const Params& p, const AttentionRequest& request) {
  const RequestWork work = request_work(request, p.heads.value);
  const int items = p.grid.quotient(work.items() + p.grid.value - 1);
  const int item = items * static_cast<int>(blockIdx.x);
  if (work.blocks > p.block_capacity) __trap();  // the workspace is too small
  return {.request = item < work.items() ? 0 : 1,
          .item = item,
          .block_base = 0,
          .cost = item * work.item_cost,
          .cost_end = (item + items) * work.item_cost,
          .total_blocks = work.blocks};
}

// This block's share: items whose cost begins in [b, b + 1) of equal parts of the call's. A part is a whole number of
// the costliest items, so that blocks of threads with row blocks of the same request walk through its pages at the same
// time and find them in L2. One warp.
__device__ inline Cursor begin_share(const Params& p, int lane) {
  const MlaAttention& call = p.call;
  const int requests = static_cast<int>(call.request_count);
  const auto work_of = [&](int request) {
    return request < requests ? request_work(call.requests[request], p.heads.value) : RequestWork{};
  };
  RequestWork work = work_of(lane);
  Sums sums = sums_before(work, lane);
  int total_cost = sums.all_cost;
  int total_blocks = sums.all_blocks;
  int largest_item = sums.largest_item;
  for (int base = 32; base < requests; base += 32) {
    const Sums more = sums_before(work_of(base + lane), lane);
    total_cost += more.all_cost;
    total_blocks += more.all_blocks;
    largest_item = max(largest_item, more.largest_item);
  }
  largest_item = max(largest_item, 1);
  const int part = (p.grid.quotient(total_cost + p.grid.value - 1) + largest_item - 1) / largest_item * largest_item;
  const int begin = part * static_cast<int>(blockIdx.x);
  Cursor c{.request = requests, .item = 0, .block_base = 0, .cost = 0, .cost_end = 0, .total_blocks = total_blocks};
  int cost_before = 0;
  int blocks_before = 0;
  for (int base = 0; base < requests; base += 32) {
    if (base > 0) {
      work = work_of(base + lane);
      sums = sums_before(work, lane);
    }
    const int mine = cost_before + sums.cost;
    const unsigned holds = __ballot_sync(~0U, work.cost() > 0 && begin < mine + work.cost());
    if (holds != 0) {
      const int owner = __ffs(static_cast<int>(holds)) - 1;
      const unsigned to_skip = begin > mine ? begin - mine : 0;
      const int item = static_cast<int>((to_skip + work.item_cost - 1) / max(work.item_cost, 1));
      c.request = base + owner;
      c.item = __shfl_sync(~0U, item, owner);
      c.block_base = __shfl_sync(~0U, blocks_before + sums.blocks, owner);
      c.cost = __shfl_sync(~0U, mine + item * work.item_cost, owner);
      c.cost_end = begin + part;
      break;
    }
    cost_before += sums.all_cost;
    blocks_before += sums.all_blocks;
  }
  if (total_blocks > p.block_capacity) __trap();  // the workspace is too small
  return c;
}

// The next items of the share that are not empty, one a lane. One warp; `request`: of the first of them.
__device__ void fill_list(const Params& p, Shared& s, Cursor c, AttentionRequest request, int lane) {
  const int heads = p.heads.value;
  const int requests = static_cast<int>(p.call.request_count);
  List& list = s.list;
  int count = 0;
  bool full = false;
  while (c.request < requests && c.cost < c.cost_end) {
    const RequestWork work = request_work(request, heads);
    const int affordable = work.item_cost == 0 ? 0 : (c.cost_end - c.cost + work.item_cost - 1) / work.item_cost;
    const int take = min(min(work.items() - c.item, affordable), kListItems);
    const int item = c.item + lane;
    const int index = item / max(work.slots, 1);
    const int split = item % max(work.slots, 1);
    const RowBlock rows = row_block(request, heads, index);
    const int last_position = request.first_position + p.heads.quotient(max(rows.end - 1, 0));
    const int splits = split_count(last_position);
    const bool there = lane < take && split < splits;
    const unsigned all = __ballot_sync(~0U, there);
    if (count + __popc(all) > kListItems) {
      full = true;
      break;
    }
    if (there) {
      const int each = split_pages(last_position);
      const int first_page = split * each;
      // The lanes before this one then have all of the group's splits before.
      const bool folds = split % kGroup != 0 && split % kGroup <= lane;
      const int slot = folds ? split / kGroup * kGroup : split;
      const unsigned whole = split == 0 ? 1U + kMaxSplits - splits : 1U;
      list.items[count + __popc(all & ((1U << lane) - 1))] = {
          .pages = request.pages + first_page,
          .page_count = min(each, last_position / kPage + 1 - first_page),
          .first_page = first_page,
          .seen = last_position + 1 - first_page * kPage,
          .block = c.block_base + index,
          .split = split,
          .slot = slot,
          .continues = split > 0 && lane > 0,
          .signal = whole + (folds ? 0 : 1U << (16 + slot)),
          .info = {request.row_begin, request.first_position, rows}};
    }
    count += __popc(all);
    c.item += take;
    c.cost += take * work.item_cost;
    if (c.item >= work.items()) {
      ++c.request;
      c.item = 0;
      c.block_base += work.blocks;
      if (c.request < requests) request = p.call.requests[c.request];
    }
  }
  if (lane == 0) {
    s.cursor = c;
    list.count = count;
    list.more = full;
    list.total_blocks = c.total_blocks;
  }
}

}  // namespace strobe::kernel::cuda::sm90::mla
