#include "base/check.h"
#include "ops/ops.h"
#include "ops/rows.h"

namespace strobe::ops {
namespace {

void check_requests(const Exec& exec, const char* where, int64_t tokens,
                    std::span<const kernel::AttentionRequest> requests) {
  if (!exec.on_host()) return;  // they lie on the device
  for (const auto& request : requests) {
    STROBE_CHECK(request.row_begin >= 0 && request.row_count >= 0 && request.row_begin + request.row_count <= tokens,
                 "{}: rows [{}, +{}) of {}", where, request.row_begin, request.row_count, tokens);
    STROBE_CHECK(request.first_position + request.row_count <= request.key_count, "{}: position {} + {} rows, {} keys",
                 where, request.first_position, request.row_count, request.key_count);
  }
}

}  // namespace

void store_rows(Exec& exec, const Tensor& x, const Tensor& slots, const kernel::PagedStore& store, int64_t column) {
  Dims dims("store_rows");
  dims.check("x", x, {"tokens", "dim"}).check("slots", slots, {"tokens"});
  STROBE_CHECK(column + dims["dim"] <= store.dim, "store_rows: columns [{}, +{}) of {}", column, dims["dim"],
               store.dim);
  exec.kernels().store_rows({.x = rows_of(x),
                             .store = store,
                             .column = column,
                             .slots = slots.as<int32_t>(),
                             .rows = dims["tokens"],
                             .dim = dims["dim"]});
}

void load_rows(Exec& exec, const kernel::PagedStore& store, const int32_t* pages, const Tensor& y, int64_t column) {
  Dims dims("load_rows");
  dims.check("y", y, {"positions", "copies", "dim"});
  STROBE_CHECK(column + dims["dim"] <= store.dim, "load_rows: columns [{}, +{}) of {}", column, dims["dim"], store.dim);
  exec.kernels().load_rows({.store = store,
                            .pages = pages,
                            .column = column,
                            .y = rows_of(y),
                            .copy_stride = y.stride(1),
                            .copies = dims["copies"],
                            .rows = dims["positions"],
                            .dim = dims["dim"]});
}

void mla_attention(Exec& exec, const Tensor& q, const kernel::PagedStore& store,
                   std::span<const kernel::AttentionRequest> requests, float scale, const Tensor& out,
                   std::span<const kernel::Upcoming> upcoming) {
  Dims dims("mla_attention");
  dims.check("q", q, {"tokens", "heads", "latent+rope"}).check("out", out, {"tokens", "heads", "latent"});
  STROBE_CHECK(store.dim == dims["latent+rope"], "mla_attention: q {}, {} numbers a slot", q.shape(), store.dim);
  STROBE_CHECK(q.stride(1) == q.dim(2) && out.stride(1) == out.dim(2), "mla_attention: heads with gaps");
  check_requests(exec, "mla_attention", dims["tokens"], requests);
  exec.kernels().mla_attention({.q = rows_of(q),
                                .store = store,
                                .requests = requests.data(),
                                .request_count = static_cast<int64_t>(requests.size()),
                                .out = rows_of(out),
                                .rows = dims["tokens"],
                                .heads = dims["heads"],
                                .latent = dims["latent"],
                                .rope = dims["latent+rope"] - dims["latent"],
                                .scale = scale,
                                .upcoming = upcoming.data(),
                                .upcoming_count = static_cast<int64_t>(upcoming.size())});
}

void gqa_attention(Exec& exec, const Tensor& q, const kernel::PagedStore& k, const kernel::PagedStore& v,
                   std::span<const kernel::AttentionRequest> requests, const GqaOptions& options, const Tensor& out) {
  Dims dims("gqa_attention");
  dims.check("q", q, {"tokens", "heads", "head_dim"}).check("out", out, {"tokens", "heads", "value_dim"});
  const int64_t head_dim = dims["head_dim"], value_dim = dims["value_dim"], kv_heads = k.dim / head_dim;
  STROBE_CHECK(k.dim == kv_heads * head_dim && v.dim == kv_heads * value_dim,
               "gqa_attention: {} and {} numbers a slot, heads of {} and {}", k.dim, v.dim, head_dim, value_dim);
  STROBE_CHECK(head_dim <= kernel::kMaxAttentionKeyDim && value_dim <= kernel::kMaxAttentionValueDim,
               "gqa_attention: heads of {} and {}, at most {} and {}", head_dim, value_dim, kernel::kMaxAttentionKeyDim,
               kernel::kMaxAttentionValueDim);
  STROBE_CHECK(!options.prompt || requests.size() == 1, "gqa_attention: {} requests of one prompt", requests.size());
  STROBE_CHECK(q.stride(1) == q.dim(2) && out.stride(1) == out.dim(2), "gqa_attention: heads with gaps");
  STROBE_CHECK(options.first_visible.empty() || options.first_visible.size() == requests.size(),
               "{} windows, {} requests", options.first_visible.size(), requests.size());
  check_requests(exec, "gqa_attention", dims["tokens"], requests);
  exec.kernels().gqa_attention({.q = rows_of(q),
                                .k = k,
                                .v = v,
                                .requests = requests.data(),
                                .first_visible = options.first_visible.empty() ? nullptr : options.first_visible.data(),
                                .request_count = static_cast<int64_t>(requests.size()),
                                .out = rows_of(out),
                                .rows = dims["tokens"],
                                .heads = dims["heads"],
                                .kv_heads = kv_heads,
                                .head_dim = head_dim,
                                .value_dim = value_dim,
                                .scale = options.scale,
                                .causal = options.causal,
                                .window = options.window,
                                .prompt = options.prompt,
                                .upcoming = options.upcoming.data(),
                                .upcoming_count = static_cast<int64_t>(options.upcoming.size())});
}

}  // namespace strobe::ops
