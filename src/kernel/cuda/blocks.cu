#include "kernel/cuda/blocks.h"
#include "kernel/cuda/launch.h"

namespace strobe::kernel::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void fill_drafts_kernel(const FillDrafts call) {
  const int64_t r = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (r < call.blocks.sequences * call.blocks.block_rows && r % call.blocks.block_rows != 0) {
    call.ids[r] = call.drafted[r];
  }
}

// A thread a sequence: blocks are short.
__global__ void accept_greedy_kernel(const AcceptGreedy call) {
  const int64_t s = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (s >= call.blocks.sequences) return;
  const int64_t rows = call.blocks.block_rows;
  const int64_t first = s * rows;
  const int tokens = call.blocks.block_tokens[s];
  int accepted = 0;
  while (accepted + 1 < tokens && call.ids[first + accepted + 1] == call.best[first + accepted]) ++accepted;
  call.accepted[s] = accepted;
  for (int64_t r = 0; r < rows; ++r) {
    call.committed[first + r] = r < tokens && r <= accepted ? call.slots[first + r] : -1;
  }
}

unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

}  // namespace

void fill_drafts(const FillDrafts& call, cudaStream_t stream) {
  const int64_t rows = call.blocks.sequences * call.blocks.block_rows;
  if (rows == 0) return;
  fill_drafts_kernel<<<blocks_for(rows), kThreads, 0, stream>>>(call);
  check_launch("fill_drafts");
}

void accept_greedy(const AcceptGreedy& call, cudaStream_t stream) {
  if (call.blocks.sequences == 0) return;
  accept_greedy_kernel<<<blocks_for(call.blocks.sequences), kThreads, 0, stream>>>(call);
  check_launch("accept_greedy");
}

}  // namespace strobe::kernel::cuda
