#include "probe/kernel_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace strobe::probe {
namespace {

using kernel::Kernels;
using kernel::Rows;

constexpr int64_t kPageTokens = 64;
constexpr int64_t kCacheSetBytes = int64_t{24} << 20;  // the weights that a step of a small model goes through
constexpr int64_t kMemorySetBytes = int64_t{1} << 30;
constexpr int64_t kErrorRows = 2;
constexpr double kSampleUs = 50;  // shorter ones are repeated: the clock costs 0.05 us

// A call that is the same every time.
PreparedCase one_call(std::function<void()> run, double bytes, std::function<std::vector<float>()> result) {
  return {.run = std::move(run), .bytes = bytes, .result = std::move(result)};
}

PreparedCase prepare_products(Operands& operands, const ProductShape& s, int64_t rows) {
  Kernels& kernels = operands.kernels();
  const DType out_type = s.f32_out ? DType::kF32 : kernels.activation();
  const int64_t call_bytes = operands.packed_bytes(s.format, s.out, s.in) * s.problems;
  const Rows x = operands.rows(kernels.activation(), rows, s.in);
  const Rows y = operands.rows(out_type, rows * s.problems, s.out);
  std::vector<std::vector<kernel::GemmProblem>> calls(static_cast<size_t>(operands.copies(call_bytes)));
  for (auto& call : calls) {
    for (int64_t i = 0; i < s.problems; ++i) {
      call.push_back({.x = x, .weight = operands.weight(s.format, s.out, s.in), .y = y, .rows = rows});
      call.back().y.data = static_cast<std::byte*>(y.data) + i * rows * s.out * size_bytes(y.dtype);
    }
  }
  const auto count = std::ssize(calls);
  return {.run =
              [&kernels, calls = std::move(calls)] {
                for (const auto& call : calls) kernels.gemm({call.data(), std::ssize(call)});
              },
          .calls = count,
          .bytes = static_cast<double>(call_bytes),
          .flops = 2.0 * static_cast<double>(s.out * s.in * s.problems * rows),
          .result = [&operands, y, rows, s] { return operands.read(y, rows * s.problems, s.out); }};
}

// One request whose last `rows` positions ask, pages in order.
const kernel::AttentionRequest* one_request(Operands& operands, int64_t rows, int64_t context) {
  std::vector<int32_t> pages(static_cast<size_t>(context / kPageTokens + 1));
  std::iota(pages.begin(), pages.end(), 0);
  const kernel::AttentionRequest request{.row_begin = 0,
                                         .row_count = static_cast<int32_t>(rows),
                                         .first_position = static_cast<int32_t>(context - rows),
                                         .key_count = static_cast<int32_t>(context),
                                         .pages = operands.i32(pages)};
  return operands.requests(std::span(&request, 1));
}

PreparedCase prepare_mla(Operands& operands, const MlaShape& s, DType dtype, int64_t rows, int64_t context) {
  Kernels& kernels = operands.kernels();
  const int64_t dim = s.latent + s.rope;
  const int64_t call_bytes = context * dim * size_bytes(dtype);
  kernel::MlaAttention call{.q = operands.rows(kernels.activation(), rows, s.heads * dim),
                            .requests = one_request(operands, rows, context),
                            .request_count = 1,
                            .out = operands.rows(kernels.activation(), rows, s.heads * s.latent),
                            .rows = rows,
                            .heads = s.heads,
                            .latent = s.latent,
                            .rope = s.rope,
                            .scale = 1 / std::sqrt(static_cast<float>(dim))};
  // A store a layer, so that none is in L2 when its turn comes; a model has few.
  std::vector<kernel::PagedStore> stores;
  const int64_t layers = std::min<int64_t>(6, operands.copies(call_bytes));
  for (int64_t i = 0; i < layers; ++i) stores.push_back(operands.store(dtype, context + kPageTokens, dim));
  return {.run =
              [&kernels, call, stores]() mutable {
                for (const auto& store : stores) {
                  call.store = store;
                  kernels.mla_attention(call);
                }
              },
          .calls = layers,
          .bytes = static_cast<double>(call_bytes),
          .flops = 2.0 * static_cast<double>(context * (2 * s.latent + s.rope) * s.heads * rows),
          .result = [&operands, call, rows, s] { return operands.read(call.out, rows, s.heads * s.latent); }};
}

PreparedCase prepare_gqa(Operands& operands, const GqaShape& s, DType dtype, int64_t rows, int64_t context) {
  Kernels& kernels = operands.kernels();
  const int64_t dim = s.kv_heads * s.head_dim;
  const kernel::GqaAttention call{.q = operands.rows(kernels.activation(), rows, s.heads * s.head_dim),
                                  .k = operands.store(dtype, context + kPageTokens, dim),
                                  .v = operands.store(dtype, context + kPageTokens, dim),
                                  .requests = one_request(operands, rows, context),
                                  .request_count = 1,
                                  .out = operands.rows(kernels.activation(), rows, s.heads * s.head_dim),
                                  .rows = rows,
                                  .heads = s.heads,
                                  .kv_heads = s.kv_heads,
                                  .head_dim = s.head_dim,
                                  .scale = 1 / std::sqrt(static_cast<float>(s.head_dim)),
                                  .causal = false};
  return {.run = [&kernels, call] { kernels.gqa_attention(call); },
          .bytes = static_cast<double>(2 * context * dim * size_bytes(dtype)),
          .flops = 4.0 * static_cast<double>(context * s.heads * s.head_dim * rows),
          .result = [&operands, call, rows, s] { return operands.read(call.out, rows, s.heads * s.head_dim); }};
}

// A prompt, or the end of it: rows of heads with keys and values of their own, expanded from latent ones.
PreparedCase prepare_prompt(Operands& operands, const PromptShape& s, int64_t rows, int64_t context) {
  Kernels& kernels = operands.kernels();
  const DType type = kernels.activation();
  const std::vector<int32_t> one_page = {0};
  const kernel::AttentionRequest request{.row_count = static_cast<int32_t>(rows),
                                         .first_position = static_cast<int32_t>(context - rows),
                                         .key_count = static_cast<int32_t>(context),
                                         .pages = operands.i32(one_page)};
  kernel::GqaAttention call{.q = operands.rows(type, rows, s.heads * s.head_dim),
                            .k = operands.store(type, context, s.heads * s.head_dim),
                            .v = operands.store(type, context, s.heads * s.value_dim),
                            .requests = operands.requests({&request, 1}),
                            .request_count = 1,
                            .out = operands.rows(type, rows, s.heads * s.value_dim),
                            .rows = rows,
                            .heads = s.heads,
                            .kv_heads = s.heads,
                            .head_dim = s.head_dim,
                            .value_dim = s.value_dim,
                            .scale = 1 / std::sqrt(static_cast<float>(s.head_dim)),
                            .prompt = true};
  call.k.page_size = call.v.page_size = static_cast<int32_t>(context);
  const auto pairs = static_cast<double>(rows * context - rows * (rows - 1) / 2);  // of a row and a key that it sees
  const auto bytes = static_cast<double>(context * s.heads * (s.head_dim + s.value_dim) * size_bytes(type));
  return {.run = [&kernels, call] { kernels.gqa_attention(call); },
          .bytes = bytes,
          .flops = 2.0 * pairs * static_cast<double>(s.heads * (s.head_dim + s.value_dim)),
          .result = [&operands, call, rows, s] { return operands.read(call.out, rows, s.heads * s.value_dim); }};
}

PreparedCase prepare_norm(Operands& operands, int64_t dim, int64_t rows) {
  Kernels& kernels = operands.kernels();
  const kernel::RmsNorm call{.x = operands.rows(DType::kF32, rows, dim),
                             .weight = operands.f32(dim),
                             .y = operands.rows(kernels.activation(), rows, dim),
                             .rows = rows,
                             .dim = dim,
                             .epsilon = 1e-5F};
  return one_call([&kernels, call] { kernels.rms_norm(call); }, 6.0 * static_cast<double>(rows * dim),
                  [&operands, call, rows, dim] { return operands.read(call.y, rows, dim); });
}

PreparedCase prepare_rope(Operands& operands, const ModelShapes& m, int64_t rows) {
  Kernels& kernels = operands.kernels();
  constexpr int64_t kPositions = 64;
  std::vector<int32_t> positions(static_cast<size_t>(rows));
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(i % kPositions);
  const int64_t width = m.rope_heads * m.rope_dim;
  const Rows x = operands.rows(DType::kF32, rows, width);
  const kernel::Rope call{
      .x = static_cast<float*>(x.data),
      .row_stride = width,
      .head_stride = m.rope_dim,
      .positions = operands.i32(positions),
      .cos = operands.f32(kPositions * m.rope_dim / 2),
      .sin = operands.f32(kPositions * m.rope_dim / 2),
      .rows = rows,
      .heads = m.rope_heads,
      .dim = m.rope_dim,
      .style = m.interleaved_rope ? kernel::RopeStyle::kInterleaved : kernel::RopeStyle::kHalfSplit};
  return one_call([&kernels, call] { kernels.rope(call); }, 8.0 * static_cast<double>(rows * width),
                  [&operands, x, rows, width] { return operands.read(x, rows, width); });
}

PreparedCase prepare_silu(Operands& operands, int64_t dim, int64_t rows) {
  Kernels& kernels = operands.kernels();
  const kernel::SiluMul call{.gate = operands.rows(DType::kF32, rows, dim),
                             .up = operands.rows(DType::kF32, rows, dim),
                             .y = operands.rows(kernels.activation(), rows, dim),
                             .rows = rows,
                             .dim = dim};
  return one_call([&kernels, call] { kernels.silu_mul(call); }, 10.0 * static_cast<double>(rows * dim),
                  [&operands, call, rows, dim] { return operands.read(call.y, rows, dim); });
}

PreparedCase prepare_route(Operands& operands, const ModelShapes& m, int64_t rows) {
  Kernels& kernels = operands.kernels();
  const std::vector<int32_t> none(static_cast<size_t>(rows * m.top_k));
  const kernel::Route call{.logits = operands.f32(rows * m.experts),
                           .bias = operands.f32(m.experts),
                           .ids = operands.i32(none),
                           .weights = operands.f32(rows * m.top_k),
                           .rows = rows,
                           .experts = m.experts,
                           .top_k = m.top_k};
  return one_call([&kernels, call] { kernels.route(call); }, 4.0 * static_cast<double>(rows * m.experts),
                  [&operands, call, rows, m] {
                    return operands.read({call.weights, DType::kF32, m.top_k}, rows, m.top_k);
                  });
}

PreparedCase prepare_combine(Operands& operands, const ModelShapes& m, int64_t rows) {
  Kernels& kernels = operands.kernels();
  std::vector<int32_t> slots(static_cast<size_t>(rows * m.top_k));
  std::iota(slots.begin(), slots.end(), 0);
  const kernel::Combine call{.x = operands.f32(rows * m.top_k * m.hidden),
                             .slots = operands.i32(slots),
                             .weights = operands.f32(rows * m.top_k),
                             .y = operands.rows(DType::kF32, rows, m.hidden),
                             .rows = rows,
                             .top_k = m.top_k,
                             .dim = m.hidden};
  return one_call([&kernels, call] { kernels.combine(call); },
                  4.0 * static_cast<double>(rows * m.hidden * (m.top_k + 2)),
                  [&operands, call, rows, m] { return operands.read(call.y, rows, m.hidden); });
}

PreparedCase prepare_store(Operands& operands, DType dtype, int64_t dim, int64_t rows) {
  Kernels& kernels = operands.kernels();
  std::vector<int32_t> slots(static_cast<size_t>(rows));
  std::iota(slots.begin(), slots.end(), 0);
  const kernel::StoreRows call{.x = operands.rows(DType::kF32, rows, dim),
                               .store = operands.store(dtype, rows, dim),
                               .slots = operands.i32(slots),
                               .rows = rows,
                               .dim = dim};
  return one_call([&kernels, call] { kernels.store_rows(call); },
                  static_cast<double>(rows * dim * (4 + size_bytes(dtype))),
                  [&operands, call, rows, dim] {
                    // As bits: what is stored is exact or wrong.
                    const kernel::PagedStore& s = call.store;
                    return operands.read(static_cast<const int32_t*>(s.data), rows * dim * size_bytes(s.dtype) / 4);
                  });
}

PreparedCase prepare_load(Operands& operands, DType dtype, int64_t dim, int64_t rows) {
  Kernels& kernels = operands.kernels();
  std::vector<int32_t> pages(static_cast<size_t>((rows + kPageTokens - 1) / kPageTokens));
  std::iota(pages.rbegin(), pages.rend(), 0);
  kernel::LoadRows call{.store = operands.store(dtype, std::ssize(pages) * kPageTokens, dim),
                        .pages = operands.i32(pages),
                        .y = operands.rows(kernels.activation(), rows, dim),
                        .rows = rows,
                        .dim = dim};
  return one_call([&kernels, call] { kernels.load_rows(call); },
                  static_cast<double>(rows * dim * (2 + size_bytes(dtype))),
                  [&operands, call, rows, dim] { return operands.read(call.y, rows, dim); });
}

PreparedCase prepare_embed(Operands& operands, const ModelShapes& m, int64_t rows) {
  Kernels& kernels = operands.kernels();
  std::vector<int32_t> ids(static_cast<size_t>(rows));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 97 % static_cast<size_t>(m.vocab));
  const kernel::Embed call{.table = operands.table(m.vocab, m.hidden),
                           .ids = operands.i32(ids),
                           .y = operands.rows(DType::kF32, rows, m.hidden),
                           .rows = rows};
  return one_call([&kernels, call] { kernels.embed(call); }, 6.0 * static_cast<double>(rows * m.hidden),
                  [&operands, call, rows, m] { return operands.read(call.y, rows, m.hidden); });
}

