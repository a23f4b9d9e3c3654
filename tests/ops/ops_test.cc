// Operations that put kernels together: against plain loops, for the reference and this machine's best kernels. The
// kernels themselves are tests/kernel's.
#include "ops/ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "ops/weight_arena.h"

namespace strobe::ops {
namespace {

class Ops : public testing::TestWithParam<const kernel::CpuKernels*> {
 protected:
  Ops() : pool_(2), exec_(pool_, *GetParam(), workspace_), arena_(*GetParam()) {}

  [[nodiscard]] double tolerance() const { return exec_.activation() == DType::kF32 ? 1e-5 : 2e-2; }

  // Numbers that bf16 holds exactly, so that only sums are rounded.
  std::vector<float> numbers(int64_t count) {
    std::vector<float> list(static_cast<size_t>(count));
    for (float& x : list) x = to_float(to_bf16(std::uniform_real_distribution<float>(-1, 1)(random_)));
    return list;
  }
  QuantTensor matrix(const std::vector<float>& values, int64_t out, int64_t in) {
    std::vector<Bf16> stored(values.size());
    std::transform(values.begin(), values.end(), stored.begin(), to_bf16);
    return arena_.pack({.format = WeightFormat::kBf16, .out = out, .in = in, .data = stored.data()});
  }
  // x in the type that products want.
  Tensor activations(WorkspaceFrame& frame, std::vector<float>& values, Shape shape) {
    const Tensor given(values.data(), DType::kF32, shape), x = frame.tensor(exec_.activation(), shape);
    copy(exec_, given, x);
    return x;
  }
  static Tensor f32(std::vector<float>& values, Shape shape) { return Tensor(values.data(), DType::kF32, shape); }

  std::mt19937 random_{3};
  WorkerPool pool_;
  Workspace workspace_;
  Exec exec_;
  WeightArena arena_;
};

void product(const float* w, int64_t out, int64_t in, const float* x, double* y) {
  for (int64_t o = 0; o < out; ++o) {
    y[o] = 0;
    for (int64_t i = 0; i < in; ++i) y[o] += static_cast<double>(w[o * in + i]) * x[i];
  }
}

TEST_P(Ops, LinearHeadsUsesEachHeadsOwnMatrix) {
  constexpr int64_t kTokens = 3, kHeads = 2, kIn = 8, kOut = 5;
  auto x = numbers(kTokens * kHeads * kIn);
  std::vector<std::vector<float>> w;
  std::vector<QuantTensor> weights;
  for (int64_t h = 0; h < kHeads; ++h) {
    w.push_back(numbers(kOut * kIn));
    weights.push_back(matrix(w.back(), kOut, kIn));
  }
  std::vector<float> y(kTokens * kHeads * kOut);
  linear_heads(exec_, f32(x, {kTokens, kHeads, kIn}), weights, f32(y, {kTokens, kHeads, kOut}));
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t h = 0; h < kHeads; ++h) {
      double expected[kOut];
      product(w[static_cast<size_t>(h)].data(), kOut, kIn, &x[static_cast<size_t>((t * kHeads + h) * kIn)], expected);
      for (int64_t o = 0; o < kOut; ++o) {
        EXPECT_NEAR(y[static_cast<size_t>((t * kHeads + h) * kOut + o)], expected[o], 1e-5) << t << " " << h;
      }
    }
  }
}

TEST_P(Ops, LinearAddKeepsWhatIsThere) {
  auto x = numbers(2 * 8), w = numbers(3 * 8);
  const QuantTensor weight = matrix(w, 3, 8);
  std::vector<float> y = {1, 2, 3, 4, 5, 6};
  linear_add(exec_, {f32(x, {2, 8}), weight, f32(y, {2, 3})});
  for (int64_t t = 0; t < 2; ++t) {
    double expected[3];
    product(w.data(), 3, 8, &x[static_cast<size_t>(t * 8)], expected);
    for (int64_t o = 0; o < 3; ++o) {
      EXPECT_NEAR(y[static_cast<size_t>(t * 3 + o)], expected[o] + static_cast<double>(t * 3 + o + 1), 1e-5);
    }
  }
}

TEST_P(Ops, GatherRowsAndCopiesOfHeads) {
  std::vector<float> x = {0, 1, 10, 11, 20, 21}, y(6), z(4);
  std::vector<int32_t> rows = {2, 0, 2};
  gather_rows(exec_, f32(x, {3, 2}), Tensor(rows.data(), DType::kI32, {3}), f32(y, {3, 2}));
  EXPECT_EQ(y, (std::vector<float>{20, 21, 0, 1, 20, 21}));
  // The second half of each head: [tokens, heads, dim] with gaps.
  std::vector<float> heads = {0, 1, 2, 3, 4, 5, 6, 7};
  copy(exec_, f32(heads, {2, 1, 4}).slice(2, 2, 4), f32(z, {2, 1, 2}));
  EXPECT_EQ(z, (std::vector<float>{2, 3, 6, 7}));
}

