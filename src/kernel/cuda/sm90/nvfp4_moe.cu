// The configurations of nvfp4_moe_kernel.cuh and their launch.
#include "kernel/cuda/launch.h"
#include "kernel/cuda/sm90/nvfp4_moe_epilogue.cuh"

namespace strobe::kernel::cuda {
namespace {

// Halves, blocks of 8 tokens, blocks of 64 columns a stage, stages. A stage of 8 blocks gives a warp two at a time,
// whose latencies overlap: 8 tokens of Kimi-K2 take 341 us on an H200; with stages of 4 blocks 373, with two blocks of
// half the warps per multiprocessor 367. Reading alone takes 335.
using Decode = MoeConfig<4, 1, 8, 4>;
using Prefill = MoeConfig<4, 2, 8, 3>;
using NarrowDecode = MoeConfig<2, 1, 8, 7>;
using NarrowPrefill = MoeConfig<2, 4, 8, 3>;

int multiprocessors() {
  int device = 0;
  int count = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  return count;
}

template <class C>
void launch(MoeParams params, cudaStream_t stream) {
  params.phase[0].tiles = 2 * params.inter / C::kRows;
  params.phase[1].tiles = params.hidden / C::kRows;
  launch_moe_group({.work = params.work,
                    .ids = params.ids,
                    .pairs = params.pairs,
                    .experts = params.experts,
                    .group_rows = C::kTokens,
                    .arrivals = params.tokens * params.phase[1].tiles},
                   stream);

  const auto kernel = nvfp4_moe_kernel<C>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), C::kSharedBytes, "nvfp4_moe");
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(multiprocessors()));
  config.blockDim = dim3(C::kThreads);
  config.dynamicSmemBytes = C::kSharedBytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, params), "nvfp4_moe");
}

}  // namespace

void launch_moe(const MoeParams& params, const MoeTiling& tiling, cudaStream_t stream) {
  if (tiling.halves == 4) {
    tiling.row_blocks == 1 ? launch<Decode>(params, stream) : launch<Prefill>(params, stream);
  } else {
    tiling.row_blocks == 1 ? launch<NarrowDecode>(params, stream) : launch<NarrowPrefill>(params, stream);
  }
}

}  // namespace strobe::kernel::cuda
