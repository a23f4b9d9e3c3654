// The routed experts on sm_90, against the reference's matrix products, SwiGLU and sum.
#include "kernel/cuda/sm90/nvfp4_moe.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>

#include "harness.h"
#include "kernel/cuda/device_memory.h"
#include "kernel/cuda/sm90/nvfp4_pack.h"

namespace strobe::kernel::cuda {
namespace {

struct Expert {
  Expert(const MoeShape& s, Random& random)
      : gate(WeightFormat::kNvfp4, s.inter, s.hidden, random),
        up(WeightFormat::kNvfp4, s.inter, s.hidden, random),
        down(WeightFormat::kNvfp4, s.hidden, s.inter, random) {
    // Intermediates of order one; every expert with scales of its own.
    gate.global_scale = random.uniform(0.5F, 1) / (400 * std::sqrt(static_cast<float>(s.hidden)));
    up.global_scale = random.uniform(0.5F, 1) / (400 * std::sqrt(static_cast<float>(s.hidden)));
    down.global_scale = random.uniform(0.5F, 1) / (400 * std::sqrt(static_cast<float>(s.inter)));
    // Some scales are negative.
    for (size_t i = 0; i < gate.scales.size(); i += 5) gate.scales[i] ^= 0x80;
    for (size_t i = 0; i < down.scales.size(); i += 3) down.scales[i] ^= 0x80;
  }
  Weight gate;
  Weight up;
  Weight down;
};

// One layer: its experts on the host, and packed on the device.
class Layer {
 public:
  Layer(const MoeShape& s, uint64_t seed) : shape(s) {
    Random random(seed);
    const auto gate_up_bytes = static_cast<size_t>(nvfp4_packed_bytes(2 * s.inter, s.hidden));
    const auto down_bytes = static_cast<size_t>(nvfp4_packed_bytes(s.hidden, s.inter));
    std::vector<uint8_t> gate_up(gate_up_bytes * static_cast<size_t>(s.experts));
    std::vector<uint8_t> down(down_bytes * static_cast<size_t>(s.experts));
    std::vector<float> scales[3];
    for (int e = 0; e < s.experts; ++e) experts.emplace_back(s, random);
    pool_of(3).for_each(s.experts, [&](int64_t e) {
      const auto i = static_cast<size_t>(e);
      pack_nvfp4_gate_up(experts[i].gate.tensor(), experts[i].up.tensor(), 0, s.inter / 32,
                         gate_up.data() + i * gate_up_bytes);
      pack_nvfp4(experts[i].down.tensor(), 0, s.hidden / 64, down.data() + i * down_bytes);
    });
    for (const Expert& e : experts) {
      scales[0].push_back(e.gate.global_scale);
      scales[1].push_back(e.up.global_scale);
      scales[2].push_back(e.down.global_scale);
    }
    gate_up_ = DeviceMemory(gate_up);
    down_ = DeviceMemory(down);
    for (int i = 0; i < 3; ++i) scales_[i] = DeviceMemory(scales[i]);
  }

  [[nodiscard]] MoeWeights weights() const {
    return {.gate_up = gate_up_.as<uint8_t>(),
            .down = down_.as<uint8_t>(),
            .gate_scales = scales_[0].as<float>(),
            .up_scales = scales_[1].as<float>(),
            .down_scales = scales_[2].as<float>()};
  }

  MoeShape shape;
  std::vector<Expert> experts;

