#include <cmath>
#include <limits>

#include "harness.h"

namespace strobe::kernel {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kColumns[] = {1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 100, 4096, 20000};

class ArgmaxTest : public TableTest {
 protected:
  [[nodiscard]] std::vector<int32_t> run(const Matrix& logits, int workers = 2) const {
    std::vector<int32_t> ids(static_cast<size_t>(logits.rows()), -7);
    table().argmax(pool_of(workers), {.logits = logits.f32(),
                                      .stride = logits.stride(),
                                      .ids = ids.data(),
                                      .rows = logits.rows(),
                                      .columns = logits.columns()});
    return ids;
  }
};

TEST_P(ArgmaxTest, FindsTheLargest) {
  Random random(80);
  for (const int64_t columns : kColumns) {
    for (const int64_t rows : {0, 1, 2, 9}) {
      Matrix logits(DType::kF32, rows, columns, 3);
      logits.fill_gaps(kInf);  // larger than all, and not there
      std::vector<int32_t> expected;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) logits.put(r, c, random.uniform(-9, 9));
        expected.push_back(static_cast<int32_t>(random.below(columns)));
        logits.put(r, expected.back(), 9.5F);
      }
      EXPECT_EQ(run(logits), expected) << rows << " x " << columns;
    }
  }
}

// The winner in every column, among negative numbers.
TEST_P(ArgmaxTest, EveryColumnCanWin) {
  for (const int64_t columns : {1, 15, 33, 100}) {
    Matrix logits(DType::kF32, columns, columns, 1);
    std::vector<int32_t> expected;
    for (int64_t r = 0; r < columns; ++r) {
      logits.fill_row(r, -2);
      logits.put(r, r, -1);
      expected.push_back(static_cast<int32_t>(r));
    }
    EXPECT_EQ(run(logits), expected);
  }
}

TEST_P(ArgmaxTest, TiesGoToTheLowestColumn) {
  for (const int64_t columns : kColumns) {
    Matrix logits(DType::kF32, 1, columns);
    for (const float value : {0.0F, -3.0F, kInf, -kInf}) {
      logits.fill_row(0, value);
      EXPECT_EQ(run(logits), std::vector<int32_t>{0}) << columns << " columns of " << value;
    }
    // Equal pairs at any distance.
    for (int64_t first = 0; first < columns; first = first * 2 + 1) {
      for (int64_t second = first + 1; second < columns; second = second * 2 + 1) {
        logits.fill_row(0, 1);
        logits.put(0, first, 2);
        logits.put(0, second, 2);
        EXPECT_EQ(run(logits), std::vector<int32_t>{static_cast<int32_t>(first)}) << first << ", " << second;
      }
    }
  }
  Matrix zeros(DType::kF32, 1, 40);
  zeros.fill_row(0, -0.0F);
  zeros.put(0, 20, 0.0F);  // equal to -0
  EXPECT_EQ(run(zeros), std::vector<int32_t>{0});
}

TEST_P(ArgmaxTest, NanNeverWins) {
  for (const int64_t columns : kColumns) {
    Matrix logits(DType::kF32, 1, columns);
    logits.fill_row(0, std::nanf(""));
    EXPECT_EQ(run(logits), std::vector<int32_t>{0});
    for (const float value : {1.0F, -1.0F, -kInf, kInf}) {
      for (int64_t place = 0; place < columns; place = place * 2 + 1) {
        logits.fill_row(0, std::nanf(""));
        logits.put(0, place, value);
        EXPECT_EQ(run(logits), std::vector<int32_t>{static_cast<int32_t>(place)}) << columns << ": " << value;
        logits.fill_row(0, value);
        logits.put(0, place, std::nanf(""));
        EXPECT_EQ(run(logits), std::vector<int32_t>{place == 0 && columns > 1 ? 1 : 0}) << columns << ": " << value;
      }
    }
  }
}

TEST_P(ArgmaxTest, BatchInvariant) {
  Matrix logits(DType::kF32, 64, 100, 1);
  Random random(81);
  logits.fill(random);
  for (int64_t r = 0; r < 64; ++r) logits.put(r, (r * 37) % 100, 50);
  logits.fill_row(11, std::nanf(""));
  expect_batch_invariant(64, {11}, [&](const std::vector<int>& rows, int workers) {
    std::vector<std::string> out;
    for (const int32_t id : run(logits.select(rows), workers)) out.push_back(std::to_string(id));
    return out;
  });
}

INSTANTIATE_TEST_SUITE_P(Tables, ArgmaxTest, ::testing::ValuesIn(tables_here()), table_name);

}  // namespace
}  // namespace strobe::kernel
