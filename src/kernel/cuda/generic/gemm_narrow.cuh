// Matrix products for few rows: a block of threads has 16 rows of the weight, a warp a class of their columns. Weights
// go from memory straight into registers, where they are operands of the tensor cores.
#pragma once

#include "kernel/cuda/generic/gemm_problem.cuh"
#include "kernel/cuda/generic/launch.cuh"

namespace strobe::kernel::cuda {

// How operands are read.
enum class GemmLoad {
  kBf16,   // bf16 weights and x, both aligned
  kAny,    // bf16 weights, anything else
  kNvfp4,  // NVFP4 weights
};

// Weights are read once: past the L1 cache.
__device__ inline uint4 load_streamed(const void* from) {
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from));
  return v;
}

// Eight NVFP4 numbers as bf16: code times block scale is exact, the global scale comes last.
__device__ inline uint4 decode_nvfp4(uint32_t codes, float scale) {
  uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float v[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const uint32_t code = codes >> (8 * i + 4 * j);
      // The three lower bits as exponent and mantissa of a float are 2^-126 times the magnitude.
      const float magnitude = __uint_as_float((code & 7) << 22) * 0x1p126F;
      v[j] = __uint_as_float(__float_as_uint(magnitude) | (code & 8) << 28) * scale;
    }
    pairs[i] = float_bf16x2(v[0], v[1]);
  }
  return {pairs[0], pairs[1], pairs[2], pairs[3]};
}

// Eight columns of a row of the weight; zeros outside of it.
template <GemmLoad kLoad>
__device__ uint4 load_weight(const DeviceProblem& p, int64_t row, int column) {
  if (row >= p.out || column >= p.in) return {};
  const int64_t start = row * p.in + column;
  if constexpr (kLoad == GemmLoad::kBf16) {
    return load_streamed(static_cast<const uint16_t*>(p.weight) + start);
  } else if constexpr (kLoad == GemmLoad::kAny) {
    const Rows weight{.data = const_cast<void*>(p.weight), .dtype = DType::kBf16, .stride = p.in};
    return read_8_as_bf16(weight, row, column, p.in, p.weight_aligned);
  } else {
    const uint32_t codes = *reinterpret_cast<const uint32_t*>(static_cast<const uint8_t*>(p.weight) + start / 2);
    return decode_nvfp4(codes, e4m3_float(p.scales[start / 16]));
  }
}

template <GemmLoad kLoad>
__device__ uint4 load_x(const DeviceProblem& p, int64_t row, int column) {
  if (row < 0 || column >= p.in) return {};
  if constexpr (kLoad == GemmLoad::kBf16) {
    return *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(p.x.data) + row * p.x.stride + column);
  } else {
    return read_8_as_bf16(p.x, row, column, p.in, p.x_aligned);
  }
}

// Grid: tiles of the weight, of kTokenTiles * 8 tokens, problems. Warps of a block: classes_of(in).
template <GemmLoad kLoad, int kTokenTiles, int kProblems>
__global__ void __launch_bounds__(32 * kMaxClasses)
    gemm_narrow(const __grid_constant__ DeviceProblems<kProblems> problems) {
  constexpr int kTokens = 8 * kTokenTiles;
  constexpr int kPad = 20;  // floats between tokens: no two lanes of a warp write to one bank
  constexpr int kAhead = kLoad != GemmLoad::kBf16 ? 1 : kTokenTiles == 1 ? 4 : 2;  // chunks
  constexpr int kXAhead = kTokenTiles == 4 ? 1 : kAhead;
  __shared__ float partial[kMaxClasses][kTokens][kPad];
  const DeviceProblem& p = problems.problem[blockIdx.z];
  const int row0 = static_cast<int>(blockIdx.x) * kOutTile;
  const int token0 = static_cast<int>(blockIdx.y) * kTokens;
  if (row0 >= p.out || token0 >= p.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const int classes = static_cast<int>(blockDim.x) / 32;
  const int chunks = chunks_of(p.in);

  uint4 weights[kAhead][2][2];
  const auto load_weights = [&](int first) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int column = (first + i * classes) * kChunk + 32 * half + 8 * t;
        weights[i][half][0] = load_weight<kLoad>(p, row0 + g, column);
        weights[i][half][1] = load_weight<kLoad>(p, row0 + g + 8, column);
      }
    }
  };
  if (p.range == nullptr) load_weights(warp);  // nobody writes weights: no need to wait
  wait_for_launch_ahead();
  let_next_launch_begin();
  const RowRange rows = rows_of(p);
  if (token0 >= rows.count) return;
  if (p.range != nullptr) load_weights(warp);

  int64_t sources[kTokenTiles];  // rows of x, -1 for none
#pragma unroll
  for (int j = 0; j < kTokenTiles; ++j) {
    const int token = token0 + 8 * j + g;
    sources[j] = token >= rows.count ? -1 : p.x_rows == nullptr ? rows.begin + token : p.x_rows[rows.begin + token];
  }
  float sums[kTokenTiles][4] = {};
  for (int first = warp; first < chunks; first += kAhead * classes) {
    if (first != warp) load_weights(first);
    uint4 x[kXAhead][2][kTokenTiles];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (i % kXAhead == 0) {
#pragma unroll
        for (int k = 0; k < 2 * kXAhead; ++k) {
          const int column = (first + (i + k / 2) * classes) * kChunk + 32 * (k % 2) + 8 * t;
#pragma unroll
          for (int j = 0; j < kTokenTiles; ++j) x[k / 2][k % 2][j] = load_x<kLoad>(p, sources[j], column);
        }
      }
      if (first + i * classes >= chunks) break;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int j = 0; j < kTokenTiles; ++j) {
          multiply_32_columns(sums[j], weights[i][half][0], weights[i][half][1], x[i % kXAhead][half][j]);
        }
      }
    }
  }

#pragma unroll
  for (int j = 0; j < kTokenTiles; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) partial[warp][8 * j + 2 * t + i % 2][g + i / 2 * 8] = sums[j][i];
  }
  __syncthreads();
  const int used = min(classes, chunks);
  for (int i = static_cast<int>(threadIdx.x); i < kTokens * kOutTile; i += static_cast<int>(blockDim.x)) {
    const int token = token0 + i / kOutTile;
    const int row = row0 + i % kOutTile;
    if (token >= rows.count || row >= p.out) continue;
    float sum = 0;
    for (int c = 0; c < used; ++c) sum += partial[c][i / kOutTile][i % kOutTile];
    finish(p, rows.begin + token, row, kLoad == GemmLoad::kNvfp4 ? sum * p.global_scale : sum);
  }
}

}  // namespace strobe::kernel::cuda