PreparedCase prepare_argmax(Operands& operands, int64_t vocab, int64_t rows) {
  Kernels& kernels = operands.kernels();
  const std::vector<int32_t> none(static_cast<size_t>(rows));
  const kernel::Argmax call{
      .logits = operands.f32(rows * vocab), .stride = vocab, .ids = operands.i32(none), .rows = rows, .columns = vocab};
  return one_call([&kernels, call] { kernels.argmax(call); }, 4.0 * static_cast<double>(rows * vocab),
                  [&operands, call, rows] { return operands.read(call.ids, rows); });
}

class CaseList {
 public:
  explicit CaseList(const ModelShapes& model) : model_(model) {}

  template <class Prepare>
  void add(std::string name, int64_t rows, Prepare prepare) {
    cases.push_back({model_.name, std::move(name), rows, model_.fits_cache, std::move(prepare)});
  }

  std::vector<KernelCase> cases;

 private:
  const ModelShapes& model_;
};

void add_small(CaseList& list, const ModelShapes& m, int64_t rows) {
  list.add(fmt::format("rms_norm {}", m.hidden), rows,
           [dim = m.hidden](Operands& o, int64_t r) { return prepare_norm(o, dim, r); });
  list.add(fmt::format("rope {} {}x{}", m.interleaved_rope ? "interleaved" : "half-split", m.rope_heads, m.rope_dim),
           rows, [m](Operands& o, int64_t r) { return prepare_rope(o, m, r); });
  list.add(fmt::format("silu_mul {}", m.inter), rows,
           [dim = m.inter](Operands& o, int64_t r) { return prepare_silu(o, dim, r); });
  if (m.experts > 0) {
    list.add(fmt::format("route {} of {}", m.top_k, m.experts), rows,
             [m](Operands& o, int64_t r) { return prepare_route(o, m, r); });
    list.add(fmt::format("combine {} of {}", m.top_k, m.hidden), rows,
             [m](Operands& o, int64_t r) { return prepare_combine(o, m, r); });
  }
  for (const DType dtype : {DType::kE4m3, DType::kBf16}) {
    const int64_t dim = m.mla.empty() ? m.gqa[0].kv_heads * m.gqa[0].head_dim : m.mla[0].latent + m.mla[0].rope;
    list.add(fmt::format("store_rows {} {}", to_string(dtype), dim), rows,
             [dtype, dim](Operands& o, int64_t r) { return prepare_store(o, dtype, dim, r); });
    if (m.mla.empty()) continue;
    list.add(fmt::format("load_rows {} {}", to_string(dtype), dim), rows,
             [dtype, dim](Operands& o, int64_t r) { return prepare_load(o, dtype, dim, r); });
  }
  if (m.vocab > 0) {
    list.add(fmt::format("embed {}", m.hidden), rows, [m](Operands& o, int64_t r) { return prepare_embed(o, m, r); });
    list.add(fmt::format("argmax {}", m.vocab), rows,
             [vocab = m.vocab](Operands& o, int64_t r) { return prepare_argmax(o, vocab, r); });
  }
}

