#include <cmath>
#include <optional>

#include "harness.h"
#include "sanitized.h"

namespace strobe::kernel {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBf16, WeightFormat::kNvfp4};

struct GemmOptions {
  WeightFormat format = WeightFormat::kBf16;
  int64_t out = 1;
  int64_t in = 1;
  int64_t rows = 1;
  DType x = DType::kF32;
  DType y = DType::kF32;
  bool accumulate = false;
  bool gather = false;
  int64_t gap = 0;
};

std::string describe(const GemmOptions& o) {
  return fmt::format("{} [{}, {}], {} rows, x {}, y {}{}{}, gap {}", to_string(o.format), o.out, o.in, o.rows,
                     to_string(o.x), to_string(o.y), o.accumulate ? ", accumulate" : "", o.gather ? ", gather" : "",
                     o.gap);
}

// Operands of one problem.
struct GemmCase {
  GemmCase(const GemmOptions& o, uint64_t seed)
      : options(o),
        random(seed),
        weight(o.format, o.out, o.in, random),
        x(o.x, o.gather ? o.rows + 3 : o.rows, o.in, o.gap),
        before(DType::kF32, o.rows, o.out) {
    x.fill(random);
    before.fill(random);
    if (!o.gather) return;
    for (int64_t r = 0; r < o.rows; ++r) x_rows.push_back(static_cast<int32_t>(random.below(o.rows + 3)));
    x.fill_row(unused_row(), std::nanf(""));
  }

  // One row of x that no row asks for (3 are left over at least).
  [[nodiscard]] int64_t unused_row() const {
    for (int64_t r = 0;; ++r) {
      if (std::find(x_rows.begin(), x_rows.end(), r) == x_rows.end()) return r;
    }
  }

  [[nodiscard]] Matrix make_y(DType dtype) const {
    Matrix y(dtype, options.rows, options.out, options.gap);
    for (int64_t r = 0; options.accumulate && r < options.rows; ++r) {
      for (int64_t o = 0; o < options.out; ++o) y.put(r, o, before.at(r, o));
    }
    return y;
  }

  [[nodiscard]] GemmProblem problem(const QuantTensor& packed, const Matrix& y) const {
    return {.x = x.view(),
            .x_rows = options.gather ? x_rows.data() : nullptr,
            .weight = packed,
            .y = y.view(),
            .rows = options.rows,
            .accumulate = options.accumulate};
  }

