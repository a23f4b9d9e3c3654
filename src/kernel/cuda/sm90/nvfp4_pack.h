// Repacks NVFP4 weights for the sm_90 mixture-of-experts kernel (layout: nvfp4_layout.h). Runs on the host, once, at
// load.
#pragma once

#include <cstdint>

#include "tensor/quant_tensor.h"

namespace strobe::kernel::cuda {

// What a packed matrix takes. `out` and `in` must be multiples of 64. The matrix must lie at a multiple of 128 bytes.
[[nodiscard]] int64_t nvfp4_packed_bytes(int64_t out, int64_t in);

// Packs tiles [tile_begin, tile_end) of `weight` [out, in] (kNvfp4, both multiples of 64) into `to`, the start of the
// whole packed matrix: callers share the tiles out among threads. The global scale is not applied.
void pack_nvfp4(const QuantTensor& weight, int64_t tile_begin, int64_t tile_end, uint8_t* to);

// The same for an expert's gate and up projections, both [inter, hidden], as one matrix [2 inter, hidden]: tile i has
// rows 32 i ... 32 i + 31 of gate, then those of up.
void pack_nvfp4_gate_up(const QuantTensor& gate, const QuantTensor& up, int64_t tile_begin, int64_t tile_end,
                        uint8_t* to);

}  // namespace strobe::kernel::cuda
