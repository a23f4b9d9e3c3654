#include <cmath>

#include "harness.h"

namespace strobe::kernel {
namespace {

constexpr int kPositions = 300;

struct RopeOptions {
  int64_t heads = 1;
  int64_t dim = 2;
  int64_t head_gap = 0;  // elements between heads that are not rotated
  RopeStyle style = RopeStyle::kInterleaved;
};

// One table of angles and rows at random positions.
struct RopeCase {
  RopeCase(const RopeOptions& o, int64_t rows, uint64_t seed)
      : options(o), x(DType::kF32, rows, o.heads * (o.dim + o.head_gap) - o.head_gap, 5) {
    Random random(seed);
    x.fill(random);
    for (int64_t i = 0; i < kPositions * (o.dim / 2); ++i) {
      const float angle = random.uniform(-3.2F, 3.2F);
      cos.push_back(1.25F * std::cos(angle));  // 1.25: an amplitude
      sin.push_back(1.25F * std::sin(angle));
    }
    for (int64_t r = 0; r < rows; ++r) positions.push_back(static_cast<int32_t>(random.below(kPositions)));
    if (rows > 1) positions[0] = kPositions - 1;
    if (rows > 1) positions[1] = 0;
  }

  void rotate(const CpuKernels& table, Matrix& m, const std::vector<int32_t>& at, int workers) const {
    table.rope(pool_of(workers), {.x = m.f32(),
                                  .row_stride = m.stride(),
                                  .head_stride = options.dim + options.head_gap,
                                  .positions = at.data(),
                                  .cos = cos.data(),
                                  .sin = sin.data(),
                                  .rows = m.rows(),
                                  .heads = options.heads,
                                  .dim = options.dim,
                                  .style = options.style});
  }

  // Numbers between heads stay as they are.
  [[nodiscard]] Oracle formula() const {
    Oracle oracle;
    const int64_t half = options.dim / 2;
    for (int64_t r = 0; r < x.rows(); ++r) {
      for (int64_t c = 0; c < x.columns(); ++c) {
        const int64_t head = c / (options.dim + options.head_gap) * (options.dim + options.head_gap);
        const int64_t i = c - head;
        if (i >= options.dim) {
          oracle.add(x.at(r, c), 0);
          continue;
        }
        const bool interleaved = options.style == RopeStyle::kInterleaved;
        const int64_t pair = interleaved ? i / 2 : i % half;
        const bool second = interleaved ? i % 2 == 1 : i >= half;
        const double a = x.at(r, head + (interleaved ? 2 * pair : pair));
        const double b = x.at(r, head + (interleaved ? 2 * pair + 1 : pair + half));
        const auto angle = static_cast<size_t>(positions[static_cast<size_t>(r)] * half + pair);
        const double y = second ? b * cos[angle] + a * sin[angle] : a * cos[angle] - b * sin[angle];
        oracle.add(y, 1.25 * (std::fabs(a) + std::fabs(b)));
      }
    }
    return oracle;
  }

  RopeOptions options;
  Matrix x;
  std::vector<float> cos;
  std::vector<float> sin;
  std::vector<int32_t> positions;
};

class RopeTest : public TableTest {};

TEST_P(RopeTest, Shapes) {
  uint64_t seed = 20;
  for (const RopeStyle style : {RopeStyle::kInterleaved, RopeStyle::kHalfSplit}) {
    for (const int64_t heads : {1, 3, 8, 64}) {
      for (const int64_t dim : {2, 6, 8, 16, 18, 64, 128}) {
        for (const int64_t head_gap : {0, 1, 128}) {
          for (const int64_t rows : {0, 1, 4}) {
            SCOPED_TRACE(fmt::format("style {}, {} rows, {} heads, dim {}, gap {}", static_cast<int>(style), rows,
                                     heads, dim, head_gap));
            const RopeCase c({.heads = heads, .dim = dim, .head_gap = head_gap, .style = style}, rows, ++seed);
            Oracle oracle = c.formula();
            if (!is_ref()) {
              Matrix expected = c.x;
              c.rotate(ref_kernels(), expected, c.positions, 1);
              oracle = with_values(oracle, expected.values());
            }
            Matrix x = c.x;
            c.rotate(table(), x, c.positions, 2);
            EXPECT_TRUE(close(x.values(), oracle, tolerance_of(table()).sum));
            EXPECT_TRUE(x.gaps_intact());
          }
        }
      }
    }
  }
}

TEST_P(RopeTest, BatchInvariant) {
  for (const RopeStyle style : {RopeStyle::kInterleaved, RopeStyle::kHalfSplit}) {
    for (const int64_t dim : {6, 64}) {
      RopeCase c({.heads = 3, .dim = dim, .style = style}, 64, 30);
      c.x.fill_row(7, std::nanf(""));
      expect_batch_invariant(64, {7}, [&](const std::vector<int>& rows, int workers) {
        Matrix x = c.x.select(rows);
        std::vector<int32_t> positions;
        for (const int row : rows) positions.push_back(c.positions[static_cast<size_t>(row)]);
        c.rotate(table(), x, positions, workers);
        return x.all_row_bytes();
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, RopeTest, ::testing::ValuesIn(tables_here()), table_name);

}  // namespace
}  // namespace strobe::kernel