void add_attention(CaseList& list, const ModelShapes& m, DType dtype, int64_t rows, int64_t context) {
  for (const MlaShape& s : m.mla) {
    list.add(fmt::format("mla {} {} heads, {} keys", to_string(dtype), s.heads, context), rows,
             [=](Operands& o, int64_t r) { return prepare_mla(o, s, dtype, r, context); });
  }
  for (const GqaShape& s : m.gqa) {
    list.add(fmt::format("gqa {} {}/{} heads, {} keys", to_string(dtype), s.heads, s.kv_heads, context), rows,
             [=](Operands& o, int64_t r) { return prepare_gqa(o, s, dtype, r, context); });
  }
}

void add_prompts(CaseList& list, const ModelShapes& m) {
  for (const PromptShape& s : m.prompts) {
    for (const int64_t context : m.prompt_contexts) {
      const int64_t rows = std::min<int64_t>(512, context);
      list.add(fmt::format("prompt {} heads of {}/{}, {} keys", s.heads, s.head_dim, s.value_dim, context), rows,
               [=](Operands& o, int64_t r) { return prepare_prompt(o, s, r, context); });
    }
  }
}

double relative_difference(const std::vector<float>& actual, const std::vector<float>& wanted) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double d = static_cast<double>(actual[i]) - wanted[i];
    difference += d * d;
    size += static_cast<double>(wanted[i]) * wanted[i];
  }
  return size > 0 ? std::sqrt(difference / size) : std::sqrt(difference);
}

