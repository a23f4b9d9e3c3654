// The kernel of dense_gemm.h and its launch.
#include <cooperative_groups.h>

#include <algorithm>

#include "kernel/cuda/generic/numbers.cuh"
#include "kernel/cuda/launch.h"
#include "kernel/cuda/sm90/dense_gemm_params.h"
#include "kernel/cuda/sm90/wgmma_bf16.cuh"

namespace strobe::kernel::cuda::sm90 {
namespace {

constexpr int kMaxStages = 16;
constexpr int kBlockBytes = 128;  // of a row: 64 columns

template <int kGroups_, int kTokens_, int kSharedBytes_>
struct DenseConfig {
  static constexpr int kGroups = kGroups_;
  static constexpr int kTokens = kTokens_;
  static constexpr int kOut = 64 * kGroups;
  static constexpr int kConsumers = 128 * kGroups;
  static constexpr int kThreads = kConsumers + 32;
  static constexpr int kWeightBytes = kOut * kBlockBytes;
  static constexpr int kStageBytes = kWeightBytes + kTokens * kBlockBytes;
  static constexpr int kStages = std::min(kMaxStages, (kSharedBytes_ - 1024) / kStageBytes);  // at most
  // The sums of a tile take the place of the ring: [token][kPitch]; the 4 more keep lanes on different banks.
  static constexpr int kPitch = kOut + 4;
  static constexpr int kSumsBytes = kTokens * kPitch * 4;
  static constexpr int shared_bytes(int stages) { return 1024 + std::max(stages * kStageBytes, kSumsBytes); }
  static_assert(shared_bytes(kStages) <= 227 * 1024);
};

struct DenseBarriers {
  uint64_t full[kMaxStages];
  uint64_t empty[kMaxStages];
};

// A position in the ring of stages.
struct DenseStage {
  int index = 0;
  uint32_t parity = 0;
  __device__ void advance(int stages) {
    if (++index == stages) {
      index = 0;
      parity ^= 1U;
    }
  }
};

// What a block of threads computes.
struct DenseTile {
  int problem;
  int out;      // its first row of the weight
  int token;    // its first row of x
  int begin;    // blocks of columns
  int end;
};

__device__ DenseTile tile_of(const DenseParams& p, int out_tile, int token_tile) {
  const int slice = static_cast<int>(blockIdx.x) % p.slices;
  return {.problem = static_cast<int>(blockIdx.z),
          .out = static_cast<int>(blockIdx.y) * out_tile,
          .token = static_cast<int>(blockIdx.x) / p.slices * token_tile,
          .begin = p.blocks * slice / p.slices,
          .end = p.blocks * (slice + 1) / p.slices};
}

// One thread. Weights are asked for before the launch ahead is over: nobody writes them.
template <class C>
__device__ void produce(const DenseParams& p, const DenseTile& tile, DenseBarriers& barriers, uint8_t* ring) {
  const int x_problem = p.one_x ? 0 : tile.problem;
  const int first = min(p.stages, tile.end - tile.begin);
  const auto load_weights = [&](int stage, int block) {
    mbarrier_arrive_expect_bytes(&barriers.full[stage], C::kStageBytes);
    tensor_load(ring + stage * C::kStageBytes, &p.weights, block * 64, tile.out, tile.problem, &barriers.full[stage]);
  };
  const auto load_x = [&](int stage, int block) {
    tensor_load(ring + stage * C::kStageBytes + C::kWeightBytes, &p.x, block * 64, tile.token, x_problem,
                &barriers.full[stage]);
  };
  for (int i = 0; i < first; ++i) load_weights(i, tile.begin + i);
  wait_for_launch_ahead();
  for (int i = 0; i < first; ++i) load_x(i, tile.begin + i);
  DenseStage stage{.index = 0, .parity = 0};
  for (int block = tile.begin + first; block < tile.end; ++block) {
    mbarrier_wait(&barriers.empty[stage.index], stage.parity);
    load_weights(stage.index, block);
    load_x(stage.index, block);
    stage.advance(p.stages);
  }
}

// A warpgroup: 64 rows of the weight. Leaves the sums of the tile where the ring was.
template <class C>
__device__ void consume(const DenseParams& p, const DenseTile& tile, DenseBarriers& barriers, uint8_t* ring) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int group = static_cast<int>(threadIdx.x) / 128;
  const bool leads = thread % 32 == 0;
  float sums[C::kTokens / 2];
  DenseStage stage;
  int before = 0;  // the stage that products may still be reading
  for (int block = tile.begin; block < tile.end; ++block) {
    mbarrier_wait(&barriers.full[stage.index], stage.parity);
    const uint32_t at = shared_address(ring) + stage.index * C::kStageBytes;
    const uint32_t w = tile_descriptor(at + group * 64 * kBlockBytes);
    const uint32_t x = tile_descriptor(at + C::kWeightBytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      wgmma_bf16(sums, advance(w, step * 32), advance(x, step * 32), block > tile.begin || step > 0);
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (leads && block > tile.begin) mbarrier_arrive(&barriers.empty[before]);
    before = stage.index;
    stage.advance(p.stages);
  }
  wgmma_wait<0>();
  wgmma_read_fence(sums);
  named_barrier_sync(1, C::kConsumers);  // no product reads the ring any more
  float* to = reinterpret_cast<float*>(ring) + group * 64 + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
  for (int i = 0; i < C::kTokens / 2; ++i) {
    to[(i / 4 * 8 + thread % 4 * 2 + i % 2) * C::kPitch + i % 4 / 2 * 8] = sums[i];
  }
}

// The slices' sums in their order, to y: each block of the cluster has its part of the tile.
template <class C>
__device__ void finish(const DenseParams& p, const DenseTile& tile, float* sums) {
  auto cluster = cooperative_groups::this_cluster();
  const int slice = static_cast<int>(cluster.block_rank());
  const int tokens = min(C::kTokens, p.rows - tile.token);
  const int columns = min(C::kOut, p.out - tile.out);
  for (int i = slice * C::kThreads + static_cast<int>(threadIdx.x); i < tokens * (C::kOut / 4);
       i += p.slices * C::kThreads) {
    const int token = i / (C::kOut / 4);
    const int column = i % (C::kOut / 4) * 4;
    if (column >= columns) continue;
    float4 sum{};
    for (int s = 0; s < p.slices; ++s) {
      const float* part = p.slices == 1 ? sums : cluster.map_shared_rank(sums, static_cast<unsigned>(s));
      const float4 v = *reinterpret_cast<const float4*>(part + token * C::kPitch + column);
      sum = s == 0 ? v : float4{sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w};
    }
    const int64_t row = tile.problem * p.y_step + int64_t{tile.token + token} * p.y.stride;
    if (p.accumulate) {
      const float4 y = read_4_guarded(p.y.data, p.y.dtype, row, tile.out + column, p.out, p.y_aligned);
      sum = {sum.x + y.x, sum.y + y.y, sum.z + y.z, sum.w + y.w};
    }
    write_4_guarded(p.y.data, p.y.dtype, row, tile.out + column, p.out, p.y_aligned, sum);
  }
}

// Grid: slices (a cluster) of tiles of tokens; tiles of the weight; problems.
template <class C>
__global__ void __launch_bounds__(C::kThreads, 1) dense_gemm_kernel(const __grid_constant__ DenseParams p) {
  extern __shared__ uint8_t memory[];
  __shared__ DenseBarriers barriers;
  uint8_t* ring = memory + (1024 - shared_address(memory) % 1024) % 1024;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < p.stages; ++i) {
      mbarrier_init(&barriers.full[i], 1);
      mbarrier_init(&barriers.empty[i], C::kConsumers / 32);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  let_next_launch_begin();
  const DenseTile tile = tile_of(p, C::kOut, C::kTokens);
  if (warp == C::kConsumers / 32) {
    if (elect_lane()) produce<C>(p, tile, barriers, ring);
    __syncwarp();
    wait_for_launch_ahead();
  } else {
    wait_for_launch_ahead();
    consume<C>(p, tile, barriers, ring);
  }
  const bool alone = p.slices == 1;
  if (alone) {
    __syncthreads();
  } else {
    cooperative_groups::this_cluster().sync();
  }
  finish<C>(p, tile, reinterpret_cast<float*>(ring));
  if (!alone) cooperative_groups::this_cluster().sync();  // nobody leaves while others read his shared memory
}

template <class C>
void launch(DenseParams params, cudaStream_t stream) {
  const auto kernel = dense_gemm_kernel<C>;
  params.stages = std::min(C::kStages, (params.blocks + params.slices - 1) / params.slices);
  allow_shared_memory(reinterpret_cast<const void*>(kernel), C::shared_bytes(C::kStages), "dense_gemm");
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(params.slices), 1, 1};
  cudaLaunchConfig_t config{};
  const auto tiles = [](int items, int per_tile) { return static_cast<unsigned>((items + per_tile - 1) / per_tile); };
  config.gridDim = {static_cast<unsigned>(params.slices) * tiles(params.rows, C::kTokens), tiles(params.out, C::kOut),
                    static_cast<unsigned>(params.count)};
  config.blockDim = C::kThreads;
  config.dynamicSmemBytes = static_cast<size_t>(C::shared_bytes(params.stages));
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  check(cudaLaunchKernelEx(&config, kernel, params), "dense_gemm");
}

constexpr int kHalf = 112 * 1024;  // two blocks of threads a multiprocessor
constexpr int kWhole = 225 * 1024;

}  // namespace

void launch_dense(const DenseParams& params, const DenseTiling& tiling, cudaStream_t stream) {
  if (tiling == DenseTiling{1, 8}) return launch<DenseConfig<1, 8, kHalf>>(params, stream);
  if (tiling == DenseTiling{1, 16}) return launch<DenseConfig<1, 16, kHalf>>(params, stream);
  if (tiling == DenseTiling{1, 32}) return launch<DenseConfig<1, 32, kHalf>>(params, stream);
  if (tiling == DenseTiling{1, 64}) return launch<DenseConfig<1, 64, kHalf>>(params, stream);
  if (tiling == DenseTiling{1, 128}) return launch<DenseConfig<1, 128, kHalf>>(params, stream);
  if (tiling == DenseTiling{2, 128}) return launch<DenseConfig<2, 128, kWhole>>(params, stream);
  launch<DenseConfig<2, 256, kWhole>>(params, stream);
}

}  // namespace strobe::kernel::cuda::sm90
