// The kernel of prompt_attention.h and its launch.
#include "kernel/cuda/sm90/prompt_attention.h"

#include <algorithm>

#include "base/check.h"
#include "kernel/cuda/generic/gqa_tile.cuh"
#include "kernel/cuda/generic/numbers.cuh"
#include "kernel/cuda/launch.h"
#include "kernel/cuda/sm90/tensor_map.h"
#include "kernel/cuda/sm90/wgmma_bf16.cuh"

namespace strobe::kernel::cuda::sm90 {
namespace {

constexpr int kRows = 128;                       // of a block of threads
constexpr int kGroupRows = 64;                   // of a warpgroup
constexpr int kKeys = 128;                       // of a tile
constexpr int kStages = 2;                       // tiles of keys, and of values
constexpr int kColumnBytes = 128;                // of a row: 64 columns
constexpr int kBoxBytes = kKeys * kColumnBytes;  // 64 columns of a tile
constexpr int kConsumers = 256;                  // threads; warpgroup 2 brings tiles
constexpr int kThreads = 384;
constexpr int kConsumerRegisters = 240;
constexpr int kProducerRegisters = 24;
static_assert(kRows == kKeys);  // boxes of queries are as large as those of keys

// Named barriers: 1 and 2 of a warpgroup's turn, 3 and 4 of a warpgroup alone.
constexpr int kTurnBarrier = 1;
constexpr int kOwnBarrier = 3;

template <int kHeadDim_, int kValueDim_>
struct PromptConfig {
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kValueDim = kValueDim_;
  static constexpr int kKeyBytes = kHeadDim / 64 * kBoxBytes;  // a tile
  static constexpr int kValueBytes = kValueDim / 64 * kBoxBytes;
  static constexpr int kSharedBytes = 1024 + kKeyBytes + kStages * (kKeyBytes + kValueBytes);
  static_assert(kHeadDim % 64 == 0 && kValueDim % 64 == 0);
  static_assert(kValueDim <= kHeadDim);  // results take the place of queries
  static_assert(kSharedBytes <= 226 * 1024);
};

struct PromptParams {
  CUtensorMap q;
  CUtensorMap k;
  CUtensorMap v;
  const AttentionRequest* requests = nullptr;
  int32_t request_count = 0;
  float log2_scale = 1;  // of scores, for powers of two
  uint16_t* out = nullptr;
  int64_t out_stride = 0;
};

struct PromptBarriers {
  uint64_t queries;
  uint64_t keys_full[kStages], keys_empty[kStages];
  uint64_t values_full[kStages], values_empty[kStages];
};

// Where operands lie in shared memory: boxes of [128 rows, 64 columns].
struct PromptShared {
  uint8_t* queries;
  uint8_t* keys;    // [stage]
  uint8_t* values;  // [stage]
};

// What a block of threads computes.
struct PromptTile {
  AttentionRequest request;
  int row;    // its first one, of the request
  int tiles;  // of keys
};

// A position in the ring of stages.
struct PromptStage {
  int index = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    if (++index == kStages) {
      index = 0;
      parity ^= 1U;
    }
  }
};

// Blocks of rows of a request in descending order. `tiles` 0: nothing to do.
__device__ PromptTile prompt_tile_of(const PromptParams& p) {
  const gqa_detail::Tile found =
      gqa_detail::find_tile(p.requests, p.request_count, 1, kRows, static_cast<int>(blockIdx.x));
  if (found.request < 0) return {.request = {}, .row = 0, .tiles = 0};
  const AttentionRequest request = p.requests[found.request];
  const int row = (request.row_count - 1) / kRows * kRows - found.first;
  const int rows = min(kRows, request.row_count - row);
  const int seen = min(request.first_position + row + rows, request.key_count);
  return {.request = request, .row = row, .tiles = max((seen + kKeys - 1) / kKeys, 1)};
}

// One thread.
template <class C>
__device__ void produce(const PromptParams& p, const PromptTile& tile, PromptBarriers& barriers,
                        const PromptShared& shared) {
  const int head = static_cast<int>(blockIdx.y);
  mbarrier_arrive_expect_bytes(&barriers.queries, C::kKeyBytes);
#pragma unroll
  for (int box = 0; box < C::kHeadDim / 64; ++box) {
    tensor_load(shared.queries + box * kBoxBytes, &p.q, head * C::kHeadDim + box * 64,
                tile.request.row_begin + tile.row, 0, &barriers.queries);
  }
  PromptStage stage;
  for (int i = tile.tiles - 1; i >= 0; --i, stage.advance()) {
    mbarrier_wait(&barriers.keys_empty[stage.index], stage.parity ^ 1U);
    mbarrier_arrive_expect_bytes(&barriers.keys_full[stage.index], C::kKeyBytes);
#pragma unroll
    for (int box = 0; box < C::kHeadDim / 64; ++box) {
      tensor_load(shared.keys + stage.index * C::kKeyBytes + box * kBoxBytes, &p.k, head * C::kHeadDim + box * 64,
                  i * kKeys, 0, &barriers.keys_full[stage.index]);
    }
    mbarrier_wait(&barriers.values_empty[stage.index], stage.parity ^ 1U);
    mbarrier_arrive_expect_bytes(&barriers.values_full[stage.index], C::kValueBytes);
#pragma unroll
    for (int box = 0; box < C::kValueDim / 64; ++box) {
      tensor_load(shared.values + stage.index * C::kValueBytes + box * kBoxBytes, &p.v,
                  head * C::kValueDim + box * 64, i * kKeys, 0, &barriers.values_full[stage.index]);
    }
  }
}

// A warpgroup: 64 rows. A thread holds two rows of each result (wgmma.cuh), `row` and the one 8 below.
template <class C>
struct PromptGroup {
  using Scores = float[kKeys / 2];
  using Probabilities = uint32_t[kKeys / 16][4];

