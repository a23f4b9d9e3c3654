#include "ops/weight_arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace strobe::ops {
namespace {

TEST(WeightArena, CopiesStayWhenTheOriginalIsGone) {
  WeightArena arena(kernel::ref_kernels());
  std::vector<float> norm = {1, 2, 3};
  const Tensor kept = arena.copy(Tensor(norm.data(), DType::kF32, {3}));
  std::vector<uint8_t> codes(4 * 16), scales(4 * 2);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 3);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<uint8_t>(i + 40);
  const auto kept_codes = codes, kept_scales = scales;
  const QuantTensor weight = arena.copy(QuantTensor{.format = WeightFormat::kNvfp4,
                                                    .out = 4,
                                                    .in = 32,
                                                    .data = codes.data(),
                                                    .scales = scales.data(),
                                                    .global_scale = 0.5F});
  std::fill(norm.begin(), norm.end(), 0.0F);
  std::fill(codes.begin(), codes.end(), uint8_t{0});
  std::fill(scales.begin(), scales.end(), uint8_t{0});
  EXPECT_EQ(kept.as<float>()[2], 3.0F);
  EXPECT_EQ(std::memcmp(weight.data, kept_codes.data(), kept_codes.size()), 0);
  EXPECT_EQ(std::memcmp(weight.scales, kept_scales.data(), kept_scales.size()), 0);
  EXPECT_EQ(weight.global_scale, 0.5F);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(weight.data) % 64, 0U);
}

TEST(WeightArena, CountsWhatItHandsOut) {
  WeightArena arena(kernel::ref_kernels());
  std::vector<float> numbers(100);
  EXPECT_EQ(arena.bytes(), 0);
  static_cast<void>(arena.copy(Tensor(numbers.data(), DType::kF32, {100})));
  EXPECT_EQ(arena.bytes(), 448);  // 400 in steps of 64
  static_cast<void>(arena.copy(Tensor(numbers.data(), DType::kF32, {1})));
  EXPECT_EQ(arena.bytes(), 512);
}

TEST(WeightArena, BlocksDoNotOverlap) {
  WeightArena arena(kernel::ref_kernels());
  // A matrix larger than a block of the arena between small ones.
  std::vector<float> large((size_t{40} << 20) / 4, 7.0F), small(10, 3.0F);
  const Tensor first = arena.copy(Tensor(small.data(), DType::kF32, {10}));
  const Tensor big = arena.copy(Tensor(large.data(), DType::kF32, {static_cast<int64_t>(large.size())}));
  small.assign(10, 4.0F);
  const Tensor last = arena.copy(Tensor(small.data(), DType::kF32, {10}));
  EXPECT_EQ(first.as<float>()[9], 3.0F);
  EXPECT_EQ(last.as<float>()[0], 4.0F);
  EXPECT_EQ(big.as<float>()[0], 7.0F);
  EXPECT_EQ(big.as<float>()[large.size() - 1], 7.0F);
}

TEST(WeightArena, PacksAsTheTableWants) {
  for (const kernel::CpuKernels* kernels : {&kernel::ref_kernels(), &kernel::cpu_kernels(best_cpu_isa())}) {
    WeightArena arena(*kernels);
    std::vector<Bf16> numbers(5 * 6, to_bf16(1.5F));
    const QuantTensor packed = arena.pack({.format = WeightFormat::kBf16, .out = 5, .in = 6, .data = numbers.data()});
    EXPECT_EQ(packed.format, kernels->packed_format(WeightFormat::kBf16)) << kernels->name;
    EXPECT_EQ(packed.out, 5);
    EXPECT_EQ(packed.in, 6);
    EXPECT_NE(packed.data, numbers.data());
  }
}

}  // namespace
}  // namespace strobe::ops
