// Attention over paged keys and values. MLA and GQA differ in where a head finds its keys and values, not in the maths.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernel/ref/dot.h"
#include "kernel/ref/families.h"
#include "kernel/ref/values.h"

namespace strobe::kernel::ref {
namespace {

// Positions [0, count) of a request as f32 rows of store.dim numbers, in the order of positions.
std::vector<float> gather(const PagedStore& store, const AttentionRequest& request, int64_t count) {
  const float scale = store.dtype == DType::kE4m3 ? store.scale : 1.0F;
  std::vector<float> rows(static_cast<size_t>(count * store.dim));
  for (int64_t p = 0; p < count; ++p) {
    const int64_t slot = int64_t{request.pages[p / store.page_size]} * store.page_size + p % store.page_size;
    for (int64_t i = 0; i < store.dim; ++i) {
      rows[static_cast<size_t>(p * store.dim + i)] = read(store.data, store.dtype, slot * store.dim + i) * scale;
    }
  }
  return rows;
}

// What one head of one row looks at: keys and values of visible positions [first, last).
struct Head {
  const float* keys = nullptr;
  const float* values = nullptr;
  int64_t key_stride = 0;  // numbers from position to position
  int64_t value_stride = 0;
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  int64_t first = 0;
  int64_t last = 0;
  float scale = 1;
};

// out[row, out_column ...] = softmax(scale * q . keys) . values. Nothing visible: zeros.
void attend(const Head& head, const Rows& q, int64_t q_column, const Rows& out, int64_t out_column, int64_t row) {
  std::vector<float> query;
  for (int64_t i = 0; i < head.key_dim; ++i) query.push_back(get(q, row, q_column + i));

  std::vector<float> scores;
  float highest = -std::numeric_limits<float>::infinity();
  for (int64_t p = head.first; p < head.last; ++p) {
    const double product = dot(query.data(), head.keys + p * head.key_stride, head.key_dim);
    scores.push_back(static_cast<float>(product * head.scale));
    highest = std::max(highest, scores.back());
  }

  double total = 0;
  std::vector<double> sums(static_cast<size_t>(head.value_dim), 0.0);
  for (int64_t p = head.first; p < head.last; ++p) {
    const float weight = std::exp(scores[static_cast<size_t>(p - head.first)] - highest);
    const float* value = head.values + p * head.value_stride;
    total += weight;
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(weight) * value[i];
  }
  for (int64_t i = 0; i < head.value_dim; ++i) {
    const double sum = sums[static_cast<size_t>(i)];
    set(out, row, out_column + i, head.first < head.last ? static_cast<float>(sum / total) : 0.0F);
  }
}

}  // namespace

void mla_attention(WorkerPool& pool, const MlaAttention& call) {
  const int64_t dim = call.latent + call.rope;
  for (int64_t i = 0; i < call.request_count; ++i) {
    const AttentionRequest& request = call.requests[i];
    if (request.row_count == 0) continue;
    const int64_t stored = std::min(request.key_count, request.first_position + request.row_count);
    const std::vector<float> rows = gather(call.store, request, stored);
    pool.for_each(request.row_count * call.heads, [&](int64_t task) {
      const int64_t j = task / call.heads;
      const int64_t h = task % call.heads;
      const Head head{.keys = rows.data(),
                      .values = rows.data(),
                      .key_stride = dim,
                      .value_stride = dim,
                      .key_dim = dim,
                      .value_dim = call.latent,
                      .first = 0,
                      .last = std::min(stored, request.first_position + j + 1),
                      .scale = call.scale};
      attend(head, call.q, h * dim, call.out, h * call.latent, request.row_begin + j);
    });
  }
}

void gqa_attention(WorkerPool& pool, const GqaAttention& call) {
  const int64_t heads_per_kv = call.heads / call.kv_heads;
  const int64_t value_dim = value_dim_of(call);
  for (int64_t i = 0; i < call.request_count; ++i) {
    const AttentionRequest& request = call.requests[i];
    if (request.row_count == 0) continue;
    const std::vector<float> keys = gather(call.k, request, request.key_count);
    const std::vector<float> values = gather(call.v, request, request.key_count);
    pool.for_each(request.row_count * call.heads, [&](int64_t task) {
      const int64_t h = task % call.heads;
      const int64_t j = task / call.heads;
      const int64_t position = request.first_position + j;
      const int64_t kv_head = h / heads_per_kv;
      int64_t first = call.first_visible == nullptr ? 0 : call.first_visible[i];
      int64_t last = request.key_count;
      if (call.causal) {
        last = std::min(last, position + 1);
        if (call.window > 0) first = std::max(first, position - call.window + 1);
      }
      const Head head{.keys = keys.data() + kv_head * call.head_dim,
                      .values = values.data() + kv_head * value_dim,
                      .key_stride = call.k.dim,
                      .value_stride = call.v.dim,
                      .key_dim = call.head_dim,
                      .value_dim = value_dim,
                      .first = first,
                      .last = last,
                      .scale = call.scale};
      attend(head, call.q, h * call.head_dim, call.out, h * value_dim, request.row_begin + j);
    });
  }
}

}  // namespace strobe::kernel::ref