 private:
  DeviceMemory gate_up_;
  DeviceMemory down_;
  DeviceMemory scales_[3];
};

// Tokens, and where they go.
struct Batch {
  Batch(const MoeShape& s, int tokens, uint64_t seed)
      : x(DType::kBf16, tokens, s.hidden), before(DType::kF32, tokens, s.hidden) {
    Random random(seed);
    x.fill(random);
    before.fill(random);
    for (int t = 0; t < tokens; ++t) {
      const auto order = random.permutation(s.experts);
      for (int k = 0; k < s.top_k; ++k) {
        ids.push_back(order[static_cast<size_t>(k)]);
        weights.push_back(random.uniform(0.1F, 1));
      }
    }
  }
  Matrix x;
  Matrix before;  // y, where it accumulates
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

struct Output {
  DType dtype = DType::kF32;
  bool accumulate = false;
};

// The intermediates that a call left in its workspace, [pairs as in ids, inter].
Matrix sorted_h(const MoeShape& s, int tokens, const DeviceMemory& workspace) {
  const auto pairs = static_cast<size_t>(tokens * s.top_k);
  MoeWork work;
  lay_out_moe_work(s, tokens, workspace.as<uint8_t>(), &work);
  std::vector<int> order(pairs);
  std::vector<Bf16> there(pairs * static_cast<size_t>(s.inter));
  check(cudaMemcpy(order.data(), work.pairs, pairs * 4, cudaMemcpyDeviceToHost), "pairs");
  check(cudaMemcpy(there.data(), work.h, there.size() * 2, cudaMemcpyDeviceToHost), "h");
  Matrix h(DType::kBf16, static_cast<int64_t>(pairs), s.inter);
  for (size_t i = 0; i < pairs; ++i) {
    for (int64_t c = 0; c < s.inter; ++c) {
      h.put(order[i], c, to_float(there[i * static_cast<size_t>(s.inter) + static_cast<size_t>(c)]));
    }
  }
  return h;
}

struct Result {
  Matrix y;
  Matrix h;  // [pairs, inter], pairs as in ids
};

// Some tokens of a batch, in this order. Rows of x and y lie apart; what is between y's must stay.
Result run_device(const Layer& layer, const Batch& batch, const std::vector<int>& tokens, const MoeTiling& tiling,
                  const Output& output) {
  const MoeShape& s = layer.shape;
  const auto count = static_cast<int64_t>(tokens.size());
  const int64_t x_stride = s.hidden + 8;
  const int64_t y_stride = s.hidden + 3;
  std::vector<Bf16> x(static_cast<size_t>(count * x_stride), to_bf16(NAN));
  std::vector<float> y_f32(static_cast<size_t>(count * y_stride), -7);
  std::vector<Bf16> y_bf16(static_cast<size_t>(count * y_stride), to_bf16(-7));
  std::vector<int32_t> ids;
  std::vector<float> weights;
  for (int64_t i = 0; i < count; ++i) {
    const int token = tokens[static_cast<size_t>(i)];
    for (int64_t c = 0; c < s.hidden; ++c) {
      x[static_cast<size_t>(i * x_stride + c)] = to_bf16(batch.x.at(token, c));
      if (output.accumulate) y_f32[static_cast<size_t>(i * y_stride + c)] = batch.before.at(token, c);
    }
    for (int k = 0; k < s.top_k; ++k) {
      ids.push_back(batch.ids[static_cast<size_t>(token * s.top_k + k)]);
      weights.push_back(batch.weights[static_cast<size_t>(token * s.top_k + k)]);
    }
  }
  const DeviceMemory x_there(x);
  const DeviceMemory ids_there(ids);
  const DeviceMemory weights_there(weights);
  const DeviceMemory y_there = output.dtype == DType::kF32 ? DeviceMemory(y_f32) : DeviceMemory(y_bf16);
  DeviceMemory workspace(static_cast<size_t>(moe_workspace_bytes(s, static_cast<int>(count))));
  workspace.fill(0xff);  // NaN, and counters that nobody set
  nvfp4_moe({.shape = s,
             .weights = layer.weights(),
             .x = x_there.as<Bf16>(),
             .x_stride = x_stride,
             .ids = ids_there.as<int32_t>(),
             .id_weights = weights_there.as<float>(),
             .y = y_there.data(),
             .y_dtype = output.dtype,
             .y_stride = y_stride,
             .accumulate = output.accumulate,
             .tokens = static_cast<int>(count),
             .workspace = workspace.as<uint8_t>()},
            tiling, nullptr);
  check(cudaDeviceSynchronize(), "nvfp4_moe");
  if (output.dtype == DType::kF32) {
    y_there.download(y_f32.data(), y_there.bytes());
  } else {
    y_there.download(y_bf16.data(), y_there.bytes());
  }
  Result result{.y = Matrix(output.dtype, count, s.hidden), .h = sorted_h(s, static_cast<int>(count), workspace)};
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < y_stride; ++c) {
      const auto place = static_cast<size_t>(i * y_stride + c);
      const float value = output.dtype == DType::kF32 ? y_f32[place] : to_float(y_bf16[place]);
      if (c < s.hidden) {
        result.y.put(i, c, value);
      } else {
        EXPECT_EQ(value, -7) << "between rows " << i << " and " << i + 1;
      }
    }
  }
  return result;
}

// Pairs of each expert.
std::map<int32_t, std::vector<int32_t>> pairs_by_expert(const Batch& batch) {
  std::map<int32_t, std::vector<int32_t>> pairs;
  for (size_t i = 0; i < batch.ids.size(); ++i) pairs[batch.ids[i]].push_back(static_cast<int32_t>(i));
  return pairs;
}

void multiply(const Matrix& x, const std::vector<int32_t>& x_rows, const Weight& weight, Matrix& y) {
  const GemmProblem problem = {
      .x = x.view(), .x_rows = x_rows.data(), .weight = weight.tensor(), .y = y.view(), .rows = y.rows()};
  ref_kernels().gemm(pool_of(3), {.problems = &problem, .count = 1});
}

// The absolute sum of a row times the weights' root mean square (some 100 to 200 here): what terms of its
// products add up to.
double row_magnitude(const Matrix& x, int64_t row, float global_scale) {
  double sum = 0;
  for (int64_t i = 0; i < x.columns(); ++i) sum += std::fabs(x.at(row, i));
  return sum * 100 * global_scale;
}

// The reference's intermediates, f32, [pairs as in ids, inter].
Oracle reference_h(const Layer& layer, const Batch& batch) {
  const MoeShape& s = layer.shape;
  const auto pairs = static_cast<int64_t>(batch.ids.size());
  Matrix h(DType::kF32, pairs, s.inter);
  std::vector<double> magnitude(batch.ids.size());
  for (const auto& [e, own] : pairs_by_expert(batch)) {
    const Expert& expert = layer.experts[static_cast<size_t>(e)];
    const auto count = static_cast<int64_t>(own.size());
    Matrix gate(DType::kF32, count, s.inter);
    Matrix up(DType::kF32, count, s.inter);
    Matrix product(DType::kF32, count, s.inter);
    std::vector<int32_t> tokens;
    for (const int32_t pair : own) tokens.push_back(pair / s.top_k);
    multiply(batch.x, tokens, expert.gate, gate);
    multiply(batch.x, tokens, expert.up, up);
    ref_kernels().silu_mul(pool_of(3),
                           {.gate = gate.view(), .up = up.view(), .y = product.view(), .rows = count, .dim = s.inter});
    for (int64_t r = 0; r < count; ++r) {
      const int32_t pair = own[static_cast<size_t>(r)];
      // An error of gate times up, and the other way round; neither is far above one.
      magnitude[static_cast<size_t>(pair)] =
          8 * row_magnitude(batch.x, tokens[static_cast<size_t>(r)], expert.gate.global_scale);
      for (int64_t c = 0; c < s.inter; ++c) h.put(pair, c, product.at(r, c));
    }
  }
  Oracle oracle;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    for (int64_t c = 0; c < s.inter; ++c)
      oracle.add(h.at(pair, c), magnitude[static_cast<size_t>(pair)] + std::fabs(h.at(pair, c)));
  }
  return oracle;
}

