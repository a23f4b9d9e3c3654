// The routed experts of Kimi-K2 on one GPU: all 384 of one layer, both matrix products, grouping, SwiGLU and the sum
// over experts included, the router not. Routing is uniform; every launch has ids of its own, so its weights lie
// outside L2.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <set>

#include "base/failure.h"
#include "families.h"
#include "kernel/cpu_kernels.h"
#include "kernel/cuda/device_memory.h"
#include "kernel/cuda/sm90/nvfp4_moe.h"
#include "kernel/cuda/sm90/nvfp4_pack.h"

namespace strobe::bench {
namespace {

using kernel::cuda::DeviceMemory;
using kernel::cuda::MoeCall;
using kernel::cuda::MoeShape;
using kernel::cuda::MoeTiling;

constexpr MoeShape kShape{.experts = 384, .hidden = 7168, .inter = 2048, .top_k = 8};
constexpr double kExpertBytes = 3.0 * 7168 * 2048 * 9 / 16;

struct Matrix {
  Matrix(int64_t out, int64_t in, std::mt19937_64& random)
      : codes(static_cast<size_t>(out * in / 2)), scales(codes.size() / 8) {
    for (auto& code : codes) code = static_cast<uint8_t>(random());
    for (auto& scale : scales) scale = static_cast<uint8_t>(random() % 0x7f);
    tensor = {.format = WeightFormat::kNvfp4,
              .out = out,
              .in = in,
              .data = codes.data(),
              .scales = scales.data(),
              .global_scale = 1 / (400 * std::sqrt(static_cast<float>(in)))};
  }
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
  QuantTensor tensor;
};

// One expert's random weights, 384 times on the device.
struct Weights {
  explicit Weights(std::mt19937_64& random)
      : gate(kShape.inter, kShape.hidden, random),
        up(kShape.inter, kShape.hidden, random),
        down(kShape.hidden, kShape.inter, random) {
    std::vector<uint8_t> packed(static_cast<size_t>(kernel::cuda::nvfp4_packed_bytes(2 * kShape.inter, kShape.hidden)));
    kernel::cuda::pack_nvfp4_gate_up(gate.tensor, up.tensor, 0, kShape.inter / 32, packed.data());
    gate_up_there = repeat(packed);
    packed.resize(static_cast<size_t>(kernel::cuda::nvfp4_packed_bytes(kShape.hidden, kShape.inter)));
    kernel::cuda::pack_nvfp4(down.tensor, 0, kShape.hidden / 64, packed.data());
    down_there = repeat(packed);
    std::vector<float> scales(static_cast<size_t>(2 * kShape.experts), gate.tensor.global_scale);
    std::fill(scales.begin() + kShape.experts, scales.end(), down.tensor.global_scale);
    scales_there = DeviceMemory(scales);
  }

  static DeviceMemory repeat(const std::vector<uint8_t>& bytes) {
    DeviceMemory all(bytes.size() * static_cast<size_t>(kShape.experts));
    all.upload(bytes.data(), bytes.size());
    for (int e = 1; e < kShape.experts; ++e) {
      kernel::cuda::check(cudaMemcpy(all.as<uint8_t>() + static_cast<size_t>(e) * bytes.size(), all.data(),
                                     bytes.size(), cudaMemcpyDeviceToDevice),
                          "cudaMemcpy");
    }
    return all;
  }

  [[nodiscard]] kernel::cuda::MoeWeights view() const {
    return {.gate_up = gate_up_there.as<uint8_t>(),
            .down = down_there.as<uint8_t>(),
            .gate_scales = scales_there.as<float>(),
            .up_scales = scales_there.as<float>(),
            .down_scales = scales_there.as<float>() + kShape.experts};
  }

  Matrix gate;
  Matrix up;
  Matrix down;
  DeviceMemory gate_up_there;
  DeviceMemory down_there;
  DeviceMemory scales_there;
};

// Tokens with ids of their own for every launch.
struct Batch {
  Batch(int tokens_, int copies, std::mt19937_64& random) : tokens(tokens_) {
    std::normal_distribution<float> normal;
    for (int i = 0; i < tokens * kShape.hidden; ++i) x.push_back(to_bf16(normal(random)));
    std::vector<int32_t> ids;
    for (int copy = 0; copy < copies; ++copy) {
      std::set<int32_t> all;
      for (int t = 0; t < tokens; ++t) {
        std::set<int32_t> own;
        while (static_cast<int>(own.size()) < kShape.top_k) {
          const auto id = static_cast<int32_t>(random() % static_cast<uint64_t>(kShape.experts));
          if (own.insert(id).second) ids.push_back(id);
        }
        all.insert(own.begin(), own.end());
      }
      distinct += static_cast<double>(all.size()) / copies;
    }
    x_there = DeviceMemory(x);
    ids_there = DeviceMemory(ids);
    weights_there = DeviceMemory(std::vector<float>(static_cast<size_t>(tokens * kShape.top_k), 0.3125F));
    y_there = DeviceMemory(x.size() * sizeof(Bf16));
    y_there.fill(0xff);
    workspace = DeviceMemory(static_cast<size_t>(kernel::cuda::moe_workspace_bytes(kShape, tokens)));
  }