  PromptBarriers& barriers;
  const PromptShared& shared;
  float log2_scale;
  int group;
  int thread;    // of the warpgroup
  int limit[2];  // positions in front of this one are seen
  int plain;     // tiles in front of this one are seen by all rows of the warpgroup
  float out[C::kValueDim / 2] = {};
  float highest[2] = {gqa_detail::kNothing, gqa_detail::kNothing};  // score so far
  float total[2] = {};                                              // of this thread's probabilities

  __device__ bool leads() const { return thread % 32 == 0; }

  // Scores of a tile, committed.
  __device__ void start_scores(Scores& scores, int stage) const {
    const uint32_t q = tile_descriptor(shared_address(shared.queries) + group * kGroupRows * kColumnBytes);
    const uint32_t k = tile_descriptor(shared_address(shared.keys) + stage * C::kKeyBytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < C::kHeadDim / 16; ++step) {
      const uint32_t at = step / 4 * kBoxBytes + step % 4 * 32;
      wgmma_bf16(scores, advance(q, at), advance(k, at), step > 0);
    }
    wgmma_commit();
  }

  // out += probabilities times the values of a tile, committed.
  __device__ void start_values(const Probabilities& probabilities, int stage) {
    const uint32_t v = tile_descriptor(shared_address(shared.values) + stage * C::kValueBytes, kBoxBytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      wgmma_bf16_rs(out, probabilities[step], advance(v, step * 16 * kColumnBytes), true);
    }
    wgmma_commit();
  }

  // Positions that rows do not see.
  __device__ void mask(Scores& scores, int tile) const {
    const int first = tile * kKeys + thread % 4 * 2;
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      if (first + i / 4 * 8 + i % 2 >= limit[i % 4 / 2]) scores[i] = gqa_detail::kNothing;
    }
  }

