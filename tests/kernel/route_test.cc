#include <algorithm>
#include <cmath>
#include <set>

#include "harness.h"

namespace strobe::kernel {
namespace {

struct RouteShape {
  int64_t experts = 16;
  int64_t top_k = 4;
  int64_t groups = 1;
  int64_t top_groups = 1;
  bool normalise = true;
  float scale = 1;
  bool biased = true;
};

struct Routed {
  std::vector<int32_t> ids;
  std::vector<float> weights;
  bool operator==(const Routed&) const = default;
};

class RouteTest : public TableTest {
 protected:
  static Routed route(const CpuKernels& t, const RouteShape& s, const std::vector<float>& logits,
                      const std::vector<float>& bias, int workers = 1) {
    const int64_t rows = static_cast<int64_t>(logits.size()) / s.experts;
    Routed out{.ids = std::vector<int32_t>(static_cast<size_t>(rows * s.top_k), -7),
               .weights = std::vector<float>(static_cast<size_t>(rows * s.top_k), std::nanf(""))};
    t.route(pool_of(workers), {.logits = logits.data(),
                               .bias = s.biased ? bias.data() : nullptr,
                               .ids = out.ids.data(),
                               .weights = out.weights.data(),
                               .rows = rows,
                               .experts = s.experts,
                               .top_k = s.top_k,
                               .groups = s.groups,
                               .top_groups = s.top_groups,
                               .normalise = s.normalise,
                               .scale = s.scale});
    return out;
  }

  // The definition by sorting, in double; the reference finds maxima instead.
  static Routed formula(const RouteShape& s, const std::vector<float>& logits, const std::vector<float>& bias) {
    Routed out;
    for (size_t row = 0; row < logits.size(); row += static_cast<size_t>(s.experts)) {
      std::vector<double> score, choice;
      for (int64_t e = 0; e < s.experts; ++e) {
        const auto i = static_cast<size_t>(e);
        score.push_back(1 / (1 + std::exp(-static_cast<double>(logits[row + i]))));
        choice.push_back(score.back() + (s.biased ? bias[i] : 0));
      }
      const int64_t size = s.experts / s.groups;
      std::vector<std::pair<double, int64_t>> groups;  // (-merit, group): ascending order is what we want, ties by id
      for (int64_t g = 0; g < s.groups; ++g) {
        std::vector<double> members(choice.begin() + g * size, choice.begin() + (g + 1) * size);
        std::sort(members.rbegin(), members.rend());
        groups.emplace_back(-(members[0] + (size > 1 ? members[1] : 0)), g);
      }
      std::sort(groups.begin(), groups.end());
      std::set<int64_t> kept;
      for (int64_t k = 0; k < (s.groups > 1 ? s.top_groups : 1); ++k)
        kept.insert(groups[static_cast<size_t>(k)].second);
      std::vector<std::pair<double, int64_t>> order;
      for (int64_t e = 0; e < s.experts; ++e) {
        if (kept.contains(e / size)) order.emplace_back(-choice[static_cast<size_t>(e)], e);
      }
      std::sort(order.begin(), order.end());
      double sum = 0;
      for (int64_t k = 0; k < s.top_k; ++k) sum += score[static_cast<size_t>(order[static_cast<size_t>(k)].second)];
      for (int64_t k = 0; k < s.top_k; ++k) {
        const int64_t e = order[static_cast<size_t>(k)].second;
        out.ids.push_back(static_cast<int32_t>(e));
        const double divisor = s.normalise ? sum + 1e-20 : 1;
        out.weights.push_back(static_cast<float>(score[static_cast<size_t>(e)] / divisor * s.scale));
      }
    }
    return out;
  }

  // Logits of a grid so coarse that two choices are equal exactly or differ by far more than a sigmoid's error. It is
  // not symmetric: s(x) + s(-x) would be a tie of groups that rounding decides.
  static std::vector<float> grid(int64_t count, Random& random) {
    std::vector<float> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>(random.below(49) - 24) / 8 + 0.03F);
    return numbers;
  }