  [[nodiscard]] Matrix run(const CpuKernels& table, DType y_dtype, int workers) const {
    const Packed packed(table, weight.tensor());
    Matrix y = make_y(y_dtype);
    const GemmProblem p = problem(packed.tensor(), y);
    // Half of the calls are told what is read behind them. It is a hint, and changes nothing.
    static const std::vector<std::byte> later(20'000);
    const Upcoming upcoming[] = {{later.data(), 64, 0}, {later.data() + 1, 0, 0},  {later.data() + 100, 4097, 0},
                                 {later.data(), 1, 1},  {later.data(), 20'000, 3}, {nullptr, 0, 4}};
    table.gemm(pool_of(workers), {.problems = &p,
                                  .count = 1,
                                  .upcoming = upcoming,
                                  .upcoming_count = workers % 2 == 0 ? std::ssize(upcoming) : 0});
    EXPECT_TRUE(y.gaps_intact());
    return y;
  }

  [[nodiscard]] Oracle formula() const {
    Oracle oracle;
    for (int64_t r = 0; r < options.rows; ++r) {
      const int64_t source = options.gather ? x_rows[static_cast<size_t>(r)] : r;
      for (int64_t o = 0; o < options.out; ++o) {
        double sum = options.accumulate ? before.at(r, o) : 0;
        double magnitude = std::fabs(sum);
        for (int64_t i = 0; i < options.in; ++i) {
          const double term = weight.at(o, i) * x.at(source, i);
          sum += term;
          magnitude += std::fabs(term);
        }
        oracle.add(sum, magnitude);
      }
    }
    return oracle;
  }

  GemmOptions options;
  Random random;
  Weight weight;
  Matrix x;
  std::vector<int32_t> x_rows;
  Matrix before;  // y, where it accumulates
};

class GemmTest : public TableTest {
 protected:
  [[nodiscard]] Oracle oracle_of(const GemmCase& c) const {
    const Oracle formula = c.formula();
    return is_ref() ? formula : with_values(formula, c.run(ref_kernels(), DType::kF32, 1).values());
  }

  [[nodiscard]] double tolerance(const GemmOptions& options) const {
    const Tolerance of_table = tolerance_of(table());
    return options.format == WeightFormat::kNvfp4 ? of_table.nvfp4_sum : of_table.sum;
  }

  void expect_right(const GemmOptions& options, uint64_t seed) const {
    SCOPED_TRACE(describe(options));
    const GemmCase c(options, seed);
    const Matrix y = c.run(table(), options.y, static_cast<int>(1 + seed % 3));
    EXPECT_TRUE(close(y.values(), oracle_of(c), tolerance(options), options.y));
  }
};

TEST_P(GemmTest, EdgeShapes) {
  uint64_t seed = 0;
  for (const WeightFormat format : kFormats) {
    const bool nvfp4 = format == WeightFormat::kNvfp4;
    for (const int64_t out : {1, 2, 15, 16, 17, 33, 64}) {
      for (const int64_t in : nvfp4 ? std::vector<int64_t>{16, 32, 48, 64, 80, 512}
                                    : std::vector<int64_t>{1, 2, 3, 16, 31, 32, 33, 64, 100, 511}) {
        for (const int64_t rows : {0, 1, 2, 3, 7, 8, 16, 17, 33}) {
          ++seed;
          const bool accumulate = seed % 3 == 0;
          expect_right({.format = format,
                        .out = out,
                        .in = in,
                        .rows = rows,
                        .x = seed % 2 == 0 ? DType::kF32 : DType::kBf16,
                        .y = accumulate || seed / 2 % 2 == 0 ? DType::kF32 : DType::kBf16,
                        .accumulate = accumulate,
                        .gather = seed / 4 % 2 == 0,
                        .gap = static_cast<int64_t>(seed % 5)},
                       seed);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_P(GemmTest, EveryCombinationOfTypes) {
  uint64_t seed = 1000;
  for (const WeightFormat format : kFormats) {
    for (const DType x : {DType::kF32, DType::kBf16}) {
      for (const DType y : {DType::kF32, DType::kBf16}) {
        for (const bool accumulate : {false, true}) {
          for (const bool gather : {false, true}) {
            if (accumulate && y != DType::kF32) continue;
            expect_right({.format = format,
                          .out = 40,
                          .in = 48,
                          .rows = 5,
                          .x = x,
                          .y = y,
                          .accumulate = accumulate,
                          .gather = gather,
                          .gap = 3},
                         ++seed);
          }
        }
      }
    }
  }
}

TEST_P(GemmTest, LongSums) {
  for (const WeightFormat format : kFormats) {
    expect_right({.format = format, .out = 33, .in = 7168, .rows = 9}, 1);
    expect_right({.format = format, .out = 200, .in = 2048, .rows = 3, .x = DType::kBf16, .y = DType::kBf16}, 2);
  }
}

TEST_P(GemmTest, ManyRows) {
  for (const WeightFormat format : kFormats) {
    for (const int64_t rows : {64, 255, 257, 600}) {
      const DType x = rows % 2 == 0 ? DType::kBf16 : DType::kF32;
      expect_right({.format = format, .out = 70, .in = 48, .rows = rows, .x = x, .gather = rows == 257, .gap = 2}, 3);
    }
  }
}

// Problems of one call have their own shapes, formats, types and row counts; none and empty ones are fine.
TEST_P(GemmTest, ManyProblems) {
  std::vector<GemmCase> cases;
  cases.emplace_back(GemmOptions{.format = WeightFormat::kNvfp4, .out = 40, .in = 64, .rows = 3, .gather = true}, 1);
  cases.emplace_back(GemmOptions{.format = WeightFormat::kNvfp4, .out = 40, .in = 64, .rows = 0}, 2);
  cases.emplace_back(GemmOptions{.out = 17, .in = 33, .rows = 20, .x = DType::kBf16, .y = DType::kBf16}, 3);
  cases.emplace_back(GemmOptions{.out = 1, .in = 1, .rows = 1, .accumulate = true}, 4);
  cases.emplace_back(GemmOptions{.format = WeightFormat::kF32, .out = 300, .in = 20, .rows = 2, .gap = 1}, 5);
  for (const int workers : {1, 2, 3}) {
    std::vector<std::unique_ptr<Packed>> packed;
    std::vector<Matrix> ys;
    for (const GemmCase& c : cases) {
      packed.push_back(std::make_unique<Packed>(table(), c.weight.tensor()));
      ys.push_back(c.make_y(c.options.y));
    }
    std::vector<GemmProblem> problems;
    for (size_t i = 0; i < cases.size(); ++i) problems.push_back(cases[i].problem(packed[i]->tensor(), ys[i]));
    table().gemm(pool_of(workers), {.problems = problems.data(), .count = static_cast<int64_t>(problems.size())});
    for (size_t i = 0; i < cases.size(); ++i) {
      SCOPED_TRACE(describe(cases[i].options));
      EXPECT_TRUE(close(ys[i].values(), oracle_of(cases[i]), tolerance(cases[i].options), cases[i].options.y));
      // A problem's bytes do not depend on its company.
      EXPECT_EQ(ys[i].all_row_bytes(), cases[i].run(table(), cases[i].options.y, 1).all_row_bytes());
    }
  }
  table().gemm(pool_of(2), {.problems = nullptr, .count = 0});
}

TEST_P(GemmTest, BatchInvariant) {
  struct Shape {
    int64_t out, in;
  };
  uint64_t seed = 0;
  for (const WeightFormat format : kFormats) {
    for (const auto& [out, in] : {Shape{1, 16}, Shape{17, 33}, Shape{64, 256}, Shape{100, 512}, Shape{48, 2048}}) {
      for (const DType dtype : {DType::kF32, DType::kBf16}) {
        for (const bool gather : {false, true}) {
          const GemmOptions options{.format = format,
                                    .out = out,
                                    .in = format == WeightFormat::kNvfp4 ? in / 16 * 16 : in,
                                    .rows = out == 100 && !kSanitized ? 300 : 64,
                                    .x = dtype,
                                    .y = ++seed % 2 == 0 ? DType::kF32 : DType::kBf16,
                                    .accumulate = seed % 4 == 0,
                                    .gap = 1};
          SCOPED_TRACE(describe(options) + (gather ? ", gathered" : ", copied"));
          GemmCase c(options, seed);
          c.x.fill_row(5, std::nanf(""));
          c.x.fill_row(40, HUGE_VALF);
          const Packed packed(table(), c.weight.tensor());
          const Matrix all_before = c.make_y(options.y);
          expect_batch_invariant(static_cast<int>(options.rows), {5, 40},
                                 [&](const std::vector<int>& rows, int workers) {
                                   const Matrix x = c.x.select(rows);
                                   const std::vector<int32_t> x_rows(rows.begin(), rows.end());
                                   const Matrix y = all_before.select(rows);
                                   const GemmProblem p{.x = gather ? c.x.view() : x.view(),
                                                       .x_rows = gather ? x_rows.data() : nullptr,
                                                       .weight = packed.tensor(),
                                                       .y = y.view(),
                                                       .rows = static_cast<int64_t>(rows.size()),
                                                       .accumulate = options.accumulate};
                                   table().gemm(pool_of(workers), {.problems = &p, .count = 1});
                                   return y.all_row_bytes();
                                 });
          if (HasFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, GemmTest, ::testing::ValuesIn(tables_here()), table_name);

}  // namespace
}  // namespace strobe::kernel