  // Scores become probabilities; what `out` is to be multiplied by.
  __device__ void softmax(Scores& scores, int tile, float (&shrink)[2]) {
    if (tile >= plain) mask(scores, tile);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most = highest[r];
#pragma unroll
      for (int i = 2 * r; i < kKeys / 2; i += 4) most = fmaxf(most, fmaxf(scores[i], scores[i + 1]));
      most = fmaxf(most, __shfl_xor_sync(~0U, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0U, most, 2));
      // Of a row that has seen nothing yet every probability is 0, and so is what it is to be multiplied by. Products
      // are rounded, that a row whose highest score stays is multiplied by 1.
      const float reference = most == gqa_detail::kNothing ? 0.0F : __fmul_rn(most, log2_scale);
      shrink[r] = exp2_approximate(__fmul_rn(highest[r], log2_scale) - reference);
      highest[r] = most;
      float added = 0;
#pragma unroll
      for (int i = 2 * r; i < kKeys / 2; i += 4) {
#pragma unroll
        for (int e = i; e < i + 2; ++e) {
          scores[e] = exp2_approximate(fmaf(scores[e], log2_scale, -reference));
          added += scores[e];
        }
      }
      total[r] = fmaf(total[r], shrink[r], added);
    }
  }

  __device__ static void pack(const Scores& scores, Probabilities& probabilities) {
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) {
      probabilities[i / 4][i % 4] = float_bf16x2(scores[2 * i], scores[2 * i + 1]);
    }
  }

  __device__ void rescale(const float (&shrink)[2]) {
#pragma unroll
    for (int i = 0; i < C::kValueDim / 2; ++i) out[i] *= shrink[i % 4 / 2];
  }

  // Values of a tile from `first` on become zeros: 0 times what is stored there may be NaN. Both warpgroups do it, each
  // before its own products.
  __device__ void clear_values(int stage, int first) const {
    uint8_t* to = shared.values + stage * C::kValueBytes;
    const int pieces = (kKeys - first) * (kColumnBytes / 16);
#pragma unroll 1
    for (int box = 0; box < C::kValueDim / 64; ++box) {
#pragma unroll 1
      for (int i = thread; i < pieces; i += 128) {
        *reinterpret_cast<uint4*>(to + box * kBoxBytes + first * kColumnBytes + i * 16) = uint4{};
      }
    }
    fence_async_proxy();
    named_barrier_sync(kOwnBarrier + group, 128);
  }

  // The rows' results to memory, through the shared memory of their queries. `rows`: of the warpgroup, that there are.
  __device__ void finish(uint16_t* to, int64_t stride, int rows) {
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = total[r];
      sum += __shfl_xor_sync(~0U, sum, 1);
      sum += __shfl_xor_sync(~0U, sum, 2);
      factor[r] = sum == 0 ? 0.0F : 1.0F / sum;
    }
    rescale(factor);
    named_barrier_sync(kOwnBarrier + group, 128);  // no product of the warpgroup reads queries any more
    const int lane = thread % 32;
    const int first = thread / 32 * 16;  // a warp's rows are its own from here on
    uint8_t* at = shared.queries + group * kGroupRows * kColumnBytes;
#pragma unroll
    for (int i = 0; i < C::kValueDim / 16; ++i) {
      uint32_t packed[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) packed[j] = float_bf16x2(out[8 * i + 2 * j], out[8 * i + 2 * j + 1]);
      stmatrix_4(shared_address(at) + i / 4 * kBoxBytes + swizzled_16(first + lane % 16, i % 4 * 2 + lane / 16),
                 packed);
    }
    __syncwarp();
    constexpr int kPieces = C::kValueDim / 8;  // of a row
#pragma unroll
    for (int i = lane; i < 16 * kPieces; i += 32) {
      const int row = first + i / kPieces;
      const int piece = i % kPieces;
      if (row >= rows) continue;
      *reinterpret_cast<uint4*>(to + row * stride + piece * 8) =
          *reinterpret_cast<const uint4*>(at + piece / 8 * kBoxBytes + swizzled_16(row, piece % 8));
    }
  }
};