  void expect_right(const RouteShape& s, const std::vector<float>& logits, const std::vector<float>& bias) const {
    const Routed expected = is_ref() ? formula(s, logits, bias) : route(ref_kernels(), s, logits, bias);
    const Routed actual = route(table(), s, logits, bias, 2);
    EXPECT_EQ(actual.ids, expected.ids);
    Oracle oracle;
    for (const float weight : expected.weights) oracle.add(weight, std::fabs(weight));
    EXPECT_TRUE(close(actual.weights, oracle, tolerance_of(table()).function));
  }
};

TEST_P(RouteTest, Shapes) {
  const RouteShape shapes[] = {
      {.experts = 1, .top_k = 1},
      {.experts = 2, .top_k = 1, .normalise = false},
      {.experts = 15, .top_k = 3, .scale = 2.5F},
      {.experts = 16, .top_k = 4, .scale = 2.827F},
      {.experts = 17, .top_k = 17},
      {.experts = 33, .top_k = 8, .normalise = false, .scale = 0.5F, .biased = false},
      {.experts = 384, .top_k = 8, .scale = 2.827F},
      {.experts = 256, .top_k = 8, .groups = 8, .top_groups = 4, .scale = 2.5F},
      {.experts = 24, .top_k = 6, .groups = 4, .top_groups = 2},
      {.experts = 12, .top_k = 3, .groups = 4, .top_groups = 1},
      {.experts = 12, .top_k = 12, .groups = 4, .top_groups = 4},
      {.experts = 8, .top_k = 3, .groups = 8, .top_groups = 5},  // one expert a group
  };
  Random random(50);
  for (const RouteShape& s : shapes) {
    for (const int64_t rows : {0, 1, 2, 9}) {
      SCOPED_TRACE(
          fmt::format("{} rows, {} of {} experts, {} of {} groups", rows, s.top_k, s.experts, s.top_groups, s.groups));
      // Biases are a quarter of an integer: where they tie, choices tie exactly only with equal logits.
      std::vector<float> bias;
      for (int64_t e = 0; e < s.experts; ++e) bias.push_back(static_cast<float>(random.below(5) - 2) * 0.25F);
      expect_right(s, grid(rows * s.experts, random), bias);
    }
  }
}

// The bias chooses, the plain score weighs.
TEST_P(RouteTest, BiasDoesNotReachTheWeights) {
  const RouteShape s{.experts = 4, .top_k = 2};
  const Routed r = route(table(), s, {2, 0, 1, -1}, {0, 0, 0, 5});
  EXPECT_EQ(r.ids, (std::vector<int32_t>{3, 0}));
  const double a = 1 / (1 + std::exp(1.0));
  const double b = 1 / (1 + std::exp(-2.0));
  EXPECT_NEAR(r.weights[0], a / (a + b), 1e-6);
  EXPECT_NEAR(r.weights[1], b / (a + b), 1e-6);
}

TEST_P(RouteTest, TiesGoToTheLowerId) {
  for (const int64_t experts : {5, 16, 17, 64, 384}) {
    RouteShape s{.experts = experts, .top_k = 4, .biased = false};
    std::vector<float> logits(static_cast<size_t>(experts), 0.25F);
    EXPECT_EQ(route(table(), s, logits, {}).ids, (std::vector<int32_t>{0, 1, 2, 3}));
    logits.back() = 1;
    EXPECT_EQ(route(table(), s, logits, {}).ids, (std::vector<int32_t>{static_cast<int32_t>(experts) - 1, 0, 1, 2}));
    std::fill(logits.begin(), logits.end(), 60.0F);  // all scores are 1
    EXPECT_EQ(route(table(), s, logits, {}).ids, (std::vector<int32_t>{0, 1, 2, 3}));
    std::fill(logits.begin(), logits.end(), -1000.0F);  // all scores are 0
    const Routed shut = route(table(), s, logits, {});
    EXPECT_EQ(shut.ids, (std::vector<int32_t>{0, 1, 2, 3}));
    EXPECT_EQ(shut.weights, std::vector<float>(4, 0.0F));
  }
  const RouteShape s{.experts = 8, .top_k = 2, .groups = 4, .top_groups = 1, .biased = false};
  EXPECT_EQ(route(table(), s, std::vector<float>(8, 1.0F), {}).ids, (std::vector<int32_t>{0, 1}));
}

// An expert of a rejected group does not come in, however good it is, nor when all that stay are negative.
TEST_P(RouteTest, OnlyKeptGroups) {
  const RouteShape s{.experts = 6, .top_k = 2, .groups = 3, .top_groups = 1};
  EXPECT_EQ(route(table(), s, {4, -9, 1, 1, 0, 0}, std::vector<float>(6, 0.0F)).ids, (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(route(table(), s, {0, 0, 1, 1, 0, 0}, std::vector<float>(6, -3.0F)).ids, (std::vector<int32_t>{2, 3}));
}

TEST_P(RouteTest, NanStillGivesDifferentExperts) {
  const float nan = std::nanf("");
  for (const int64_t groups : {1, 4}) {
    const RouteShape s{.experts = 16, .top_k = 8, .groups = groups, .top_groups = groups == 1 ? 1 : 2, .biased = false};
    for (const int numbers : {0, 1, 3}) {
      std::vector<float> logits(16, nan);
      for (int i = 0; i < numbers; ++i) logits[static_cast<size_t>(13 - 4 * i)] = static_cast<float>(i);
      const std::vector<int32_t> ids = route(table(), s, logits, {}).ids;
      EXPECT_EQ(std::set<int32_t>(ids.begin(), ids.end()).size(), 8U);
      for (const int32_t id : ids) EXPECT_TRUE(id >= 0 && id < 16) << id;
      if (groups == 1) {
        for (int i = 0; i < numbers; ++i) EXPECT_EQ(ids[static_cast<size_t>(i)], 13 - 4 * (numbers - 1 - i));
      }
    }
  }
}

TEST_P(RouteTest, BatchInvariant) {
  for (const RouteShape& s : {RouteShape{.experts = 33, .top_k = 5, .scale = 2.827F},
                              RouteShape{.experts = 64, .top_k = 8, .groups = 8, .top_groups = 3}}) {
    Random random(51);
    std::vector<float> logits, bias;
    for (int64_t i = 0; i < 64 * s.experts; ++i) logits.push_back(random.normal());
    for (int64_t i = 0; i < s.experts; ++i) bias.push_back(random.normal(0.1F));
    for (int64_t e = 0; e < s.experts; ++e) logits[static_cast<size_t>(20 * s.experts + e)] = std::nanf("");
    expect_batch_invariant(64, {20}, [&](const std::vector<int>& rows, int workers) {
      std::vector<float> part;
      for (const int row : rows) {
        part.insert(part.end(), logits.begin() + row * s.experts, logits.begin() + (row + 1) * s.experts);
      }
      const Routed out = route(table(), s, part, bias, workers);
      std::vector<std::string> bytes;
      for (size_t r = 0; r < rows.size(); ++r) {
        const auto k = static_cast<size_t>(s.top_k);
        bytes.emplace_back(reinterpret_cast<const char*>(out.ids.data() + r * k), k * 4);
        bytes.back().append(reinterpret_cast<const char*>(out.weights.data() + r * k), k * 4);
      }
      return bytes;
    });
  }
}

class CombineTest : public TableTest {};

TEST_P(CombineTest, Shapes) {
  Random random(60);
  for (const int64_t dim : {1, 2, 15, 16, 17, 33, 100, 7168}) {
    for (const int64_t top_k : {1, 2, 4, 8}) {
      for (const int64_t rows : {0, 1, 3, 8}) {
        SCOPED_TRACE(fmt::format("{} rows of {}, top {}", rows, dim, top_k));
        Matrix x(DType::kF32, rows * top_k, dim);
        Matrix before(DType::kF32, rows, dim, 1);
        x.fill(random);
        before.fill(random);
        const std::vector<int32_t> slots = random.permutation(rows * top_k);
        std::vector<float> weights;
        for (int64_t i = 0; i < rows * top_k; ++i) weights.push_back(random.uniform(0, 2));
        Oracle oracle;
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < dim; ++i) {
            double sum = before.at(r, i);
            double magnitude = std::fabs(sum);
            for (int64_t k = 0; k < top_k; ++k) {
              const auto choice = static_cast<size_t>(r * top_k + k);
              const double term = static_cast<double>(weights[choice]) * x.at(slots[choice], i);
              sum += term;
              magnitude += std::fabs(term);
            }
            oracle.add(sum, magnitude);
          }
        }
        const auto run = [&](const CpuKernels& t) {
          const Matrix y = before;
          t.combine(pool_of(2), {.x = x.f32(),
                                 .slots = slots.data(),
                                 .weights = weights.data(),
                                 .y = y.view(),
                                 .rows = rows,
                                 .top_k = top_k,
                                 .dim = dim});
          EXPECT_TRUE(y.gaps_intact());
          return y.values();
        };
        if (!is_ref()) oracle = with_values(oracle, run(ref_kernels()));
        EXPECT_TRUE(close(run(table()), oracle, tolerance_of(table()).sum));
      }
    }
  }
}

// A row's experts may stand anywhere in x: where depends on the other rows.
TEST_P(CombineTest, BatchInvariant) {
  constexpr int64_t kTopK = 4;
  for (const int64_t dim : {17, 256}) {
    Random random(61);
    Matrix outputs(DType::kF32, 64 * kTopK, dim);  // of row r, choice k: at r * kTopK + k
    Matrix before(DType::kF32, 64, dim, 1);
    outputs.fill(random);
    before.fill(random);
    for (int k = 0; k < kTopK; ++k) outputs.fill_row(30 * kTopK + k, std::nanf(""));
    std::vector<float> all_weights;
    for (int64_t i = 0; i < 64 * kTopK; ++i) all_weights.push_back(random.uniform(0, 1));
    expect_batch_invariant(64, {30}, [&](const std::vector<int>& rows, int workers) {
      const auto count = static_cast<int64_t>(rows.size());
      const std::vector<int32_t> slots = random.permutation(count * kTopK);
      std::vector<int> sources(slots.size());
      std::vector<float> weights;
      for (int64_t i = 0; i < count * kTopK; ++i) {
        const int source = static_cast<int>(rows[static_cast<size_t>(i / kTopK)] * kTopK + i % kTopK);
        sources[static_cast<size_t>(slots[static_cast<size_t>(i)])] = source;
        weights.push_back(all_weights[static_cast<size_t>(source)]);
      }
      const Matrix x = outputs.select(sources);
      const Matrix y = before.select(rows);
      table().combine(pool_of(workers), {.x = x.f32(),
                                         .slots = slots.data(),
                                         .weights = weights.data(),
                                         .y = y.view(),
                                         .rows = count,
                                         .top_k = kTopK,
                                         .dim = dim});
      return y.all_row_bytes();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, RouteTest, ::testing::ValuesIn(tables_here()), table_name);
INSTANTIATE_TEST_SUITE_P(Tables, CombineTest, ::testing::ValuesIn(tables_here()), table_name);

}  // namespace
}  // namespace strobe::kernel
