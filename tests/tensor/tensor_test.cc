#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <vector>

#include "tensor/buffer.h"
#include "tensor/quant_tensor.h"

namespace strobe {
namespace {

TEST(Tensor, SlicesKeepStrides) {
  std::vector<float> numbers(24);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const Tensor t(numbers.data(), DType::kF32, {4, 6});
  const Tensor right = t.slice(1, 4, 6);
  EXPECT_EQ(right.shape(), Shape({4, 2}));
  EXPECT_EQ(right.stride(0), 6);
  EXPECT_EQ(right.as<float>()[0], 4.0F);
  EXPECT_FALSE(right.contiguous());
  const Tensor heads = t.split_last(3, 2).slice(1, 1, 2);
  EXPECT_EQ(heads.shape(), Shape({4, 1, 2}));
  EXPECT_EQ(heads.as<float>()[0], 2.0F);
  EXPECT_EQ(t.reshape({24}).dim(0), 24);
}

TEST(TensorDeathTest, DimsNameTheDisagreement) {
  std::vector<float> numbers(64);
  const Tensor x(numbers.data(), DType::kF32, {4, 8});
  const Tensor w(numbers.data(), DType::kF32, {7});
  Dims dims("norm");
  dims.check("x", x, {"tokens", "hidden"});
  EXPECT_EQ(dims["hidden"], 8);
  EXPECT_DEATH(dims.check("w", w, {"hidden"}), "norm: w \\[7\\]: hidden is 7 here and 8 in x");
  EXPECT_DEATH(dims.check("w", w, {"8"}), "should be 8");
}

TEST(Buffer, IsZeroedAlignedAndMoves) {
  for (const int64_t bytes : {int64_t{1}, int64_t{5000}, int64_t{5} << 20}) {
    Buffer buffer = Buffer::host(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0U);
    EXPECT_EQ(*buffer.at(bytes - 1), std::byte{0});
    Buffer other = std::move(buffer);
    EXPECT_EQ(other.bytes(), bytes);
  }
  EXPECT_EQ(Buffer::host(0).bytes(), 0);
}

TEST(QuantTensor, RowsMoveDataAndScales) {
  std::vector<uint8_t> data(8 * 16), scales(8 * 2);
  QuantTensor w{.format = WeightFormat::kNvfp4, .out = 8, .in = 32, .data = data.data(), .scales = scales.data()};
  const QuantTensor part = w.rows(3, 5);
  EXPECT_EQ(part.out, 2);
  EXPECT_EQ(part.data, data.data() + 3 * 16);
  EXPECT_EQ(part.scales, scales.data() + 3 * 2);
  EXPECT_EQ(weight_bytes(WeightFormat::kNvfp4, 8, 32), 8 * 18);
  EXPECT_EQ(weight_bytes(WeightFormat::kBf16Tile16, 17, 3), 32 * 4 * 2);
}

}  // namespace
}  // namespace strobe
