#include <cmath>
#include <cstring>

#include "harness.h"

namespace strobe::kernel {
namespace {

constexpr int64_t kDims[] = {1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 100, 2048};

class SiluMulTest : public TableTest {
 protected:
  Matrix run(const CpuKernels& t, const Matrix& gate, const Matrix& up, DType type, int workers) const {
    const Matrix y(type, gate.rows(), gate.columns(), 1);
    const SiluMul call{.gate = gate.view(), .up = up.view(), .y = y.view(), .rows = gate.rows(), .dim = gate.columns()};
    t.silu_mul(pool_of(workers), call);
    EXPECT_TRUE(y.gaps_intact());
    return y;
  }

  void expect_right(const Matrix& gate, const Matrix& up) const {
    Oracle formula;
    for (int64_t r = 0; r < gate.rows(); ++r) {
      for (int64_t i = 0; i < gate.columns(); ++i) {
        const double g = gate.at(r, i);
        const double y = g / (1 + std::exp(-g)) * up.at(r, i);
        // Below the smallest exponential that f32 holds (about e^-87) numbers may vanish.
        formula.add(y, std::fabs(y) + (g < -80 ? 1e-28 * std::fabs(up.at(r, i)) : 0));
      }
    }
    for (const DType type : {DType::kF32, DType::kBf16}) {
      const Oracle oracle =
          is_ref() ? formula : with_values(formula, run(ref_kernels(), gate, up, DType::kF32, 1).values());
      EXPECT_TRUE(close(run(table(), gate, up, type, 2).values(), oracle, tolerance_of(table()).function, type));
    }
  }
};

TEST_P(SiluMulTest, Shapes) {
  Random random(40);
  for (const int64_t dim : kDims) {
    for (const int64_t rows : {0, 1, 2, 5}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, dim));
      Matrix gate(DType::kF32, rows, dim, 3), up(DType::kF32, rows, dim, 2);
      expect_right(gate.fill(random, 3), up.fill(random));
    }
  }
}

// From where the gate is shut to where it is the identity, and where exp(-gate) overflows.
TEST_P(SiluMulTest, AllMagnitudesOfTheGate) {
  std::vector<float> gates = {0.0F,   -0.0F, 1e-30F, -1e-30F, 87,    -87,   88.8F,
                              -88.8F, 104,   -104,   1e4F,    -1e4F, 1e30F, -1e30F};
  for (float g = -90; g < 90; g += 0.37F) gates.push_back(g);
  for (float g = 1e-6F; g < 1; g *= 1.3F) gates.push_back(-g);
  Matrix gate(DType::kF32, 1, static_cast<int64_t>(gates.size()));
  Matrix up(DType::kF32, 1, gate.columns());
  for (size_t i = 0; i < gates.size(); ++i) {
    gate.put(0, static_cast<int64_t>(i), gates[i]);
    up.put(0, static_cast<int64_t>(i), i % 2 == 0 ? -0.7F : 1.9F);
  }
  expect_right(gate, up);
}

// Gate and up as the two halves of one row, as a fused projection writes them.
TEST_P(SiluMulTest, HalvesOfOneRow) {
  Random random(41);
  Matrix both(DType::kF32, 4, 66);
  both.fill(random);
  Matrix gate(DType::kF32, 4, 33), up(DType::kF32, 4, 33);
  for (int64_t r = 0; r < 4; ++r) {
    for (int64_t i = 0; i < 33; ++i) {
      gate.put(r, i, both.at(r, i));
      up.put(r, i, both.at(r, 33 + i));
    }
  }
  const Rows first{.data = both.f32(), .stride = 66};
  const Rows second{.data = both.f32() + 33, .stride = 66};
  const Matrix y(DType::kF32, 4, 33, 1);
  table().silu_mul(pool_of(2), {.gate = first, .up = second, .y = y.view(), .rows = 4, .dim = 33});
  EXPECT_EQ(y.all_row_bytes(), run(table(), gate, up, DType::kF32, 1).all_row_bytes());
}

TEST_P(SiluMulTest, BatchInvariant) {
  Random random(42);
  for (const int64_t dim : {17, 256}) {
    Matrix gate(DType::kF32, 64, dim, 1), up(DType::kF32, 64, dim);
    gate.fill(random).fill_row(3, std::nanf(""));
    up.fill(random);
    expect_batch_invariant(64, {3}, [&](const std::vector<int>& rows, int workers) {
      return run(table(), gate.select(rows), up.select(rows), table().activation, workers).all_row_bytes();
    });
  }
}

class EmbedTest : public TableTest {};

