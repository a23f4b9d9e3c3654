#include "kernel/cpu/generic/kernels.h"
#include "kernel/cpu/pack.h"
#include "kernel/cpu/tables.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

constinit const CpuKernels kKernels{.name = STROBE_ISA_NAME,
                                    .activation = DType::kBf16,
                                    .packed_format = tiled_format,
                                    .pack = pack_tiles,
                                    .gemm = gemm,
                                    .rms_norm = rms_norm,
                                    .rope = rope,
                                    .silu_mul = silu_mul,
                                    .embed = embed,
                                    .copy = copy,
                                    .route = route,
                                    .combine = combine,
                                    .store_rows = store_rows,
                                    .load_rows = load_rows,
                                    .mla_attention = mla_attention,
                                    .gqa_attention = gqa_attention,
                                    .argmax = argmax};

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
