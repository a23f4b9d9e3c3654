// Requests with keys and values in pages, for the tests of both attentions.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness.h"

namespace strobe::kernel {

// MLA: kv_heads 1, key_dim = latent + rope, value_dim = latent (the first part of a key). GQA: key_dim and value_dim
// are free, as a rule the same.
struct AttentionOptions {
  bool mla = true;
  int64_t heads = 8;
  int64_t kv_heads = 1;
  int64_t key_dim = 48;
  int64_t value_dim = 32;
  DType store = DType::kBf16;
  float store_scale = 1;
  int32_t page_size = 64;
  float scale = 0.15F;
  bool causal = true;
  int32_t window = 0;
  bool prompt = false;
  std::vector<int32_t> first_visible;  // one per request, or empty
  std::vector<int64_t> lengths;        // positions of each request
};

// GQA of this shape, its scores scaled as models do.
AttentionOptions gqa_options(int64_t heads, int64_t kv_heads, int64_t head_dim);

std::string describe(const AttentionOptions& options);

// Rows [first, first + count) of a request in a call that may see positions [0, key_count).
struct Chunk {
  int request = 0;
  int64_t first = 0;
  int64_t count = 0;
  int64_t key_count = 0;
};

// The last `count` rows of a request.
Chunk tail(const AttentionOptions& options, int request, int64_t count);

// Keys, values and queries of all positions of all requests.
class AttentionCase {
 public:
  AttentionCase(AttentionOptions options, uint64_t seed);

  // One call of the chunks, in this order, over a store that holds the chunks' first key_count positions of each
  // request in pages dealt by `page_seed`, and NaN everywhere else. Returns `out`, one row per row of the chunks.
  [[nodiscard]] Matrix run(const CpuKernels& table, const std::vector<Chunk>& chunks, DType q, DType out,
                           int workers = 1, uint64_t page_seed = 1) const;

  // The formula in double.
  [[nodiscard]] Oracle formula(const std::vector<Chunk>& chunks) const;

  [[nodiscard]] const AttentionOptions& options() const { return options_; }
  // Open for tests that want special numbers: [length, heads * key_dim], [length, kv_heads * key_dim] and
  // [length, kv_heads * value_dim] (not for MLA) of each request.
  std::vector<Matrix> queries;
  std::vector<Matrix> keys;
  std::vector<Matrix> values;

 private:
  AttentionOptions options_;
};

// Checks chunks against the oracle: the formula for the reference, the reference for the others.
void expect_attention_right(const CpuKernels& table, const AttentionCase& c, const std::vector<Chunk>& chunks, DType q,
                            DType out, int workers = 2);

// Row by row: a row alone in its call, with nothing but NaN behind its own position (when causal), equals the same row
// in verify blocks, prefill chunks and mixed calls, with other pages, workers and neighbours (one request and one row
// of another are NaN).
void expect_attention_invariant(const CpuKernels& table, const AttentionOptions& options);

// The checks that MLA and GQA share; `options.lengths` is set by them.
void expect_attention_key_counts(const CpuKernels& table, AttentionOptions options);
void expect_attention_extreme_scores(const CpuKernels& table, AttentionOptions options);

}  // namespace strobe::kernel
