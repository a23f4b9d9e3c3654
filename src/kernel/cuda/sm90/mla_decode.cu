#include "kernel/cuda/sm90/mla_decode.h"

#include "base/check.h"
#include "kernel/cuda/launch.h"
#include "kernel/cuda/sm90/mla_list.cuh"
#include "kernel/cuda/sm90/mla_load.cuh"
#include "kernel/cuda/sm90/mla_math.cuh"
#include "kernel/cuda/sm90/mla_merge.cuh"

namespace strobe::kernel::cuda::sm90 {
namespace mla {
namespace {

__global__ void __launch_bounds__(kThreads, 1) mla_decode_e4m3_f16(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Shared& s = *reinterpret_cast<Shared*>(raw);
  if (shared_address(raw) != kSharedBase) __trap();
  const int warpgroup = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 128, 0);
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int lane = thread % 32;
  const int warp = __shfl_sync(~0U, thread / 32, 0);
  const bool timed = p.stages != nullptr && warpgroup == 0 && thread == 0;
  if (threadIdx.x == 0) {
    for (int buffer = 0; buffer < 2; ++buffer) {
      for (uint64_t& part : s.full[buffer]) mbarrier_init(&part, kLoadThreads);
      mbarrier_init(&s.published[buffer], 128);
    }
    mbarrier_init(&s.together, kMathThreads);
    fence_mbarrier_init();
  }
  __syncthreads();
  wait_for_launch_ahead();
  let_next_launch_begin();
  if (timed) s.stages = {.begin = clock64()};
  if (warpgroup >= 2) {
    release_registers<kLoadRegisters>();
    const int load_warp = (warpgroup - 2) * 4 + warp;
    if (load_warp == 0) {
      const Cursor cursor = begin_share(p.call, lane);
      if (cursor.total_blocks > p.block_capacity) __trap();  // the workspace is too small
      if (lane == 0) s.cursor = cursor;
    }
    while (true) {
      if (load_warp == 0 && lane == 0) fill_list(p.call, s.cursor, s.list);
      __syncwarp();
      named_barrier_sync(kListBarrier, kThreads);
      const int count = s.list.count;
      const bool more = s.list.more;
      load_items(p, s, load_warp, lane);
      named_barrier_sync(kListBarrier, kThreads);
      if (load_warp == 0 && lane < count) atomicAdd(&p.ready[s.list.items[lane].block], s.list.items[lane].signal);
      __syncwarp();
      if (!more) break;
    }
  } else {
    claim_registers<kMathRegisters>();
    release_page(0);
    release_page(1);
    const Place place{
        .warpgroup = warpgroup, .thread = thread, .lane = lane, .row = warp * 16 + lane / 4, .column = lane % 4 * 2};
    int loaded_block = -1;
    Phases phases;
    while (true) {
      named_barrier_sync(kListBarrier, kThreads);
      if (timed && s.stages.listed == 0) s.stages.listed = clock64();
      const bool more = s.list.more;
      run_items(p, s, place, phases, loaded_block, timed);
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

// The workspace: counters first, which are zero between calls.
struct Layout {
  int64_t infos, shares, partials, total;
};

Layout layout_of(int64_t row_blocks) {
  Layout l{};
  l.infos = (2 * row_blocks * 4 + 255) / 256 * 256;
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
                      .ready = reinterpret_cast<unsigned*>(base),
                      .merged = reinterpret_cast<unsigned*>(base) + workspace.row_blocks,
                      .block_capacity = workspace.row_blocks,
                      .stages = stages};
  constexpr int kSharedBytes = sizeof(Shared);
  allow_shared_memory(reinterpret_cast<const void*>(mla_decode_e4m3_f16), kSharedBytes, "mla_decode_e4m3_f16");
  // It begins while the launch ahead ends.
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  const cudaLaunchConfig_t config{.gridDim = static_cast<unsigned>(multiprocessors()),
                                  .blockDim = kThreads,
                                  .dynamicSmemBytes = kSharedBytes,
                                  .stream = stream,
                                  .attrs = &early,
                                  .numAttrs = 1};
  check(cudaLaunchKernelEx(&config, mla_decode_e4m3_f16, params), "mla_decode_e4m3_f16");
}

}  // namespace strobe::kernel::cuda::sm90
