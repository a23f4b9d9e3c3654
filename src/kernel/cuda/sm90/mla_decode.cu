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

// Which half of the ready counters is this call's; the other becomes zero for the next call. Between two calls `turn`
// is a whole number of kTurn, and within one it stays below the next until the last block of threads has been here. One
// thread.
__device__ int take_turn(const Params& p) {
  const unsigned step = blockIdx.x == 0 ? kTurn - (gridDim.x - 1) : 1;
  const unsigned turn = atomicAdd(p.turn, step) / kTurn % 2;
  unsigned* next = p.ready + (1 - turn) * p.block_capacity;
  for (int64_t i = blockIdx.x; i < p.block_capacity; i += gridDim.x) next[i] = 0;
  return static_cast<int>(turn);
}

__global__ void __launch_bounds__(kThreads, 1) mla_decode_e4m3_f16(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Shared& s = *reinterpret_cast<Shared*>(raw);
  if (shared_address(raw) != kSharedBase) __trap();
  const int warpgroup = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 128, 0);
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int lane = thread % 32;
  const int warp = __shfl_sync(~0U, thread / 32, 0);
  const bool timed = p.stages != nullptr && warpgroup == 0 && thread == 0;
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
    fence_mbarrier_init();
  }
  for (int64_t i = threadIdx.x; i < p.call.request_count; i += kThreads) prefetch_l2(p.call.requests + i);
  __syncthreads();
  wait_for_launch_ahead();
  let_next_launch_begin();
  if (timed) s.stages = {.begin = clock64()};
  if (warpgroup == 2) {
    release_registers<kLoadRegisters>();
    if (warp == 0 && lane == 0) s.turn = take_turn(p);
    HalfPage to_fill;
    bool alone = true;
    while (true) {
      named_barrier_sync(kListBarrier, kThreads);
      const int count = s.list.count;
      const bool more = s.list.more;
      load_items(p, s, to_fill, thread, alone);
      named_barrier_sync(kListBarrier, kThreads);
      if (warp == 0 && lane < count) {
        const Item& item = s.list.items[lane];
        atomicAdd(p.ready + s.turn * p.block_capacity + item.block, item.signal);
      }
      __syncwarp();
      if (!more) break;
    }
  } else {
    claim_registers<kMathRegisters>();
    const Place place{.warpgroup = warpgroup,
                      .warp = warp,
                      .thread = thread,
                      .lane = lane,
                      .row = warp * 16 + lane / 4,
                      .column = lane % 4 * 2};
    const bool lists = warpgroup == 0 && warp == 0;  // it has the registers for it
    if (lists) begin_share(p, s.cursor, lane);
    int loaded_block = -1;
    HalfPage next;  // the first of the next item
    Phases phases;
    while (true) {
      if (lists) fill_list(p.call, s.cursor, s.list, lane);
      named_barrier_sync(kListBarrier, kThreads);
      if (timed && s.stages.listed == 0) s.stages.listed = clock64();
      const bool more = s.list.more;
      run_items(p, s, place, next, phases, loaded_block, timed);
      __threadfence();
      named_barrier_sync(kListBarrier, kThreads);
      if (!more) break;
    }
    if (timed) s.stages.partials = clock64();
    merge(p, s, warpgroup * 4 + warp, lane);
    if (timed) {
      s.stages.end = clock64();
      p.stages[blockIdx.x] = s.stages;
    }
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
  const Layout layout = layout_of(workspace.row_blocks);
  auto* base = static_cast<unsigned char*>(workspace.data);
  const Params params{.call = call,
                      .log2_scale = call.scale * call.store.scale * kLog2e,
                      .partials = reinterpret_cast<uint4*>(base + layout.partials),
                      .shares = reinterpret_cast<Share*>(base + layout.shares),
                      .infos = reinterpret_cast<BlockInfo*>(base + layout.infos),
                      .turn = reinterpret_cast<unsigned*>(base),
                      .ready = reinterpret_cast<unsigned*>(base + layout.ready),
                      .block_capacity = workspace.row_blocks,
                      .stages = stages};
  const int grid = multiprocessors();
  STROBE_CHECK(grid <= static_cast<int>(kTurn), "{} multiprocessors", grid);
  constexpr int kSharedBytes = sizeof(Shared);
  allow_shared_memory(reinterpret_cast<const void*>(mla_decode_e4m3_f16), kSharedBytes, "mla_decode_e4m3_f16");
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
  check(cudaLaunchKernelEx(&config, mla_decode_e4m3_f16, params), "mla_decode_e4m3_f16");
}

}  // namespace strobe::kernel::cuda::sm90