TEST_P(EmbedTest, IsALookUp) {
  Random random(43);
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBf16}) {
    for (const int64_t hidden : kDims) {
      const Weight weight(format, 50, hidden, random);
      for (const std::vector<int32_t>& ids : {std::vector<int32_t>{}, {49}, {0, 49, 7, 7, 0, 31}}) {
        for (const int workers : {1, 2, 3}) {
          const Matrix y(DType::kF32, static_cast<int64_t>(ids.size()), hidden, 1);
          table().embed(pool_of(workers),
                        {.table = weight.tensor(), .ids = ids.data(), .y = y.view(), .rows = y.rows()});
          EXPECT_TRUE(y.gaps_intact());
          for (int64_t r = 0; r < y.rows(); ++r) {
            for (int64_t i = 0; i < hidden; ++i) ASSERT_EQ(y.at(r, i), weight.at(ids[static_cast<size_t>(r)], i));
          }
        }
      }
    }
  }
}

class CopyTest : public TableTest {};

TEST_P(CopyTest, RoundsToNearestEven) {
  Random random(44);
  for (const DType x_type : {DType::kF32, DType::kBf16}) {
    for (const DType y_type : {DType::kF32, DType::kBf16}) {
      for (const int64_t dim : kDims) {
        for (const int64_t rows : {0, 1, 3}) {
          SCOPED_TRACE(fmt::format("{} rows of {}, {} to {}", rows, dim, to_string(x_type), to_string(y_type)));
          Matrix x(x_type, rows, dim, 1);
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t i = 0; i < dim; ++i) x.put(r, i, random.uniform(-3, 3));
          }
          const Matrix y(y_type, rows, dim, 2);
          table().copy(pool_of(2), {.x = x.view(), .y = y.view(), .rows = rows, .dim = dim});
          EXPECT_TRUE(y.gaps_intact());
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t i = 0; i < dim; ++i) {
              ASSERT_EQ(y.at(r, i), y_type == DType::kBf16 ? round_to_bf16(x.at(r, i)) : x.at(r, i));
            }
          }
        }
      }
    }
  }
}

TEST_P(CopyTest, TiesAndExtremes) {
  struct Example {
    uint32_t f32;
    uint16_t bf16;
  };
  constexpr Example kExamples[] = {
      {0x3f808000, 0x3f80},  // ties go to the even neighbour
      {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0xbf818000, 0xbf82},
      {0x00000000, 0x0000}, {0x80000000, 0x8000}, {0x7f7fffff, 0x7f80},  // the largest f32 rounds to infinity
      {0x7f800000, 0x7f80}, {0xff800000, 0xff80},
  };
  constexpr int64_t kCount = 9 * 5;  // in vectors and in their tails
  Matrix x(DType::kF32, 1, kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    float value = 0;
    std::memcpy(&value, &kExamples[i % 9].f32, 4);
    x.put(0, i, value);
  }
  x.put(0, 20, std::nanf(""));
  const Matrix y(DType::kBf16, 1, kCount);
  table().copy(pool_of(1), {.x = x.view(), .y = y.view(), .rows = 1, .dim = kCount});
  const std::string bytes = y.row_bytes(0);
  for (int64_t i = 0; i < kCount; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    if (i == 20) {
      EXPECT_TRUE(std::isnan(y.at(0, i)));
    } else {
      EXPECT_EQ(bits, kExamples[i % 9].bf16) << i;
    }
  }
}

TEST_P(CopyTest, BatchInvariant) {
  Random random(45);
  Matrix x(DType::kF32, 64, 33, 1);
  for (int64_t r = 0; r < 64; ++r) {
    for (int64_t i = 0; i < 33; ++i) x.put(r, i, random.uniform(-3, 3));
  }
  expect_batch_invariant(64, {}, [&](const std::vector<int>& rows, int workers) {
    const Matrix part = x.select(rows);
    const Matrix y(DType::kBf16, part.rows(), 33, 1);
    table().copy(pool_of(workers), {.x = part.view(), .y = y.view(), .rows = part.rows(), .dim = 33});
    return y.all_row_bytes();
  });
}

INSTANTIATE_TEST_SUITE_P(Tables, SiluMulTest, ::testing::ValuesIn(tables_here()), table_name);
INSTANTIATE_TEST_SUITE_P(Tables, EmbedTest, ::testing::ValuesIn(tables_here()), table_name);
INSTANTIATE_TEST_SUITE_P(Tables, CopyTest, ::testing::ValuesIn(tables_here()), table_name);

}  // namespace
}  // namespace strobe::kernel