// The reference's y from given intermediates.
Oracle reference_y(const Layer& layer, const Batch& batch, const Matrix& h, bool accumulate) {
  const MoeShape& s = layer.shape;
  Matrix partial(DType::kF32, h.rows(), s.hidden);
  std::vector<double> magnitude(batch.ids.size());
  for (const auto& [e, own] : pairs_by_expert(batch)) {
    const Weight& down = layer.experts[static_cast<size_t>(e)].down;
    Matrix y(DType::kF32, static_cast<int64_t>(own.size()), s.hidden);
    multiply(h, own, down, y);
    for (int64_t r = 0; r < y.rows(); ++r) {
      const int32_t pair = own[static_cast<size_t>(r)];
      magnitude[static_cast<size_t>(pair)] = row_magnitude(h, pair, down.global_scale);
      for (int64_t c = 0; c < s.hidden; ++c) partial.put(pair, c, y.at(r, c));
    }
  }
  Oracle oracle;
  for (int64_t t = 0; t < batch.x.rows(); ++t) {
    for (int64_t c = 0; c < s.hidden; ++c) {
      double value = accumulate ? batch.before.at(t, c) : 0;
      double size = std::fabs(value);
      for (int64_t pair = t * s.top_k; pair < (t + 1) * s.top_k; ++pair) {
        const double weight = batch.weights[static_cast<size_t>(pair)];
        value += weight * partial.at(pair, c);
        size += weight * (magnitude[static_cast<size_t>(pair)] + std::fabs(partial.at(pair, c)));
      }
      oracle.add(value, size);
    }
  }
  return oracle;
}

