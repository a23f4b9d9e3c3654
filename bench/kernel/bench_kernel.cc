// Times the CPU kernels on the shapes of the embedded model (and of one Kimi-K2 layer with --large) and says how near
// each is to what this machine can do. Prints one line a case: name, rows, best and median time, bandwidth or rate,
// share.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "machine.h"
#include "operands.h"

namespace strobe::bench {
namespace {

struct Bench {
  WorkerPool& pool;
  const kernel::CpuKernels& kernels;
  Ceilings ceilings;
  std::string filter;

  [[nodiscard]] bool wants(const std::string& name) const { return name.find(filter) != std::string::npos; }
};

// bytes: what must be read at least; flops: multiply-adds count two. The larger share is what limits.
void report(const Bench& bench, const std::string& name, int64_t rows, const Timing& t, double calls, double bytes,
            double flops, double ceiling_gb_s) {
  const double gb_s = bytes / t.best_us / 1e3;
  const double gflop_s = flops / t.best_us / 1e3;
  fmt::print("{:34} {:5} {:10.2f} {:10.2f} {:8.1f} {:9.1f} {:6.0f}% {:6.0f}%\n", name, rows, t.best_us / calls,
             t.median_us / calls, gb_s, gflop_s, 100 * gb_s / ceiling_gb_s, 100 * gflop_s / bench.ceilings.gflop_s);
  std::fflush(stdout);
}

struct GemmShape {
  const char* name;
  WeightFormat format;
  int64_t out, in, problems;
  bool f32_out = true;
};

// One call of the shape, on weights that were not used for a long time: `copies` sets of them, taken in turn.
void bench_gemm(const Bench& bench, const GemmShape& s, int64_t rows, int64_t set_bytes, double ceiling_gb_s) {
  if (!bench.wants(s.name)) return;
  Operands operands(bench.kernels);
  const WeightFormat packed = bench.kernels.packed_format(s.format);
  const int64_t call_bytes = weight_bytes(packed, s.out, s.in) * s.problems;
  const int64_t copies = std::max<int64_t>(1, set_bytes / call_bytes);
  std::vector<std::vector<kernel::GemmProblem>> calls(static_cast<size_t>(copies));
  const kernel::Rows x = operands.rows(bench.kernels.activation, rows, s.in);
  const kernel::Rows y = operands.rows(s.f32_out ? DType::kF32 : DType::kBf16, rows * s.problems, s.out);
  for (auto& call : calls) {
    for (int64_t i = 0; i < s.problems; ++i) {
      kernel::GemmProblem p{.x = x, .weight = operands.weight(s.format, s.out, s.in), .y = y, .rows = rows};
      p.y.data = static_cast<std::byte*>(y.data) + i * rows * s.out * size_bytes(y.dtype);
      call.push_back(p);
    }
  }
  const Timing t = time_of([&] {
    for (const auto& call : calls) bench.kernels.gemm(bench.pool, {call.data(), static_cast<int64_t>(call.size())});
  });
  const auto n = static_cast<double>(copies);
  report(bench, s.name, rows, t, n, n * static_cast<double>(call_bytes),
         n * 2 * static_cast<double>(s.out * s.in * s.problems * rows), ceiling_gb_s);
}

constexpr auto kBf16 = WeightFormat::kBf16;
constexpr auto kNvfp4 = WeightFormat::kNvfp4;

void bench_small_gemms(const Bench& bench) {
  const GemmShape shapes[] = {
      {"gemm q_a 128x256", kBf16, 128, 256, 1},
      {"gemm kv_a 576x256", kBf16, 576, 256, 1},
      {"gemm q_b 1024x128", kBf16, 1024, 128, 1},
      {"gemm absorb 8 of 512x64", kBf16, 512, 64, 8},
      {"gemm expand 8 of 64x512", kBf16, 64, 512, 8, false},
      {"gemm o 256x512", kBf16, 256, 512, 1},
      {"gemm router 16x256", kBf16, 16, 256, 1},
      {"gemm shared gate+up 256x256", kBf16, 256, 256, 2},
      {"gemm experts gate+up 28 of 256x256", kNvfp4, 256, 256, 28},
      {"gemm experts down 14 of 256x256", kNvfp4, 256, 256, 14},
      {"gemm dense gate+up 768x256", kBf16, 768, 256, 2},
      {"gemm head 4096x256", kBf16, 4096, 256, 1},
  };
  for (const int64_t rows : {1, 2, 8, 16, 64, 256, 1024}) {
    for (const GemmShape& s : shapes) bench_gemm(bench, s, rows, int64_t{24} << 20, bench.ceilings.cache_gb_s);
  }
}

void bench_large_gemms(const Bench& bench) {
  const GemmShape shapes[] = {
      {"gemm kimi expert 2048x7168", kNvfp4, 2048, 7168, 2},
      {"gemm kimi expert down 7168x2048", kNvfp4, 7168, 2048, 1},
      {"gemm kimi o 7168x8192", kBf16, 7168, 8192, 1},
  };
  for (const int64_t rows : {1, 8, 64}) {
    for (const GemmShape& s : shapes) bench_gemm(bench, s, rows, int64_t{1} << 30, bench.ceilings.memory_gb_s);
  }
}

// All matrix products of one forward pass of the embedded model, in order, every layer with weights of its own.
void bench_step(const Bench& bench, int64_t rows) {
  const std::string name = "step: all gemms";
  if (!bench.wants(name)) return;
  Operands operands(bench.kernels);
  const DType a = bench.kernels.activation;
  std::vector<std::vector<kernel::GemmProblem>> calls;
  double bytes = 0;
  auto add = [&](WeightFormat format, int64_t out, int64_t in, int64_t problems, int64_t problem_rows, bool f32_out) {
    std::vector<kernel::GemmProblem> call;
    for (int64_t i = 0; i < problems; ++i) {
      call.push_back({.x = operands.rows(a, problem_rows, in),
                      .weight = operands.weight(format, out, in),
                      .y = operands.rows(f32_out ? DType::kF32 : a, problem_rows, out),
                      .rows = problem_rows});
      bytes += static_cast<double>(weight_bytes(bench.kernels.packed_format(format), out, in));
    }
    return call;
  };
  auto add_call = [&](std::vector<kernel::GemmProblem> call) { calls.push_back(std::move(call)); };
  for (int layer = 0; layer < 6; ++layer) {
    auto qkv_a = add(kBf16, 128, 256, 1, rows, true);
    qkv_a.push_back(add(kBf16, 576, 256, 1, rows, true).front());
    add_call(qkv_a);
    add_call(add(kBf16, 1024, 128, 1, rows, true));
    add_call(add(kBf16, 512, 64, 8, rows, true));
    add_call(add(kBf16, 64, 512, 8, rows, false));
    add_call(add(kBf16, 256, 512, 1, rows, true));
    const int64_t inter = layer == 0 ? 768 : 256;
    add_call(add(kBf16, inter, 256, 2, rows, true));
    add_call(add(kBf16, 256, inter, 1, rows, true));
    if (layer == 0) continue;
    // rows * 4 choices among 16 experts: 4 experts for one row, 14 for eight, about as random choices give.
    const int64_t experts = rows == 1 ? 4 : rows == 8 ? 14 : 16;
    const int64_t rows_each = std::max<int64_t>(1, rows * 4 / experts);
    add_call(add(kBf16, 16, 256, 1, rows, true));
    add_call(add(kNvfp4, 256, 256, 2 * experts, rows_each, true));
    add_call(add(kNvfp4, 256, 256, experts, rows_each, true));
  }
  add_call(add(kBf16, 4096, 256, 1, rows, true));
  const Timing t = time_of(
      [&] {
        for (const auto& call : calls) bench.kernels.gemm(bench.pool, {call.data(), static_cast<int64_t>(call.size())});
      },
      1.0);
  report(bench, name, rows, t, 1, bytes, 0, bench.ceilings.cache_gb_s);
}

void bench_mla(const Bench& bench, DType dtype, int64_t rows, int64_t context) {
  const std::string name = fmt::format("mla {} ctx {}", to_string(dtype), context);
  if (!bench.wants(name)) return;
  constexpr int64_t kHeads = 8, kLatent = 512, kRope = 64;
  Operands operands(bench.kernels);
  // Six layers, so that a store is not in L2 when its turn comes.
  std::vector<kernel::PagedStore> stores;
  for (int layer = 0; layer < 6; ++layer) stores.push_back(operands.store(dtype, context + 64, kLatent + kRope));
  int32_t* pages = operands.i32(context / 64 + 1);
  for (int32_t i = 0; i <= context / 64; ++i) pages[i] = i;
  const kernel::AttentionRequest request{.row_begin = 0,
                                         .row_count = static_cast<int32_t>(rows),
                                         .first_position = static_cast<int32_t>(context - rows),
                                         .key_count = static_cast<int32_t>(context),
                                         .pages = pages};
  kernel::MlaAttention call{.q = operands.rows(bench.kernels.activation, rows, kHeads * (kLatent + kRope)),
                            .requests = &request,
                            .request_count = 1,
                            .out = operands.rows(bench.kernels.activation, rows, kHeads * kLatent),
                            .heads = kHeads,
                            .latent = kLatent,
                            .rope = kRope,
                            .scale = 0.1F};
  const Timing t = time_of([&] {
    for (const auto& store : stores) {
      call.store = store;
      bench.kernels.mla_attention(bench.pool, call);
    }
  });
  const double keys = 6 * static_cast<double>(context);
  report(bench, name, rows, t, 6, keys * (kLatent + kRope) * static_cast<double>(size_bytes(dtype)),
         keys * 2 * (2 * kLatent + kRope) * kHeads * static_cast<double>(rows), bench.ceilings.cache_gb_s);
}

void bench_gqa(const Bench& bench, DType dtype, int64_t rows, int64_t context) {
  const std::string name = fmt::format("gqa {} ctx {}", to_string(dtype), context);
  if (!bench.wants(name)) return;
  constexpr int64_t kHeads = 8, kKvHeads = 2, kDim = 64;
  Operands operands(bench.kernels);
  int32_t* pages = operands.i32(context / 64 + 1);
  for (int32_t i = 0; i <= context / 64; ++i) pages[i] = i;
  const kernel::AttentionRequest request{.row_begin = 0,
                                         .row_count = static_cast<int32_t>(rows),
                                         .first_position = static_cast<int32_t>(context - rows),
                                         .key_count = static_cast<int32_t>(context),
                                         .pages = pages};
  const kernel::GqaAttention call{.q = operands.rows(bench.kernels.activation, rows, kHeads * kDim),
                                  .k = operands.store(dtype, context + 64, kKvHeads * kDim),
                                  .v = operands.store(dtype, context + 64, kKvHeads * kDim),
                                  .requests = &request,
                                  .request_count = 1,
                                  .out = operands.rows(bench.kernels.activation, rows, kHeads * kDim),
                                  .heads = kHeads,
                                  .kv_heads = kKvHeads,
                                  .head_dim = kDim,
                                  .scale = 0.125F,
                                  .causal = false};
  const Timing t = time_of([&] { bench.kernels.gqa_attention(bench.pool, call); });
  const auto keys = static_cast<double>(context);
  report(bench, name, rows, t, 1, keys * 2 * kKvHeads * kDim * static_cast<double>(size_bytes(dtype)),
         keys * 4 * kHeads * kDim * static_cast<double>(rows), bench.ceilings.cache_gb_s);
}

void bench_attention(const Bench& bench) {
  for (const int64_t context : {128, 512, 2048, 8192}) {
    for (const int64_t rows : {1, 8, 64}) {
      bench_mla(bench, DType::kE4m3, rows, context);
      bench_mla(bench, DType::kBf16, rows, context);
      bench_gqa(bench, DType::kBf16, rows, context);
      bench_gqa(bench, DType::kE4m3, rows, context);
    }
  }
}

void bench_rest(const Bench& bench, int64_t rows) {
  constexpr int64_t kHidden = 256;
  Operands operands(bench.kernels);
  WorkerPool& pool = bench.pool;
  const kernel::CpuKernels& k = bench.kernels;
  const kernel::Rows hidden = operands.rows(DType::kF32, rows, kHidden);
  const kernel::Rows wide = operands.rows(DType::kF32, rows * 4, kHidden);
  const kernel::Rows act = operands.rows(k.activation, rows * 4, kHidden);
  int32_t* ids = operands.i32(rows * 4);
  float* table = operands.f32(64 * 32);
  auto one = [&](const std::string& name, double numbers, const std::function<void()>& call) {
    if (bench.wants(name)) report(bench, name, rows, time_of(call, 0.1), 1, numbers * 4, 0, bench.ceilings.cache_gb_s);
  };
  const auto n = static_cast<double>(rows * kHidden);
  one("rms_norm 256", n, [&] {
    k.rms_norm(pool, {.x = hidden, .weight = table, .y = act, .rows = rows, .dim = kHidden, .epsilon = 1e-5F});
  });
  float* heads = operands.f32(rows * 8 * 64);
  for (const auto style : {kernel::RopeStyle::kInterleaved, kernel::RopeStyle::kHalfSplit}) {
    one(style == kernel::RopeStyle::kInterleaved ? "rope interleaved 8x64" : "rope half-split 8x64", 2 * n, [&] {
      k.rope(pool, {.x = heads,
                    .row_stride = 512,
                    .head_stride = 64,
                    .positions = ids,
                    .cos = table,
                    .sin = table,
                    .rows = rows,
                    .heads = 8,
                    .dim = 64,
                    .style = style});
    });
  }
  one("silu_mul 4x256", 4 * n,
      [&] { k.silu_mul(pool, {.gate = wide, .up = wide, .y = act, .rows = rows * 4, .dim = kHidden}); });
  float* weights = operands.f32(rows * 4);
  one("route 16 top 4", static_cast<double>(rows * 16), [&] {
    k.route(pool, {.logits = heads, .ids = ids, .weights = weights, .rows = rows, .experts = 16, .top_k = 4});
  });
  std::fill(ids, ids + rows * 4, 0);
  one("combine top 4 of 256", 5 * n, [&] {
    k.combine(pool, {.x = static_cast<const float*>(wide.data),
                     .slots = ids,
                     .weights = weights,
                     .y = hidden,
                     .rows = rows,
                     .top_k = 4,
                     .dim = kHidden});
  });
  const kernel::PagedStore store = operands.store(DType::kE4m3, 64, 576);
  one("store_rows e4m3 256", n,
      [&] { k.store_rows(pool, {.x = hidden, .store = store, .slots = ids, .rows = rows, .dim = kHidden}); });
  const float* logits = operands.f32(rows * 4096);
  one("argmax 4096", static_cast<double>(rows * 4096),
      [&] { k.argmax(pool, {.logits = logits, .stride = 4096, .ids = ids, .rows = rows, .columns = 4096}); });
}

int run(int argc, char** argv) {
  CLI::App app("Times the CPU kernels");
  std::string isa_name = "auto";
  int threads = 2;
  bool large = false;
  bool reference = false;
  std::string filter;
  app.add_option("--isa", isa_name, "auto, portable, avx2, avx512 or amx");
  app.add_option("--threads", threads, "workers")->check(CLI::Range(1, 256));
  app.add_option("--filter", filter, "only cases whose name contains this");
  app.add_flag("--large", large, "also one layer of Kimi-K2 (2 GiB)");
  app.add_flag("--ref", reference, "the reference table");
  CLI11_PARSE(app, argc, argv);
  const auto isa = parse_cpu_isa(isa_name);
  if (!isa.ok()) {
    fmt::print(stderr, "--isa: {}\n", isa.message());
    return 2;
  }
  WorkerPool pool(threads);
  const kernel::CpuKernels& kernels = reference ? kernel::ref_kernels() : kernel::cpu_kernels(isa.value());
  const Bench bench{pool, kernels, measure_ceilings(pool, isa.value()), filter};
  fmt::print("{}, table {}, {} workers\n", cpu_name(), kernels.name, threads);
  fmt::print("ceilings: cache {:.1f} GB/s, memory {:.1f} GB/s, {:.0f} GFLOP/s, dispatch {:.2f} us\n",
             bench.ceilings.cache_gb_s, bench.ceilings.memory_gb_s, bench.ceilings.gflop_s, bench.ceilings.dispatch_us);
  fmt::print("{:34} {:>5} {:>10} {:>10} {:>8} {:>9} {:>7} {:>7}\n", "case", "rows", "best us", "median us", "GB/s",
             "GFLOP/s", "of GB/s", "of peak");
  for (const int64_t rows : {1, 8, 64}) bench_step(bench, rows);
  bench_attention(bench);
  for (const int64_t rows : {1, 8, 256}) bench_rest(bench, rows);
  bench_small_gemms(bench);
  if (large) bench_large_gemms(bench);
  return 0;
}

}  // namespace
}  // namespace strobe::bench

int main(int argc, char** argv) {
  return strobe::bench::run(argc, argv);
}
