// Causal attention of a prompt's chunk on Hopper: many rows of one request against keys and values that were made for
// this call and lie in one piece (GqaAttention::prompt), every head with keys of its own.
//
// What it must move and do, for R rows from position F on, H heads, keys of K numbers and values of V: the rows see
// S = R F + R (R + 1) / 2 positions, 2 (K + V) S H operations. Kimi-K2 (64 heads, 192 and 128), 2,048 rows:
//   up to position 8,192:  0.60 TFLOP:   607 us at 990 TFLOP/s (the H200's peak),   761 us at 790 (measured products)
//   up to position 32,768: 2.66 TFLOP: 2,690 us at 990,                           3,371 us at 790
// Memory is far from that: keys and values are 335 MB and 1.34 GB, rows and results 84 MB: 99 us and 336 us at 4.24
// TB/s. Exponents are nearer: one per head and visible position, 16 a cycle and multiprocessor, a third of the time of
// the products: they must run beside them. From L2 every 128 rows read the keys and values that they see: 4.7 GB and
// 20.8 GB, 6.2 TB/s at 790 TFLOP/s, about what L2 gives: the next thing to save (a cluster of two blocks of threads
// that share their tiles).
//
// How: a block of threads has 128 rows of one head and walks through the keys in tiles of 128, from the rows' own
// positions down to position 0. A warp brings tiles through the copy engine, two ahead of each kind; two warpgroups
// have 64 rows each. A warpgroup starts the scores of a tile and the values of the tile before, and does the softmax of
// the new scores while values are multiplied; the two take turns at the tensor cores, so that one multiplies while the
// other computes exponents. Probabilities stay in registers (bf16). Blocks of the last rows, which see most, come
// first.
//
// The order of a row's sums follows from its position alone: tiles are aligned to position 0 and descend. What a row
// does not see of a tile adds zeros to it: rows of the same tile of 128 positions may spoil each other only by values
// that are not finite (a key that is not finite spoils nobody who does not see it).
#pragma once

#include <cuda_runtime_api.h>

#include "kernel/args.h"

namespace strobe::kernel::cuda::sm90 {

// Whether prompt_attention takes a call: a prompt's, causal without a window, as many heads of keys as of queries, head
// and value sizes 192/128, 128/128, 128/64 or 64/64, bf16 throughout, rows and slots on 16 bytes, a positive scale.
bool takes_prompt(const GqaAttention& call);

// GqaAttention (args.h) with pointers of device memory; keys lie in page 0, the one of position p in slot p. Nothing
// behind key_count or row_count is read into a result. Reads nothing before the launch ahead in the stream is over.
void prompt_attention(const GqaAttention& call, cudaStream_t stream);

}  // namespace strobe::kernel::cuda::sm90