template <class C>
__device__ void consume(const PromptParams& p, const PromptTile& tile, PromptBarriers& barriers,
                        const PromptShared& shared, int group) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int first_row = tile.row + group * kGroupRows;  // of the request
  const int own = tile.request.first_position + first_row;
  const int row = thread / 32 * 16 + thread % 32 / 4;
  PromptGroup<C> rows{.barriers = barriers,
                      .shared = shared,
                      .log2_scale = p.log2_scale,
                      .group = group,
                      .thread = thread,
                      .limit = {min(own + row + 1, tile.request.key_count), min(own + row + 9, tile.request.key_count)},
                      .plain = min(own + 1, tile.request.key_count) / kKeys};
  const int behind = tile.tiles * kKeys - tile.request.key_count;  // positions of the last tile that are not there
  const auto await_turn = [&] { named_barrier_sync(kTurnBarrier + group, kConsumers); };
  const auto give_turn = [&] { named_barrier_arrive(kTurnBarrier + 1 - group, kConsumers); };
  const auto arrive = [&](uint64_t* barrier) {
    if (rows.leads()) mbarrier_arrive(barrier);
  };

  float scores[kKeys / 2];
  uint32_t probabilities[kKeys / 16][4];
  float shrink[2];
  PromptStage keys, values;
  if (group == 1) give_turn();
  mbarrier_wait(&barriers.queries, 0);
  mbarrier_wait(&barriers.keys_full[0], 0);
  await_turn();
  rows.start_scores(scores, 0);
  if (group == 0 || tile.tiles > 1) give_turn();
  wgmma_wait<0>();
  wgmma_read_fence(scores);
  arrive(&barriers.keys_empty[0]);
  keys.advance();
  rows.softmax(scores, tile.tiles - 1, shrink);
  rows.pack(scores, probabilities);
  mbarrier_wait(&barriers.values_full[0], 0);
  if (behind > 0) rows.clear_values(0, kKeys - behind);
  for (int i = tile.tiles - 2; i >= 0; --i) {
    mbarrier_wait(&barriers.keys_full[keys.index], keys.parity);
    await_turn();
    rows.start_scores(scores, keys.index);
    mbarrier_wait(&barriers.values_full[values.index], values.parity);
    rows.start_values(probabilities, values.index);
    if (group == 0 || i > 0) give_turn();
    wgmma_wait<1>();
    wgmma_read_fence(scores);
    arrive(&barriers.keys_empty[keys.index]);
    keys.advance();
    rows.softmax(scores, i, shrink);
    // Never so. But the compiler moves the wait in front of the exponents unless something that depends on their sum
    // stands between.
    if (rows.total[0] + rows.total[1] < 0) __nanosleep(0);
    wgmma_wait<0>();
    wgmma_read_fence(rows.out);
    arrive(&barriers.values_empty[values.index]);
    values.advance();
    rows.rescale(shrink);
    rows.pack(scores, probabilities);
  }
  mbarrier_wait(&barriers.values_full[values.index], values.parity);
  rows.start_values(probabilities, values.index);
  wgmma_wait<0>();
  wgmma_read_fence(rows.out);
  rows.finish(p.out + (tile.request.row_begin + first_row) * p.out_stride + blockIdx.y * C::kValueDim, p.out_stride,
              tile.request.row_count - first_row);
}