  [[nodiscard]] MoeCall call(const Weights& weights, int copy) const {
    return {.shape = kShape,
            .weights = weights.view(),
            .x = x_there.as<Bf16>(),
            .x_stride = kShape.hidden,
            .ids = ids_there.as<int32_t>() + static_cast<int64_t>(copy) * tokens * kShape.top_k,
            .id_weights = weights_there.as<float>(),
            .y = y_there.data(),
            .y_stride = kShape.hidden,
            .tokens = tokens,
            .workspace = workspace.as<uint8_t>()};
  }

  int tokens;
  double distinct = 0;  // experts, mean over the copies
  std::vector<Bf16> x;
  DeviceMemory x_there;
  DeviceMemory ids_there;
  DeviceMemory weights_there;
  DeviceMemory y_there;
  DeviceMemory workspace;
};

// |y - reference| / |reference| of the last token. All experts are the same one, so the reference needs no ids.
double relative_error(const Batch& batch, const Weights& weights) {
  const kernel::CpuKernels& ref = kernel::ref_kernels();
  WorkerPool pool(4);
  std::vector<float> gate(static_cast<size_t>(kShape.inter));
  std::vector<float> up(gate.size());
  std::vector<Bf16> h(gate.size());
  std::vector<float> y(static_cast<size_t>(kShape.hidden));
  auto* x = const_cast<Bf16*>(batch.x.data()) + int64_t{batch.tokens - 1} * kShape.hidden;
  const auto multiply = [&](Bf16* from, const QuantTensor& weight, std::vector<float>& to) {
    const kernel::GemmProblem problem{
        .x = {from, DType::kBf16, 0}, .weight = weight, .y = {to.data(), DType::kF32, 0}, .rows = 1};
    ref.gemm(pool, {.problems = &problem, .count = 1});
  };
  multiply(x, weights.gate.tensor, gate);
  multiply(x, weights.up.tensor, up);
  ref.silu_mul(pool, {.gate = {gate.data(), DType::kF32, 0},
                      .up = {up.data(), DType::kF32, 0},
                      .y = {h.data(), DType::kBf16, 0},
                      .rows = 1,
                      .dim = kShape.inter});
  multiply(h.data(), weights.down.tensor, y);

  std::vector<Bf16> out(batch.x.size());
  batch.y_there.download(out.data(), batch.y_there.bytes());
  double wrong = 0;
  double norm = 0;
  for (size_t c = 0; c < y.size(); ++c) {
    const double expected = kShape.top_k * 0.3125 * y[c];
    const double error = to_float(out[out.size() - y.size() + c]) - expected;
    wrong += error * error;
    norm += expected * expected;
  }
  return std::sqrt(wrong / norm);
}

struct Case {
  int tokens;
  int copies;
  double target_us;   // 0: none
  double humming_us;  // humming-kernels 0.1.20 on an H200, without routing and activation
};
constexpr Case kCases[] = {{1, 24, 62, 81.7}, {2, 12, 0, 0},  {4, 12, 0, 0},       {8, 8, 430, 507},
                           {16, 6, 780, 931}, {32, 4, 0, 0},  {64, 4, 1950, 2449}, {128, 4, 2450, 3177},
                           {256, 2, 0, 0},    {1024, 1, 0, 0}};

}  // namespace

void bench_nvfp4_moe(Report& report, const std::string& filter) {
  std::mt19937_64 random(1);
  std::optional<Weights> weights;  // 9.5 GB, only when a case is wanted
  for (const Case& c : kCases) {
    std::optional<Batch> batch;
    const MoeTiling chosen = kernel::cuda::choose_moe_tiling(kShape, c.tokens);
    for (const MoeTiling& tiling : kernel::cuda::kMoeTilings) {
      const std::string name =
          fmt::format("nvfp4_moe kimi-k2 {} tokens, tiling {}x{}", c.tokens, tiling.halves, tiling.row_blocks);
      if (name.find(filter) == std::string::npos) continue;
      if (!weights) weights.emplace(random);
      if (!batch) batch.emplace(c.tokens, c.copies, random);
      const auto launch = [&](int copy, cudaStream_t stream) {
        nvfp4_moe(batch->call(*weights, copy), tiling, stream);
      };
      const GraphTiming timing = time_graph(c.copies, launch, c.tokens > 64 ? 7 : 12);
      const double error = relative_error(*batch, *weights);
      if (!(error < 5e-3)) fail("{}: relative error {}", name, error);
      nlohmann::json facts = {{"distinct_experts", batch->distinct},
                              {"relative_error", error},
                              {"weights_tb_s", batch->distinct * kExpertBytes / timing.median_us / 1e6},
                              {"chosen", tiling == chosen}};
      if (c.target_us > 0) facts.update({{"target_us", c.target_us}, {"humming_us", c.humming_us}});
      const Work work{.bytes = batch->distinct * kExpertBytes + c.tokens * 2.0 * kShape.hidden * sizeof(Bf16),
                      .flops = 2.0 * 3 * kShape.hidden * kShape.inter * c.tokens * kShape.top_k};
      report.add(name, timing, work, facts);
    }
  }
}

}  // namespace strobe::bench
