// Grouped-query attention on tensor cores, for heads of 64 and 128 numbers.
#pragma once

#include <cuda_runtime_api.h>

#include "kernel/args.h"

namespace strobe::kernel::cuda {

// Whether gqa() takes the call: head_dim 64 or 128, values of the same size, bf16 or e4m3 stores whose slots start on
// 16 bytes, k and v alike.
[[nodiscard]] bool gqa_applies(const GqaAttention& call);
void gqa(const GqaAttention& call, cudaStream_t stream);

}  // namespace strobe::kernel::cuda
