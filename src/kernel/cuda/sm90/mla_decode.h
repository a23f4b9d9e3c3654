// MLA attention for decode and verify on Hopper: fp8 pages, 16-bit tensor cores.
//
// What it must move and do, for R rows of 64 heads over C positions: 576 C bytes a request, 2 * 64 * R * C * (576 +
// 512) operations. At 8 rows that is 1,934 operations a byte: the tensor cores are the limit (8 rows over 8,192
// positions: 9.1 GFLOP, 11.5 us at 793 TFLOP/s; 4.7 MB, 1.1 us at 4.28 TB/s).
//
// How: a block of threads takes 64 folded rows (token-major: row * heads + head) and one split of the positions, page
// by page. One warpgroup copies e4m3 pages into shared memory as they are stored, two multiply: each owns every second
// page's scores and softmax, and 256 of the 512 numbers of the output. Both products are transposed, S^T = K Q^T and
// O^T += V^T P^T: keys and values are the operand from registers, widened to f16 (exact) on their way there. Splits end
// in partial results; those of a group of four are folded into one, then groups are merged, both in the order of
// positions. A block of threads that has a group from its first split on folds as it goes, else the merge does: to the
// same bytes.
//
// Batch invariance: where splits are cut follows from a row's own position p alone: they are 2 (p / 2048 + 1) pages
// long, counted from position 0, so at most 16. Rows whose splits differ in length never share a block.
//
// Measured on one H200 (bench/results/mla-decode-h200-*.md): 218 us for 8 rows over 131,072 positions, 84% of the
// floor; short calls are bound by their fixed costs, large batches by the ends of their splits, too.
// What a page moves through shared memory, in cycles of 128 bytes: 288 to store it, 288 to read keys, 256 to read
// values, 576 and 512 for queries and probabilities as the tensor cores read them, 128 for the probabilities besides:
// 2,048 while the products alone take 2,176.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernel/args.h"

namespace strobe::kernel::cuda::sm90 {

inline constexpr int64_t kMlaLatent = 512;
inline constexpr int64_t kMlaRope = 64;
inline constexpr int64_t kMlaPage = 64;

// Memory for the partial results of calls of at most `rows` rows in at most `requests` requests. Whoever uses it sets
// `data` to `bytes` of device memory, aligned to 256 and zero before the first call; every call leaves it fit for the
// next one, which must come after it (one stream, or an event between).
struct MlaWorkspace {
  MlaWorkspace(int64_t rows, int64_t requests, int64_t heads);
  int64_t row_blocks;
  int64_t bytes;
  void* data = nullptr;
};

// Where one block of threads stood at which cycle of its multiprocessor: for the benchmark.
struct MlaStages {
  int64_t begin;          // the launch ahead is over
  int64_t listed;         // its share of the work is known
  int64_t first_scores;   // the queries lie in shared memory
  int64_t first_page;     // the first page, too
  int64_t first_outputs;  // warpgroup 0 is done with its own pages of the first item
  int64_t partials;       // its partial results are written
  int64_t end;            // its part of the merge is done
};

// MlaAttention (args.h) with every pointer on the device, `requests` and their `pages` too: lengths may change between
// replays of a graph that holds this launch, as long as the workspace is large enough.
//   latent 512, rope 64; store e4m3 in pages of 64, 16-byte aligned
//   q, out: f32 or bf16; rows and strides of q 16-byte aligned, of out 8-byte; q is rounded to f16 under a power of two
//   of its row
// All `call.request_count` requests are looked at; those with no rows do nothing. One request has a kernel of its own,
// which begins sooner and computes the same. A stored number that is NaN and
// visible to one row also makes rows NaN that stand up to 64 / heads tokens before it.
// Reads nothing before the launch ahead of it in the stream is over, though it may begin before.
// `stages`: [multiprocessors] on the device, or nullptr.
void mla_decode(const MlaAttention& call, const MlaWorkspace& workspace, cudaStream_t stream,
                MlaStages* stages = nullptr);

}  // namespace strobe::kernel::cuda::sm90