std::vector<float> result_of(const KernelCase& one, kernel::Kernels& kernels) {
  Operands operands(kernels);
  const PreparedCase prepared = one.prepare(operands, std::min(one.rows, kErrorRows));
  prepared.run();
  return prepared.result();
}

}  // namespace

std::vector<KernelCase> kernel_cases(const ModelShapes& m) {
  CaseList list(m);
  for (const int64_t rows : m.rows) {
    for (const ProductShape& s : m.products) {
      list.add(
          fmt::format("gemm {} {}{}x{}", s.name, s.problems > 1 ? fmt::format("{} of ", s.problems) : "", s.out, s.in),
          rows, [s](Operands& o, int64_t r) { return prepare_products(o, s, r); });
    }
  }
  for (const int64_t context : m.contexts) {
    for (const DType dtype : {DType::kE4m3, DType::kBf16}) {
      for (const int64_t rows : m.attention_rows) add_attention(list, m, dtype, rows, context);
    }
  }
  add_prompts(list, m);
  for (const int64_t rows : m.rows) add_small(list, m, rows);
  return std::move(list.cases);
}

KernelResult measure_case(const KernelCase& one, kernel::Kernels& kernels, kernel::Kernels& reference,
                          const Ceilings& ceilings, double seconds) {
  KernelResult result{.model = one.model, .name = one.name, .rows = one.rows};
  result.error = relative_difference(result_of(one, kernels), result_of(one, reference));
  Operands operands(kernels, one.fits_cache ? kCacheSetBytes : kMemorySetBytes);
  const PreparedCase prepared = one.prepare(operands, one.rows);
  const uint64_t key = kernels.new_recorder();
  int64_t rounds = 1;
  const auto sample = [&] {
    for (int64_t i = 0; i < rounds; ++i) kernels.run_recorded(key, prepared.run);
    kernels.wait();
  };
  const double first_us = time_of(sample, 0).median_us;
  rounds = std::max<int64_t>(1, static_cast<int64_t>(kSampleUs / std::max(first_us, 0.01)));
  const Timing t = time_of(sample, seconds);
  const auto calls = static_cast<double>(prepared.calls * rounds);
  result.call = {.best_us = t.best_us / calls, .median_us = t.median_us / calls};
  result.gb_s = prepared.bytes / result.call.best_us / 1e3;
  result.gflop_s = prepared.flops / result.call.best_us / 1e3;
  result.bandwidth_share = result.gb_s / (one.fits_cache ? ceilings.cache_gb_s : ceilings.memory_gb_s);
  result.compute_share = ceilings.gflop_s > 0 ? result.gflop_s / ceilings.gflop_s : 0;
  return result;
}

}  // namespace strobe::probe
