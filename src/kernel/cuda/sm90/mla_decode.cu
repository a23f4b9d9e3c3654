#include "kernel/cuda/sm90/mla_decode.h"

#include "base/check.h"
#include "kernel/cuda/launch.h"
#include "kernel/cuda/sm90/mla_list.cuh"
#include "kernel/cuda/sm90/mla_load.cuh"
#include "kernel/cuda/sm90/mla_merge.cuh"
#include "kernel/cuda/sm90/mla_run.cuh"

namespace strobe::kernel::cuda::sm90 {
namespace mla {
namespace {

// Which half of the ready counters is this call's. Between two calls `turn` is a whole number of kTurn, and within one
// it stays below the next until the last block of threads has been here. One thread.
__device__ inline int take_turn(const Params& p) {
  const unsigned step = blockIdx.x == 0 ? kTurn - (gridDim.x - 1) : 1;
  return static_cast<int>(atomicAdd(p.turn, step) / kTurn % 2);
}

// The other half becomes zero for the next call. One thread.
__device__ inline void clear_next_turn(const Params& p, int turn) {
  unsigned* next = p.ready + (1 - turn) * p.block_capacity;
  for (int64_t i = blockIdx.x; i < p.block_capacity; i += gridDim.x) next[i] = 0;
}

// The next list. One math warp: it has the registers for it.
__device__ inline void list_from(const Params& p, Shared& s, const Cursor& from, int lane) {
  const bool any = from.request < p.call.request_count;
  fill_list(p, s, from, any ? p.call.requests[from.request] : AttentionRequest{}, lane);
}

// Math warps of a call of one request: each finds its first row block by itself and asks for the queries, while a warp
// that later brings pages fills the list.
__device__ inline void begin_one(const Params& p, Shared& s, const Place& place) {
  const bool turns = place.warpgroup == 1 && place.thread == 0;
  const int turn = turns ? take_turn(p) : 0;
  const AttentionRequest request = p.call.requests[0];
  const Cursor cursor = share_of_one(p, request);
  stamp(p, s, &MlaStages::listed);
  int block = -1;
  if (cursor.request == 0) {
    block = cursor.item / request_work(request, p.heads.value).slots;
    const BlockInfo info{request.row_begin, request.first_position, row_block(request, p.heads.value, block)};
    load_q(p, s, info, place);
    place_rows(p, s, info, place);
    named_barrier_arrive(kQueriesBarrier, kThreads);
  }
  if (turns) {
    s.turn = turn;
    s.loaded_block = block;
    clear_next_turn(p, turn);
  }
  named_barrier_sync(kBeginBarrier, kMathThreads + 32);
}

// kOne: the call has one request.
template <bool kOne>
__global__ void __launch_bounds__(kThreads, 1) mla_decode_e4m3_f16(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Shared& s = *reinterpret_cast<Shared*>(raw);
  if (shared_address(raw) != kSharedBase) __trap();
  const int warpgroup = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 128, 0);
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32 % 4, 0);
  if (threadIdx.x < kSlots) {
    mbarrier_init(&s.full[threadIdx.x], kLoadThreads);
    mbarrier_init(&s.empty[threadIdx.x], kMathWarps);
    fence_mbarrier_init();
  } else if (threadIdx.x == 32) {
    for (int parity = 0; parity < 2; ++parity) {
      mbarrier_init(&s.published[parity], 128);
      mbarrier_init(&s.consumed[parity], 4);
    }
    mbarrier_init(&s.together, kMathThreads);
    s.plain = true;
    s.loaded_block = -1;
    fence_mbarrier_init();
  }
  for (int64_t i = threadIdx.x; i < p.call.request_count; i += kThreads) prefetch_l2(p.call.requests + i);
  __syncthreads();
  wait_for_launch_ahead();
  let_next_launch_begin();
  if (p.stages != nullptr && threadIdx.x == 0) s.stages = {.begin = clock64()};
  if (warpgroup == 2) {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    if (kOne && warp == 0) {  // before the registers that it takes go to the others
      const AttentionRequest request = p.call.requests[0];
      fill_list(p, s, share_of_one(p, request), request, thread);
      named_barrier_arrive(kBeginBarrier, kMathThreads + 32);
    }
    release_registers<kLoadRegisters>();
    if (kOne) {
      named_barrier_sync(kLoadBarrier, kLoadThreads);
    } else {
      if (thread == 0) {
        s.turn = take_turn(p);
        clear_next_turn(p, s.turn);
      }
      named_barrier_sync(kListedBarrier, kThreads);
    }
    HalfPage to_fill;
    bool alone = true;
    while (true) {
      load_items(p, s, to_fill, thread, alone);
      const bool more = s.list.more;
      // Read before the barrier: behind it the list may be filled anew.
      const Signal signal = warp == 0 ? signal_of_item(s.list, thread) : Signal{};
      named_barrier_sync(kListBarrier, kThreads);
      if (signal.count != 0) atomicAdd(p.ready + s.turn * p.block_capacity + signal.block, signal.count);
      __syncwarp();
      if (!more) break;
      named_barrier_sync(kListedBarrier, kThreads);
    }
  } else {
    if (kOne) begin_one(p, s, place_here());
    claim_registers<kMathRegisters>();
    const Place place = place_here();
    const bool lists = place.warpgroup == 0 && place.warp == 0;
    if (!kOne) {
      if (lists) list_from(p, s, begin_share(p, place.lane), place.lane);
      named_barrier_sync(kListedBarrier, kThreads);
      stamp(p, s, &MlaStages::listed);
    }
    HalfPage next;  // the first of the next item
    Phases phases;
    while (true) {
      run_items(p, s, place, next, phases, p.stages != nullptr && place.warpgroup == 0 && place.thread == 0);
      const bool more = s.list.more;
      __threadfence();
      named_barrier_sync(kListBarrier, kThreads);
      if (!more) break;
      if (lists) {
        const Cursor from = s.cursor;
        list_from(p, s, from, place.lane);
      }
      named_barrier_sync(kListedBarrier, kThreads);
    }
    stamp(p, s, &MlaStages::partials);
    merge(p, s, place_here());
    stamp(p, s, &MlaStages::end);
    if (p.stages != nullptr && threadIdx.x == 0) p.stages[blockIdx.x] = s.stages;
  }
}

// The workspace: counters first.
struct Layout {
  int64_t ready, infos, shares, partials, total;
};

Layout layout_of(int64_t row_blocks) {
  Layout l{};
  l.ready = 256;
  l.infos = l.ready + (2 * row_blocks * 4 + 255) / 256 * 256;
  l.shares = l.infos + (row_blocks * static_cast<int64_t>(sizeof(BlockInfo)) + 255) / 256 * 256;
  l.partials = l.shares + row_blocks * kMaxSplits * kRowBlock * static_cast<int64_t>(sizeof(Share));
  l.total = l.partials + row_blocks * kMaxSplits * kPartialBytes;
  return l;
}

int multiprocessors() {
  int device = 0;
  int count = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  return count;
}

}  // namespace
}  // namespace mla