// ---- experts ----

struct Experts {
  static constexpr int64_t kCount = 6, kTopK = 2, kHidden = 16, kInter = 8;
  std::vector<std::vector<float>> gate, up, down;
  std::vector<Expert> weights;  // the last one is for all tokens, where there is one
  bool shared = false;
  [[nodiscard]] ExpertWeights all() const {
    return {.count = kCount, .inter = kInter, .each = {weights.begin(), weights.begin() + kCount}};
  }
  [[nodiscard]] const Expert* for_all() const { return shared ? &weights.back() : nullptr; }
  std::vector<float> bias;
};

std::vector<double> routed_by_hand(const Experts& e, const float* x, const float* logits, bool normalise,
                                   double scale) {
  std::vector<size_t> order(Experts::kCount);
  std::iota(order.begin(), order.end(), size_t{0});
  const auto score = [&](size_t i) { return 1 / (1 + std::exp(-static_cast<double>(logits[i]))); };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return score(a) + e.bias[a] > score(b) + e.bias[b]; });
  double sum = 0;
  for (size_t k = 0; k < Experts::kTopK; ++k) sum += score(order[k]);
  std::vector<double> h(Experts::kHidden);
  const auto add = [&](size_t expert, double weight) {
    double gate[Experts::kInter], up[Experts::kInter], out[Experts::kHidden];
    product(e.gate[expert].data(), Experts::kInter, Experts::kHidden, x, gate);
    product(e.up[expert].data(), Experts::kInter, Experts::kHidden, x, up);
    float mid[Experts::kInter];
    for (size_t i = 0; i < Experts::kInter; ++i) {
      mid[i] = static_cast<float>(gate[i] / (1 + std::exp(-gate[i])) * up[i]);
    }
    product(e.down[expert].data(), Experts::kHidden, Experts::kInter, mid, out);
    for (size_t i = 0; i < Experts::kHidden; ++i) h[i] += weight * out[i];
  };
  for (size_t k = 0; k < Experts::kTopK; ++k) add(order[k], score(order[k]) / (normalise ? sum : 1) * scale);
  if (e.shared) add(Experts::kCount, 1);
  return h;
}

TEST_P(Ops, RoutedExpertsAreTheirWeightedSum) {
  Experts e;
  for (int64_t i = 0; i < Experts::kCount + 1; ++i) {
    e.gate.push_back(numbers(Experts::kInter * Experts::kHidden));
    e.up.push_back(numbers(Experts::kInter * Experts::kHidden));
    e.down.push_back(numbers(Experts::kHidden * Experts::kInter));
    e.weights.push_back({matrix(e.gate.back(), Experts::kInter, Experts::kHidden),
                         matrix(e.up.back(), Experts::kInter, Experts::kHidden),
                         matrix(e.down.back(), Experts::kHidden, Experts::kInter)});
  }
  e.bias = {0.3F, 0, -0.2F, 0, 0.1F, 0};
  for (const int64_t tokens : {0, 1, 2, 9, 33}) {
    for (const int way : {0, 1, 2, 3}) {
      const bool normalise = way % 2 == 0;
      e.shared = way / 2 == 1;
      auto x = numbers(tokens * Experts::kHidden), logits = numbers(tokens * Experts::kCount);
      const auto before = numbers(tokens * Experts::kHidden);
      auto h = before;
      const Router router{
          .bias = f32(e.bias, {Experts::kCount}), .top_k = Experts::kTopK, .normalise = normalise, .scale = 2.5F};
      WorkspaceFrame frame(workspace_);
      const Tensor input = activations(frame, x, {tokens, Experts::kHidden});
      routed_experts(exec_, router, e.all(), input, f32(logits, {tokens, Experts::kCount}),
                     f32(h, {tokens, Experts::kHidden}), e.for_all());
      for (int64_t t = 0; t < tokens; ++t) {
        const auto expected =
            routed_by_hand(e, &x[static_cast<size_t>(t * Experts::kHidden)],
                           &logits[static_cast<size_t>(t * Experts::kCount)], normalise, router.scale);
        double largest = 0;
        for (const double v : expected) largest = std::max(largest, std::fabs(v));
        for (int64_t i = 0; i < Experts::kHidden; ++i) {
          const auto at = static_cast<size_t>(t * Experts::kHidden + i);
          EXPECT_NEAR(h[at] - before[at], expected[static_cast<size_t>(i)], tolerance() * (largest + 1)) << t;
        }
        // A token alone gets the same bytes.
        std::vector<float> alone(&before[static_cast<size_t>(t * Experts::kHidden)],
                                 &before[static_cast<size_t>(t * Experts::kHidden)] + Experts::kHidden);
        std::vector<float> its_logits(&logits[static_cast<size_t>(t * Experts::kCount)],
                                      &logits[static_cast<size_t>(t * Experts::kCount)] + Experts::kCount);
        routed_experts(exec_, router, e.all(), input.slice(0, t, t + 1), f32(its_logits, {1, Experts::kCount}),
                       f32(alone, {1, Experts::kHidden}), e.for_all());
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(), h.begin() + t * Experts::kHidden)) << t << " of " << tokens;
      }
    }
  }
}

