#include "products.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernel/cuda/generic.h"

namespace strobe::kernel {

using cuda::DeviceMemory;

std::vector<Bf16> random_bf16(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<Bf16> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(to_bf16(random.normal()));
  return numbers;
}

DeviceMemory upload(const Matrix& matrix) {
  const Rows rows = matrix.view();
  const int64_t numbers = matrix.rows() == 0 ? 0 : (matrix.rows() - 1) * matrix.stride() + matrix.columns();
  const auto bytes = static_cast<size_t>(numbers * size_bytes(rows.dtype));
  DeviceMemory there(bytes);
  there.upload(rows.data, bytes);
  return there;
}

ProductCase::ProductCase(int64_t out, int64_t in, int64_t rows)
    : out_(out),
      in_(in),
      rows_(rows),
      host_w_(random_bf16(out * in, 1)),
      host_x_(random_bf16(rows * in, 2)),
      w_(host_w_),
      x_(host_x_) {}

std::vector<float> ProductCase::multiply(const Product& product, int64_t first, int64_t rows, bool gather) const {
  DeviceMemory y(static_cast<size_t>(rows * out_) * 4);
  y.fill(0xff);
  std::vector<int32_t> order;
  for (int64_t r = 0; r < rows; ++r) order.push_back(static_cast<int32_t>(first + r));
  const DeviceMemory x_rows(order);
  const GemmProblem p{
      .x = {.data = x_.as<uint16_t>() + (gather ? 0 : first * in_), .dtype = DType::kBf16, .stride = in_},
      .x_rows = gather ? x_rows.as<int32_t>() : nullptr,
      .weight = {.format = WeightFormat::kBf16, .out = out_, .in = in_, .data = w_.data()},
      .y = {.data = y.data(), .dtype = DType::kF32, .stride = out_},
      .rows = rows};
  product({.problems = &p, .count = 1});
  std::vector<float> result(static_cast<size_t>(rows * out_));
  y.download(result.data(), y.bytes());
  return result;
}

void ProductCase::expect_one_order(const Product& product, std::initializer_list<int64_t> counts) const {
  SCOPED_TRACE(fmt::format("[{}, {}], {} rows", out_, in_, rows_));
  const std::vector<float> all = multiply(product, 0, rows_);
  for (const int64_t count : counts) {
    for (int64_t first = 0; first + count <= rows_; first += std::max<int64_t>(rows_ / 3, 1)) {
      const std::vector<float> some = multiply(product, first, count);
      ASSERT_TRUE(std::equal(some.begin(), some.end(), all.begin() + first * out_))
          << count << " rows from " << first << " on";
    }
  }
  expect_right(all);
}

void ProductCase::expect_right(const std::vector<float>& all) const {
  Oracle oracle;
  std::vector<float> sample;
  for (int64_t i = 0; i < 2000; ++i) {
    const int64_t r = i * 37 % rows_;
    const int64_t o = i * 101 % out_;
    double sum = 0;
    double magnitude = 0;
    for (int64_t c = 0; c < in_; ++c) {
      const double term = static_cast<double>(to_float(host_w_[static_cast<size_t>(o * in_ + c)])) *
                          static_cast<double>(to_float(host_x_[static_cast<size_t>(r * in_ + c)]));
      sum += term;
      magnitude += std::fabs(term);
    }
    oracle.add(sum, magnitude);
    sample.push_back(all[static_cast<size_t>(r * out_ + o)]);
  }
  EXPECT_TRUE(close(sample, oracle, tolerance_of(*tables_here().at(0)).sum));
}

void expect_each_sees_the_one_before(const Product& product) {
  constexpr int64_t kRows = 64;
  constexpr int64_t kWidth = 256;
  constexpr int kSteps = 200;
  std::vector<Bf16> identity(kWidth * kWidth);
  for (int64_t i = 0; i < kWidth; ++i) identity[static_cast<size_t>(i * kWidth + i)] = to_bf16(1);
  const DeviceMemory w(identity);
  DeviceMemory a(std::vector<Bf16>(kRows * kWidth, to_bf16(1)));
  DeviceMemory sum(std::vector<float>(kRows * kWidth, 0.0F));
  const Rows x{.data = a.data(), .dtype = DType::kBf16, .stride = kWidth};
  const Rows y{.data = sum.data(), .dtype = DType::kF32, .stride = kWidth};
  for (int step = 0; step < kSteps; ++step) {  // sum += x; x = sum: doubles
    const GemmProblem p{.x = x,
                        .weight = {.format = WeightFormat::kBf16, .out = kWidth, .in = kWidth, .data = w.data()},
                        .y = y,
                        .rows = kRows,
                        .accumulate = true};
    product({.problems = &p, .count = 1});
    cuda::copy({.x = y, .y = x, .rows = kRows, .dim = kWidth}, nullptr);
    if (step % 100 != 99) continue;
    std::vector<float> values(kRows * kWidth);
    sum.download(values.data(), sum.bytes());
    EXPECT_EQ(values, std::vector<float>(kRows * kWidth, std::ldexp(1.0F, step % 100))) << step;
    sum.upload(std::vector<float>(kRows * kWidth, 0.0F).data(), sum.bytes());
    a.upload(std::vector<Bf16>(kRows * kWidth, to_bf16(1)).data(), a.bytes());
  }
}

}  // namespace strobe::kernel
