// QuantTensor: a weight matrix as ONE value: numbers, scales and the format that says how to read them.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

namespace strobe {

// How the numbers of a weight matrix W [out, in] lie in memory.
enum class WeightFormat {
  // As in checkpoint files, row-major.
  kF32,    // data f32 [out, in]
  kBf16,   // data bf16 [out, in]
  kNvfp4,  // data u8 [out, in / 2], low nibble = even column; scales e4m3 [out, in / 16]; times global_scale
  // As the CPU kernels read them: tiles of 16 rows (zero rows pad the last tile), columns in pairs (a zero column pads
  // an
  // odd `in`), so that 64 bytes hold 16 rows x 2 columns: [out/16][in/2][16][2].
  kBf16Tile16,
  // The 16-row tiles of NVFP4, per group of 16 columns: 16 e4m3 scales, then 128 bytes of nibbles (layout: the
  // kernel's).
  kNvfp4Tile16,
};

[[nodiscard]] std::string_view to_string(WeightFormat format);

struct QuantTensor {
  WeightFormat format = WeightFormat::kBf16;
  int64_t out = 0;  // rows
  int64_t in = 0;   // columns
  const void* data = nullptr;
  const void* scales = nullptr;  // e4m3, only for kNvfp4 (the tiled form carries its scales inside `data`)
  float global_scale = 1.0F;     // multiplies every value; 1 except for NVFP4
  Device device;

  [[nodiscard]] bool defined() const { return data != nullptr; }
  // Rows [begin, end) of a row-major format; scales follow.
  [[nodiscard]] QuantTensor rows(int64_t begin, int64_t end) const;
};

// Bytes that `data` takes (scales inside or beside it included).
[[nodiscard]] int64_t weight_bytes(WeightFormat format, int64_t out, int64_t in);

}  // namespace strobe