using namespace mla;  // NOLINT: this file's own parts

MlaWorkspace::MlaWorkspace(int64_t rows, int64_t requests, int64_t heads)
    : row_blocks((rows * heads + kRowBlock - 1) / kRowBlock + 2 * requests), bytes(layout_of(row_blocks).total) {}

void mla_decode(const MlaAttention& call, const MlaWorkspace& workspace, cudaStream_t stream, MlaStages* stages) {
  if (call.request_count == 0) return;
  STROBE_CHECK(call.latent == kMlaLatent && call.rope == kMlaRope && call.store.page_size == kMlaPage &&
                   call.store.dtype == DType::kE4m3,
               "latent {}, rope {}, {} in pages of {}", call.latent, call.rope, to_string(call.store.dtype),
               call.store.page_size);
  const int grid = multiprocessors();
  STROBE_CHECK(grid <= static_cast<int>(kTurn), "{} multiprocessors", grid);
  const Layout layout = layout_of(workspace.row_blocks);
  auto* base = static_cast<unsigned char*>(workspace.data);
  const Params params{.call = call,
                      .heads = divisor(static_cast<int>(call.heads)),
                      .grid = divisor(grid),
                      .log2_scale = call.scale * call.store.scale * kLog2e,
                      .partials = reinterpret_cast<uint4*>(base + layout.partials),
                      .shares = reinterpret_cast<Share*>(base + layout.shares),
                      .infos = reinterpret_cast<BlockInfo*>(base + layout.infos),
                      .turn = reinterpret_cast<unsigned*>(base),
                      .ready = reinterpret_cast<unsigned*>(base + layout.ready),
                      .block_capacity = workspace.row_blocks,
                      .stages = stages};
  constexpr int kSharedBytes = sizeof(Shared);
  const auto kernel = call.request_count == 1 ? mla_decode_e4m3_f16<true> : mla_decode_e4m3_f16<false>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), kSharedBytes, "mla_decode_e4m3_f16");
  // It begins while the launch ahead ends.
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  const cudaLaunchConfig_t config{.gridDim = static_cast<unsigned>(grid),
                                  .blockDim = kThreads,
                                  .dynamicSmemBytes = kSharedBytes,
                                  .stream = stream,
                                  .attrs = &early,
                                  .numAttrs = 1};
  check(cudaLaunchKernelEx(&config, kernel, params), "mla_decode_e4m3_f16");
}

}  // namespace strobe::kernel::cuda::sm90
