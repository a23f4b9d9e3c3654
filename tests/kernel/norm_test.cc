#include <cmath>

#include "harness.h"

namespace strobe::kernel {
namespace {

class NormTest : public TableTest {};

Oracle norm_formula(const Matrix& x, const std::vector<float>& weight, int64_t groups, double epsilon) {
  Oracle oracle;
  const auto dim = static_cast<int64_t>(weight.size());
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t g = 0; g < groups; ++g) {
      double squares = 0;
      for (int64_t i = 0; i < dim; ++i) squares += std::pow(static_cast<double>(x.at(r, g * dim + i)), 2);
      const double root = std::sqrt(squares / static_cast<double>(dim) + epsilon);
      for (int64_t i = 0; i < dim; ++i) {
        const double y = x.at(r, g * dim + i) / root * weight[static_cast<size_t>(i)];
        oracle.add(y, std::fabs(y));
      }
    }
  }
  return oracle;
}

struct NormShape {
  int64_t groups = 1;
  int64_t dim = 1;
};

constexpr NormShape kShapes[] = {{1, 1},  {1, 2},  {1, 15}, {1, 16},  {1, 17},   {1, 33},
                                 {1, 64}, {8, 64}, {3, 40}, {5, 128}, {64, 128}, {1, 7168}};

std::vector<float> random_weight(int64_t dim, Random& random) {
  std::vector<float> weight;
  for (int64_t i = 0; i < dim; ++i) weight.push_back(random.normal());
  return weight;
}

TEST_P(NormTest, Shapes) {
  Random random(11);
  for (const auto& [groups, dim] : kShapes) {
    for (const int64_t rows : {0, 1, 2, 5}) {
      for (const DType x_type : {DType::kF32, DType::kBf16}) {
        for (const DType y_type : {DType::kF32, DType::kBf16}) {
          SCOPED_TRACE(
              fmt::format("{} rows of {} x {}, {} to {}", rows, groups, dim, to_string(x_type), to_string(y_type)));
          Matrix x(x_type, rows, groups * dim, 3);
          x.fill(random, 2);
          const std::vector<float> weight = random_weight(dim, random);
          const auto run = [&](const CpuKernels& t, DType type) {
            Matrix y(type, rows, groups * dim, 1);
            t.rms_norm(pool_of(2), {.x = x.view(),
                                    .weight = weight.data(),
                                    .y = y.view(),
                                    .rows = rows,
                                    .groups = groups,
                                    .dim = dim,
                                    .epsilon = 1e-5F});
            EXPECT_TRUE(y.gaps_intact());
            return y.values();
          };
          Oracle oracle = norm_formula(x, weight, groups, 1e-5);
          if (!is_ref()) oracle = with_values(oracle, run(ref_kernels(), DType::kF32));
          EXPECT_TRUE(close(run(table(), y_type), oracle, tolerance_of(table()).function, y_type));
        }
      }
    }
  }
}

TEST_P(NormTest, InPlace) {
  Random random(12);
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    Matrix x(dtype, 5, 3 * 40, 7);
    x.fill(random);
    const std::vector<float> weight = random_weight(40, random);
    const Oracle oracle = norm_formula(x, weight, 3, 1e-6);
    RmsNorm call{.x = x.view(), .weight = weight.data(), .y = x.view(), .rows = 5, .groups = 3, .dim = 40};
    call.epsilon = 1e-6F;
    table().rms_norm(pool_of(3), call);
    EXPECT_TRUE(close(x.values(), oracle, tolerance_of(table()).function, dtype));
    EXPECT_TRUE(x.gaps_intact());
  }
}

// epsilon decides where x is small; squares of large numbers must not overflow early.
TEST_P(NormTest, SmallAndLargeNumbers) {
  const std::vector<float> weight(64, 1.5F);
  Matrix x(DType::kF32, 4, 64);
  Random random(13);
  x.fill(random);
  x.fill_row(0, 0);
  for (int64_t i = 0; i < 64; ++i) {
    x.put(1, i, x.at(1, i) * 0x1p-40F);
    x.put(2, i, x.at(2, i) * 0x1p-8F);
    x.put(3, i, x.at(3, i) * 0x1p55F);
  }
  Matrix y(DType::kF32, 4, 64);
  table().rms_norm(pool_of(1),
                   {.x = x.view(), .weight = weight.data(), .y = y.view(), .rows = 4, .dim = 64, .epsilon = 1e-5F});
  EXPECT_TRUE(
      close(y.values(), norm_formula(x, weight, 1, static_cast<double>(1e-5F)), tolerance_of(table()).function));
}

TEST_P(NormTest, BatchInvariant) {
  Random random(14);
  for (const auto& [groups, dim] : {NormShape{1, 17}, NormShape{1, 256}, NormShape{8, 64}, NormShape{1, 7168}}) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      SCOPED_TRACE(fmt::format("{} x {} {}", groups, dim, to_string(dtype)));
      Matrix x(dtype, 64, groups * dim, 1);
      x.fill(random);
      x.fill_row(9, std::nanf(""));
      const std::vector<float> weight = random_weight(dim, random);
      expect_batch_invariant(64, {9}, [&](const std::vector<int>& rows, int workers) {
        const Matrix part = x.select(rows);
        const Matrix y(table().activation, part.rows(), groups * dim);
        table().rms_norm(pool_of(workers), {.x = part.view(),
                                            .weight = weight.data(),
                                            .y = y.view(),
                                            .rows = part.rows(),
                                            .groups = groups,
                                            .dim = dim,
                                            .epsilon = 1e-5F});
        return y.all_row_bytes();
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, NormTest, ::testing::ValuesIn(tables_here()), table_name);

}  // namespace
}  // namespace strobe::kernel