std::vector<int> all_tokens(const Batch& batch) {
  std::vector<int> tokens(static_cast<size_t>(batch.x.rows()));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

// Sums in f32, as the tables of the CPU.
constexpr double kTolerance = 1e-5;

// The intermediates, then what follows from them (one near the middle of two bf16 may be rounded either way).
void expect_right(const Layer& layer, const Batch& batch, const Output& output) {
  const MoeShape& s = layer.shape;
  const Oracle h = reference_h(layer, batch);
  for (const MoeTiling& tiling : kMoeTilings) {
    if (!fits(tiling, s)) continue;
    SCOPED_TRACE(fmt::format("experts {} top {} hidden {} inter {}, {} tokens, tiling {} x {}", s.experts, s.top_k,
                             s.hidden, s.inter, batch.x.rows(), tiling.halves, tiling.row_blocks));
    const Result result = run_device(layer, batch, all_tokens(batch), tiling, output);
    EXPECT_TRUE(close(result.h.values(), h, kTolerance, DType::kBf16));
    EXPECT_TRUE(
        close(result.y.values(), reference_y(layer, batch, result.h, output.accumulate), kTolerance, output.dtype));
  }
}

TEST(Nvfp4Moe, ShapesAndTokenCounts) {
  uint64_t seed = 0;
  for (const MoeShape& shape : {MoeShape{.experts = 1, .hidden = 64, .inter = 64, .top_k = 1},
                                MoeShape{.experts = 5, .hidden = 192, .inter = 128, .top_k = 3},
                                MoeShape{.experts = 16, .hidden = 256, .inter = 256, .top_k = 4},  // pocket-k2
                                MoeShape{.experts = 40, .hidden = 640, .inter = 320, .top_k = 8},
                                MoeShape{.experts = 3, .hidden = 1088, .inter = 64, .top_k = 2}}) {
    const Layer layer(shape, ++seed);
    for (const int tokens : {1, 2, 7, 8, 9, 31, 33, 100}) {
      ++seed;
      expect_right(layer, Batch(shape, tokens, seed),
                   {.dtype = seed % 3 == 0 ? DType::kBf16 : DType::kF32, .accumulate = seed % 3 == 1});
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(Nvfp4Moe, NoTokens) {
  const Layer layer({.experts = 2, .hidden = 64, .inter = 64, .top_k = 1}, 1);
  run_device(layer, Batch(layer.shape, 0, 1), {}, choose_moe_tiling(layer.shape, 0), {});
}

TEST(Nvfp4Moe, AllTokensOnTheSameExperts) {
  const MoeShape shape{.experts = 64, .hidden = 256, .inter = 128, .top_k = 2};
  const Layer layer(shape, 3);
  for (const int tokens : {8, 65, 300}) {
    Batch batch(shape, tokens, 4);
    for (size_t i = 0; i < batch.ids.size(); ++i) batch.ids[i] = i % 2 == 0 ? 63 : 0;
    expect_right(layer, batch, {});
  }
}

TEST(Nvfp4Moe, ManyPairs) {
  const MoeShape shape{.experts = 384, .hidden = 64, .inter = 64, .top_k = 8};
  const Layer layer(shape, 5);
  for (const int tokens : {500, 4096}) expect_right(layer, Batch(shape, tokens, 6), {});
}

TEST(Nvfp4Moe, KimiK2Dimensions) {
  const MoeShape shape{.experts = 9, .hidden = 7168, .inter = 2048, .top_k = 8};
  const Layer layer(shape, 7);
  expect_right(layer, Batch(shape, 3, 8), {.dtype = DType::kBf16});
}

// A token's bytes: alone, among others, in any place, beside NaN, under every tiling, again and again.
TEST(Nvfp4Moe, BatchInvariant) {
  for (const MoeShape& shape : {MoeShape{.experts = 24, .hidden = 512, .inter = 256, .top_k = 4},
                                MoeShape{.experts = 12, .hidden = 7168, .inter = 2048, .top_k = 8}}) {
    const Layer layer(shape, 9);
    constexpr int kTokens = 80;
    Batch batch(shape, kTokens, 10);
    batch.x.fill_row(5, NAN);
    batch.x.fill_row(40, HUGE_VALF);
    std::vector<std::string> alone;
    for (int t = 0; t < kTokens; ++t) alone.push_back(run_device(layer, batch, {t}, kMoeTilings[0], {}).y.row_bytes(0));
    for (int t = 1; t < kTokens; ++t) ASSERT_NE(alone[static_cast<size_t>(t)], alone[static_cast<size_t>(t - 1)]);
    Random random(11);
    for (const MoeTiling& tiling : kMoeTilings) {
      for (const int count : {1, 2, 8, 17, 80}) {
        for (int trial = 0; trial < 3; ++trial) {
          const auto order = random.permutation(kTokens);
          const std::vector<int> tokens(order.begin(), order.begin() + count);
          const Matrix y = run_device(layer, batch, tokens, tiling, {}).y;
          for (int i = 0; i < count; ++i) {
            const int token = tokens[static_cast<size_t>(i)];
            if (token == 5 || token == 40) continue;
            ASSERT_TRUE(y.row_bytes(i) == alone[static_cast<size_t>(token)])
                << "token " << token << " as number " << i << " of " << count << ", tiling " << tiling.halves << " x "
                << tiling.row_blocks;
          }
        }
      }
    }
  }
}

// The sorted list and its groups, against a stable sort.
TEST(Nvfp4Moe, GroupsPairsByExpert) {
  for (const int experts : {1, 7, 384, 1024}) {
    for (const int pairs : {1, 31, 64, 1000, 1025, 32768}) {
      for (const int group_rows : {8, 32}) {
        Random random(static_cast<uint64_t>(pairs + experts));
        std::vector<int32_t> ids;
        for (int i = 0; i < pairs; ++i)
          ids.push_back(static_cast<int32_t>(random.below(experts) * random.below(3) / 2));
        const MoeShape shape{.experts = experts, .hidden = 64, .inter = 64, .top_k = 1};
        DeviceMemory workspace(static_cast<size_t>(moe_workspace_bytes(shape, pairs)));
        workspace.fill(0xff);
        MoeWork work;
        lay_out_moe_work(shape, pairs, workspace.as<uint8_t>(), &work);
        const DeviceMemory ids_there(ids);
        launch_moe_group({.work = work,
                          .ids = ids_there.as<int32_t>(),
                          .pairs = pairs,
                          .experts = experts,
                          .group_rows = group_rows,
                          .arrivals = pairs},
                         nullptr);
        check(cudaDeviceSynchronize(), "moe_group");

        std::vector<int> expected(static_cast<size_t>(pairs));
        std::iota(expected.begin(), expected.end(), 0);
        std::stable_sort(expected.begin(), expected.end(),
                         [&](int a, int b) { return ids[static_cast<size_t>(a)] < ids[static_cast<size_t>(b)]; });
        std::vector<int> sorted(static_cast<size_t>(pairs));
        check(cudaMemcpy(sorted.data(), work.pairs, sorted.size() * 4, cudaMemcpyDeviceToHost), "pairs");
        ASSERT_EQ(sorted, expected) << experts << " experts, " << pairs << " pairs";

        MoeControl control;
        check(cudaMemcpy(&control, work.control, sizeof control, cudaMemcpyDeviceToHost), "control");
        EXPECT_EQ(control.ticket, 0);
        std::vector<MoeGroup> groups(static_cast<size_t>(control.groups));
        check(cudaMemcpy(groups.data(), work.groups, groups.size() * sizeof(MoeGroup), cudaMemcpyDeviceToHost),
              "groups");
        std::vector<int> counters(groups.size() + 1);
        check(cudaMemcpy(counters.data(), work.gate_up_done, groups.size() * 4, cudaMemcpyDeviceToHost), "counters");
        int begin = 0;
        for (size_t g = 0; g < groups.size(); ++g) {
          ASSERT_EQ(groups[g].begin, begin);
          ASSERT_EQ(groups[g].groups, std::count_if(groups.begin(), groups.end(), [&](const MoeGroup& other) {
                      return other.expert == groups[g].expert;
                    }));
          ASSERT_EQ(groups[static_cast<size_t>(groups[g].first)].expert, groups[g].expert);
          ASSERT_TRUE(groups[g].first == 0 ||
                      groups[static_cast<size_t>(groups[g].first - 1)].expert < groups[g].expert);
          ASSERT_GT(groups[g].count, 0);
          ASSERT_LE(groups[g].count, group_rows);
          EXPECT_EQ(counters[g], 0);
          for (int i = 0; i < groups[g].count; ++i) {
            ASSERT_EQ(ids[static_cast<size_t>(expected[static_cast<size_t>(begin + i)])], groups[g].expert);
          }
          begin += groups[g].count;
          // Only an expert's last group is not full.
          if (g + 1 < groups.size() && groups[g + 1].expert == groups[g].expert) {
            EXPECT_EQ(groups[g].count, group_rows);
          }
        }
        EXPECT_EQ(begin, pairs);
        std::vector<int> arrivals(static_cast<size_t>(pairs));
        check(cudaMemcpy(arrivals.data(), work.arrivals, arrivals.size() * 4, cudaMemcpyDeviceToHost), "arrivals");
        EXPECT_EQ(arrivals, std::vector<int>(static_cast<size_t>(pairs), 0));
      }
    }
  }
}

}  // namespace
}  // namespace strobe::kernel::cuda