// ---- what is checked before a kernel runs ----

using OpsDeathTest = Ops;

TEST_P(OpsDeathTest, ShapesThatDoNotAgree) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // there are worker threads
  auto x = numbers(2 * 8), w = numbers(3 * 8);
  const QuantTensor weight = matrix(w, 3, 8);
  std::vector<float> y(6), norm(7);
  EXPECT_DEATH(linear(exec_, Linear{f32(x, {4, 4}), weight, f32(y, {2, 3})}), "tokens is 2 here and 4 in x");
  EXPECT_DEATH(linear(exec_, Linear{f32(x, {2, 8}), weight, f32(y, {2, 2})}), "weight \\[3, 8\\]");
  EXPECT_DEATH(rms_norm(exec_, f32(x, {2, 8}), f32(norm, {7}), 1e-6F, f32(x, {2, 8})), "dim is 7 here and 8 in x");
  EXPECT_DEATH(silu_mul(exec_, f32(x, {2, 8}), f32(x, {2, 8}), f32(y, {2, 3})), "dim is 3 here and 8 in gate");
  EXPECT_DEATH(linear_heads(exec_, f32(x, {2, 1, 8}), std::vector<QuantTensor>(2, weight), f32(y, {2, 1, 3})),
               "1 heads, 2 weights");
}

TEST_P(OpsDeathTest, CacheRowsThatDoNotFit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::vector<float> cache(4 * 8), x(2 * 8), out(2 * 6);
  std::vector<int32_t> slots = {0, 1}, pages = {0};
  const kernel::PagedStore store{.data = cache.data(), .dtype = DType::kF32, .dim = 8, .page_size = 4};
  const Tensor slot_tensor(slots.data(), DType::kI32, {2});
  EXPECT_DEATH(store_rows(exec_, f32(x, {2, 8}), slot_tensor, store, 1), "columns \\[1, \\+8\\) of 8");
  const std::vector<kernel::AttentionRequest> behind = {
      {.row_begin = 1, .row_count = 2, .key_count = 2, .pages = pages.data()}};
  EXPECT_DEATH(mla_attention(exec_, f32(x, {2, 1, 8}), store, behind, 1, f32(out, {2, 1, 6})),
               "rows \\[1, \\+2\\) of 2");
  const std::vector<kernel::AttentionRequest> keyless = {
      {.row_count = 2, .first_position = 1, .key_count = 2, .pages = pages.data()}};
  EXPECT_DEATH(mla_attention(exec_, f32(x, {2, 1, 8}), store, keyless, 1, f32(out, {2, 1, 6})),
               "position 1 \\+ 2 rows, 2 keys");
  const std::vector<int32_t> windows = {0, 0};
  const std::vector<kernel::AttentionRequest> fine = {{.row_count = 2, .key_count = 2, .pages = pages.data()}};
  EXPECT_DEATH(
      gqa_attention(exec_, f32(x, {2, 1, 8}), store, store, fine, {.first_visible = windows}, f32(x, {2, 1, 8})),
      "2 windows, 1 requests");
  const kernel::PagedStore values{.data = cache.data(), .dtype = DType::kF32, .dim = 6, .page_size = 4};
  EXPECT_DEATH(gqa_attention(exec_, f32(x, {2, 1, 8}), store, values, fine, {}, f32(x, {2, 1, 8})),
               "8 and 6 numbers a slot, heads of 8 and 8");
  const std::vector<kernel::AttentionRequest> two(2, {.row_count = 1, .key_count = 2, .pages = pages.data()});
  EXPECT_DEATH(gqa_attention(exec_, f32(x, {2, 1, 8}), store, values, two, {.prompt = true}, f32(out, {2, 1, 6})),
               "2 requests of one prompt");
  EXPECT_DEATH(load_rows(exec_, store, pages.data(), f32(out, {2, 1, 6}), 3), "columns \\[3, \\+6\\) of 8");
}

const auto kTables = testing::Values(&kernel::ref_kernels(), &kernel::cpu_kernels(best_cpu_isa()));
std::string table_name(const testing::TestParamInfo<const kernel::CpuKernels*>& info) {
  return std::string(info.param->name);
}
INSTANTIATE_TEST_SUITE_P(Kernels, Ops, kTables, table_name);
INSTANTIATE_TEST_SUITE_P(Kernels, OpsDeathTest, kTables, table_name);

}  // namespace
}  // namespace strobe::ops
