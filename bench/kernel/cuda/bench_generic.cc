// The kernels of every model at the shapes of the small model (its operands stay in L2, so what counts is how long a
// launch takes that follows another), and the matrix product at shapes of Kimi-K2 from memory.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <random>

#include "base/failure.h"
#include "families.h"
#include "kernel/cuda/cublas_lt.h"
#include "kernel/cuda/device_memory.h"
#include "kernel/cuda/generic.h"
#include "kernel/cuda/sm90/dense_gemm.h"

namespace strobe::bench {
namespace {

using kernel::AttentionRequest;
using kernel::PagedStore;
using kernel::Rows;
using kernel::cuda::DeviceMemory;

constexpr int kLaunches = 100;  // of a graph
constexpr int64_t kHidden = 256;

// The first million are random, then they come again: a prime number of them, so that rows differ.
std::vector<Bf16> random_bf16(int64_t count) {
  constexpr int64_t kPeriod = 1'000'003;
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<Bf16> numbers(static_cast<size_t>(count));
  const auto drawn = numbers.begin() + std::min(count, kPeriod);
  std::generate(numbers.begin(), drawn, [&] { return to_bf16(normal(random)); });
  for (size_t i = kPeriod; i < numbers.size(); ++i) numbers[i] = numbers[i - kPeriod];
  return numbers;
}

// A matrix of random numbers on the device.
struct Operand {
  Operand(DType type, int64_t row_count, int64_t column_count) : dtype(type), columns(column_count) {
    const std::vector<Bf16> numbers = random_bf16(row_count * column_count);
    if (dtype == DType::kBf16) {
      memory = DeviceMemory(numbers);
      return;
    }
    std::vector<float> floats;
    for (const Bf16 x : numbers) floats.push_back(to_float(x));
    memory = DeviceMemory(floats);
  }
  [[nodiscard]] Rows rows() const { return {.data = memory.data(), .dtype = dtype, .stride = columns}; }