// Grid: blocks of rows; heads.
template <class C>
__global__ void __launch_bounds__(kThreads, 1) prompt_attention_kernel(const __grid_constant__ PromptParams p) {
  extern __shared__ uint8_t memory[];
  __shared__ PromptBarriers barriers;
  uint8_t* base = memory + (1024 - shared_address(memory) % 1024) % 1024;
  const PromptShared shared{.queries = base,
                            .keys = base + C::kKeyBytes,
                            .values = base + (1 + kStages) * C::kKeyBytes};
  if (threadIdx.x == 0) {
    mbarrier_init(&barriers.queries, 1);
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(&barriers.keys_full[i], 1);
      mbarrier_init(&barriers.values_full[i], 1);
      mbarrier_init(&barriers.keys_empty[i], kConsumers / 32);
      mbarrier_init(&barriers.values_empty[i], kConsumers / 32);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  wait_for_launch_ahead();
  let_next_launch_begin();
  const PromptTile tile = prompt_tile_of(p);
  if (tile.tiles == 0) return;
  const int warpgroup = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == kConsumers / 128) {
    release_registers<kProducerRegisters>();
    if (threadIdx.x == kConsumers) produce<C>(p, tile, barriers, shared);
  } else {
    claim_registers<kConsumerRegisters>();
    consume<C>(p, tile, barriers, shared, warpgroup);
  }
}

template <class C>
void launch_prompt(const GqaAttention& call, cudaStream_t stream) {
  const auto kernel = prompt_attention_kernel<C>;
  const auto map_of = [](const PagedStore& store) {
    return tensor_map({.data = store.data, .columns = store.dim, .rows = store.page_size, .stride = store.dim}, kKeys);
  };
  const PromptParams params{.q = tensor_map({.data = call.q.data,
                                             .columns = call.heads * call.head_dim,
                                             .rows = call.rows,
                                             .stride = call.q.stride},
                                            kRows),
                            .k = map_of(call.k),
                            .v = map_of(call.v),
                            .requests = call.requests,
                            .request_count = static_cast<int32_t>(call.request_count),
                            .log2_scale = call.scale * gqa_detail::kLog2E,
                            .out = static_cast<uint16_t*>(call.out.data),
                            .out_stride = call.out.stride};
  allow_shared_memory(reinterpret_cast<const void*>(kernel), C::kSharedBytes, "prompt_attention");
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  // A request's last block of rows may be partly empty.
  const int64_t blocks = call.rows / kRows + std::min(call.request_count, call.rows);
  cudaLaunchConfig_t config{};
  config.gridDim = {static_cast<unsigned>(blocks), static_cast<unsigned>(call.heads), 1};
  config.blockDim = kThreads;
  config.dynamicSmemBytes = C::kSharedBytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, params), "prompt_attention");
}

bool on_16_bytes(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0;
}
bool fits(const Rows& rows) {
  return rows.dtype == DType::kBf16 && on_16_bytes(rows.data) && rows.stride % 8 == 0;
}
bool fits(const PagedStore& store, int64_t dim) {
  return store.dtype == DType::kBf16 && on_16_bytes(store.data) && store.dim == dim && store.page_size > 0;
}

}  // namespace

bool takes_prompt(const GqaAttention& call) {
  const int64_t k = call.head_dim;
  const int64_t v = value_dim_of(call);
  const bool sized = (k == 192 && v == 128) || (k == 128 && v == 128) || (k == 128 && v == 64) || (k == 64 && v == 64);
  return sized && call.prompt && call.causal && call.window == 0 && call.first_visible == nullptr &&
         call.kv_heads == call.heads && call.scale > 0 && fits(call.q) && fits(call.out) &&
         fits(call.k, call.heads * k) && fits(call.v, call.heads * v);
}

void prompt_attention(const GqaAttention& call, cudaStream_t stream) {
  STROBE_CHECK(takes_prompt(call), "heads of {} and {} numbers, {} stores", call.head_dim, value_dim_of(call),
               to_string(call.k.dtype));
  if (call.rows == 0 || call.request_count == 0) return;
  if (call.head_dim == 192) return launch_prompt<PromptConfig<192, 128>>(call, stream);
  if (call.head_dim == 64) return launch_prompt<PromptConfig<64, 64>>(call, stream);
  if (value_dim_of(call) == 128) return launch_prompt<PromptConfig<128, 128>>(call, stream);
  launch_prompt<PromptConfig<128, 64>>(call, stream);
}

}  // namespace strobe::kernel::cuda::sm90
