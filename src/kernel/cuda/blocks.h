// The two small kernels between draft, verify and commit (kernel/args.h), so that a step's lengths never come to the
// host.
#pragma once

#include <cuda_runtime_api.h>

#include "kernel/args.h"

namespace strobe::kernel::cuda {

void fill_drafts(const FillDrafts& call, cudaStream_t stream);
void accept_greedy(const AcceptGreedy& call, cudaStream_t stream);

}  // namespace strobe::kernel::cuda