  DType dtype;
  int64_t columns;
  DeviceMemory memory;
};

// `copies` of it, one after the other.
DeviceMemory repeated(const DeviceMemory& one, int64_t copies) {
  DeviceMemory all(static_cast<size_t>(copies) * one.bytes());
  for (int64_t i = 0; i < copies; ++i) {
    kernel::cuda::check(cudaMemcpy(all.as<uint8_t>() + static_cast<size_t>(i) * one.bytes(), one.data(), one.bytes(),
                                   cudaMemcpyDeviceToDevice),
                        "cudaMemcpy");
  }
  return all;
}

using Launch = std::function<void(int, cudaStream_t)>;

// A kernel whose results the tests compare; here they must be numbers.
void add(Report& report, const std::string& name, const Operand& result, const Work& work, const Launch& launch) {
  launch(0, nullptr);
  kernel::cuda::check(cudaDeviceSynchronize(), name.c_str());
  std::vector<uint8_t> bytes(result.memory.bytes());
  result.memory.download(bytes.data(), bytes.size());
  const int64_t width = size_bytes(result.dtype);
  for (size_t i = 0; i < bytes.size(); i += static_cast<size_t>(width)) {
    const bool exponent_full = (bytes[i + static_cast<size_t>(width) - 1] & 0x7f) == 0x7f;
    if (exponent_full && bytes[i + static_cast<size_t>(width) - 2] >= 0x80) fail("{}: a result is not a number", name);
  }
  report.add(name, time_graph(kLaunches, launch), work);
}

// A product, or several of the same shape in one call: of one x, or each of its part of x's rows (heads).
struct ProductShape {
  int64_t out, in;
  int64_t count = 1;
  bool one_x = true;
};
using Product = std::function<void(const kernel::Gemm&, cudaStream_t)>;

// Products with bf16 weights. Small weights are found in L2, others in memory.
void bench_products(Report& report, const std::string& filter, const char* kind, const Product& product) {
  constexpr ProductShape kShapes[] = {{256, 256},
                                      {768, 256},
                                      {256, 768},
                                      {4096, 256},
                                      {256, 512},
                                      {1536, 7168},
                                      {576, 7168},
                                      {384, 7168},
                                      {2048, 7168},
                                      {2048, 7168, 2},
                                      {12288, 1536},
                                      {7168, 8192},
                                      {512, 128, 64, false},
                                      {128, 512, 64, false}};
  constexpr int64_t kInCache = int64_t{4} << 20;
  for (const auto& [out, in, count, one_x] : kShapes) {
    const std::string shape =
        fmt::format("{} gemm {}{}x{}", kind, count == 1 ? "" : fmt::format("{} of ", count), out, in);
    const int64_t weight_bytes = out * in * 2;
    const int copies = count * weight_bytes < kInCache ? 1 : cold_copies(count * weight_bytes);
    DeviceMemory weights;
    for (const int64_t rows : {1, 8, 16, 64, 128, 512, 4096}) {
      const std::string name = fmt::format("{}, {} rows", shape, rows);
      if (name.find(filter) == std::string::npos) continue;
      if (weights.data() == nullptr) weights = repeated(DeviceMemory(random_bf16(out * in)), copies * count);
      const Operand x(DType::kBf16, rows, one_x ? in : in * count);
      const Operand y(DType::kF32, rows, out * count);
      const auto launch = [&](int i, cudaStream_t stream) {
        std::vector<kernel::GemmProblem> problems;
        for (int64_t j = 0; j < count; ++j) {
          kernel::GemmProblem p{.x = x.rows(),
                                .weight = {.format = WeightFormat::kBf16,
                                           .out = out,
                                           .in = in,
                                           .data = weights.as<uint8_t>() + (i % copies * count + j) * weight_bytes},
                                .y = y.rows(),
                                .rows = rows};
          if (!one_x) p.x.data = x.memory.as<uint16_t>() + j * in;
          p.y.data = y.memory.as<float>() + j * out;
          problems.push_back(p);
        }
        product({.problems = problems.data(), .count = count}, stream);
      };
      const int64_t numbers_of_x = rows * x.columns;
      add(report, name, y,
          {.bytes = static_cast<double>(count * weight_bytes + numbers_of_x * 2 + rows * count * out * 4),
           .flops = 2.0 * static_cast<double>(count * rows * out * in)},
          launch);
    }
  }
}

void bench_gemm(Report& report, const std::string& filter) {
  bench_products(report, filter, "generic",
                 [](const kernel::Gemm& call, cudaStream_t stream) { kernel::cuda::gemm(call, stream); });
  bench_products(report, filter, "dense",
                 [](const kernel::Gemm& call, cudaStream_t stream) { kernel::cuda::sm90::dense_gemm(call, stream); });
}

// The same products through cuBLASLt, where the machine has it: the yardstick of many rows.
void bench_cublaslt(Report& report, const std::string& filter) {
  const auto library = kernel::cuda::CublasLt::open();
  if (!library.ok()) {
    fmt::print("cuBLASLt is not measured: {}\n", library.message());
    return;
  }
  const DeviceMemory workspace(static_cast<size_t>(kernel::cuda::CublasLt::kWorkspaceBytes));
  bench_products(report, filter, "cublaslt", [&](const kernel::Gemm& call, cudaStream_t stream) {
    for (int64_t i = 0; i < call.count; ++i) (*library)->gemm(call.problems[i], workspace.data(), stream);
  });
}

// Blocks of 8 rows at the vocabulary of Kimi-K2. Must: read each row's logits once, and weigh them (about 130
// operations of integers a logit).
void bench_draw(Report& report, const std::string& filter, int64_t sequences) {
  constexpr int64_t kColumns = 163840, kBlock = 8;
  struct Kind {
    const char* name;
    kernel::DrawParams params;
  };
  for (const Kind& kind : {Kind{"temperature", {.temperature = 1}}, Kind{"top-p", {.temperature = 1, .top_p = 0.9F}},
                           Kind{"top-k, top-p", {.temperature = 1, .top_p = 0.9F, .top_k = 40}}}) {
    const std::string name = fmt::format("generic draw {}, {} x {} rows", kind.name, sequences, kBlock);
    if (name.find(filter) == std::string::npos) continue;
    const int64_t rows = sequences * kBlock;
    Operand logits(DType::kF32, kBlock, kColumns);
    logits.memory = repeated(logits.memory, sequences);
    const DeviceMemory tokens(std::vector<int32_t>(static_cast<size_t>(rows)));
    const DeviceMemory positions(std::vector<int32_t>(static_cast<size_t>(rows), 17));
    const DeviceMemory lengths(std::vector<int32_t>(static_cast<size_t>(sequences), kBlock));
    const DeviceMemory params(std::vector<kernel::DrawParams>(static_cast<size_t>(sequences), kind.params));
    kernel::cuda::argmax({.logits = logits.memory.as<float>(),
                          .stride = kColumns,
                          .ids = tokens.as<int32_t>(),
                          .rows = rows,
                          .columns = kColumns},
                         nullptr);
    const DeviceMemory drawn(std::vector<int32_t>(static_cast<size_t>(rows)));
    add(report, name, logits, {.bytes = static_cast<double>(rows * kColumns * 4)}, [&](int, cudaStream_t stream) {
      kernel::cuda::check(
          cudaMemcpyAsync(drawn.data(), tokens.data(), tokens.bytes(), cudaMemcpyDeviceToDevice, stream), "copy");
      kernel::cuda::draw_tokens(
          {.blocks = {.block_tokens = lengths.as<int32_t>(), .sequences = sequences, .block_rows = kBlock},
           .params = params.as<kernel::DrawParams>(),
           .logits = logits.memory.as<float>(),
           .stride = kColumns,
           .columns = kColumns,
           .positions = positions.as<int32_t>(),
           .tokens = drawn.as<int32_t>()},
          stream);
    });
  }
}

void bench_rows(Report& report, const std::string& filter, int64_t rows) {
  const auto wanted = [&](const std::string& name) { return name.find(filter) != std::string::npos; };
  const Operand hidden(DType::kF32, rows, 7168);
  const Operand weight(DType::kF32, 1, 7168);
  const Operand result(DType::kBf16, rows, 7168);
  const auto bytes = [&](int64_t width) { return Work{.bytes = static_cast<double>(rows * width * 6)}; };
  for (const int64_t dim : {kHidden, int64_t{7168}}) {
    const std::string name = fmt::format("generic rms_norm {}, {} rows", dim, rows);
    if (!wanted(name)) continue;
    add(report, name, result, bytes(dim), [&](int, cudaStream_t stream) {
      kernel::cuda::rms_norm({.x = hidden.rows(),
                              .weight = weight.memory.as<float>(),
                              .y = result.rows(),
                              .rows = rows,
                              .dim = dim,
                              .epsilon = 1e-5F},
                             stream);
    });
  }
  if (const std::string name = fmt::format("generic silu_mul 768, {} rows", rows); wanted(name)) {
    add(report, name, result, bytes(768), [&](int, cudaStream_t stream) {
      Rows up = hidden.rows();
      up.data = hidden.memory.as<float>() + 768;
      kernel::cuda::silu_mul({.gate = hidden.rows(), .up = up, .y = result.rows(), .rows = rows, .dim = 768}, stream);
    });
  }
  if (const std::string name = fmt::format("generic route 16 of 4, {} rows", rows); wanted(name)) {
    const DeviceMemory ids(static_cast<size_t>(rows) * 4 * 4);
    const Operand weights(DType::kF32, rows, 4);
    add(report, name, weights, bytes(16), [&](int, cudaStream_t stream) {
      kernel::cuda::route({.logits = hidden.memory.as<float>(),
                           .bias = weight.memory.as<float>(),
                           .ids = ids.as<int32_t>(),
                           .weights = weights.memory.as<float>(),
                           .rows = rows,
                           .experts = 16,
                           .top_k = 4},
                          stream);
    });
  }
  for (const int64_t columns : {4096, 163840}) {
    const std::string name = fmt::format("generic argmax {}, {} rows", columns, rows);
    if (!wanted(name)) continue;
    const Operand logits(DType::kF32, rows, columns);
    const DeviceMemory ids(static_cast<size_t>(rows) * 4);
    add(report, name, logits, {.bytes = static_cast<double>(rows * columns * 4)}, [&](int, cudaStream_t stream) {
      kernel::cuda::argmax({.logits = logits.memory.as<float>(),
                            .stride = columns,
                            .ids = ids.as<int32_t>(),
                            .rows = rows,
                            .columns = columns},
                           stream);
    });
  }
}

// `requests` of `rows` rows at the end of `context` positions.
void bench_attention(Report& report, const std::string& filter, bool mla, int64_t requests, int64_t rows,
                     int64_t context) {
  constexpr int32_t kPage = 64;
  constexpr int64_t kHeads = 8;
  const std::string name = fmt::format("generic {} {} x {} rows, context {}",
                                       mla ? "mla 8 heads" : "gqa 8/2 heads of 64", requests, rows, context);
  if (name.find(filter) == std::string::npos) return;
  const int64_t pages = (context + kPage - 1) / kPage;
  const int64_t slot = mla ? 576 : 128;
  const int64_t key = mla ? 576 : 64;
  const int64_t value = mla ? 512 : 64;
  const Operand k(DType::kBf16, requests * pages * kPage, slot);
  const Operand v(DType::kBf16, requests * pages * kPage, slot);
  const Operand q(DType::kBf16, requests * rows, kHeads * key);
  const Operand out(DType::kBf16, requests * rows, kHeads * value);
  std::vector<int32_t> list;
  for (int64_t i = 0; i < requests * pages; ++i) list.push_back(static_cast<int32_t>(i));
  const DeviceMemory lists(list);
  std::vector<AttentionRequest> host;
  for (int64_t i = 0; i < requests; ++i) {
    host.push_back({.row_begin = static_cast<int32_t>(i * rows),
                    .row_count = static_cast<int32_t>(rows),
                    .first_position = static_cast<int32_t>(context - rows),
                    .key_count = static_cast<int32_t>(context),
                    .pages = lists.as<int32_t>() + i * pages});
  }
  const DeviceMemory there(host);
  const auto store = [&](const Operand& numbers) {
    return PagedStore{.data = numbers.memory.data(), .dtype = DType::kBf16, .dim = slot, .page_size = kPage};
  };
  const double stored = static_cast<double>(requests * context * slot * (mla ? 2 : 4));
  const double flops = 2.0 * static_cast<double>(requests * rows * kHeads * context * (key + value));
  add(report, name, out, {.bytes = stored, .flops = flops}, [&](int, cudaStream_t stream) {
    if (mla) {
      kernel::cuda::mla_attention({.q = q.rows(),
                                   .store = store(k),
                                   .requests = there.as<AttentionRequest>(),
                                   .request_count = requests,
                                   .out = out.rows(),
                                   .rows = requests * rows,
                                   .heads = kHeads,
                                   .latent = 512,
                                   .rope = 64,
                                   .scale = 0.04F},
                                  stream);
    } else {
      kernel::cuda::gqa_attention({.q = q.rows(),
                                   .k = store(k),
                                   .v = store(v),
                                   .requests = there.as<AttentionRequest>(),
                                   .request_count = requests,
                                   .out = out.rows(),
                                   .rows = requests * rows,
                                   .heads = kHeads,
                                   .kv_heads = 2,
                                   .head_dim = 64,
                                   .scale = 0.125F,
                                   .causal = false},
                                  stream);
    }
  });
}

}  // namespace

void bench_generic(Report& report, const std::string& filter) {
  bench_gemm(report, filter);
  bench_cublaslt(report, filter);
  for (const int64_t sequences : {1, 8, 48}) bench_draw(report, filter, sequences);
  for (const int64_t rows : {1, 8, 64}) bench_rows(report, filter, rows);
  for (const bool mla : {false, true}) {
    for (const int64_t requests : {1, 16}) {
      for (const int64_t context : {128, 512, 1024, 4096}) {
        bench_attention(report, filter, mla, requests, 8, context);
      }
    }
  }
}

}  // namespace strobe::bench
