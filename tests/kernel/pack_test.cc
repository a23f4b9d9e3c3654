// Packing loses nothing: a packed weight multiplied by unit vectors gives every number of it back, exactly.
#include <cstring>

#include "harness.h"

namespace strobe::kernel {
namespace {

class PackTest : public TableTest {
 protected:
  void expect_exact(const Weight& weight, DType x_dtype) const {
    const QuantTensor source = weight.tensor();
    const Packed packed(table(), source);
    EXPECT_EQ(packed.tensor().format, table().packed_format(source.format));
    EXPECT_EQ(packed.tensor().out, source.out);
    EXPECT_EQ(packed.tensor().in, source.in);
    Matrix x(x_dtype, source.in, source.in);
    for (int64_t i = 0; i < source.in; ++i) {
      x.fill_row(i, 0);
      x.put(i, i, 1);
    }
    const Matrix y(DType::kF32, source.in, source.out);
    const GemmProblem p{.x = x.view(), .weight = packed.tensor(), .y = y.view(), .rows = source.in};
    table().gemm(pool_of(2), {.problems = &p, .count = 1});
    for (int64_t o = 0; o < source.out; ++o) {
      for (int64_t i = 0; i < source.in; ++i) {
        ASSERT_EQ(y.at(i, o), static_cast<float>(weight.at(o, i))) << "[" << o << ", " << i << "]";
      }
    }
  }
};

TEST_P(PackTest, Bf16AndF32) {
  Random random(3);
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kF32}) {
    for (const int64_t out : {1, 15, 16, 17, 50}) {
      for (const int64_t in : {1, 2, 31, 33, 64}) {
        SCOPED_TRACE(fmt::format("{} [{}, {}]", to_string(format), out, in));
        const Weight weight(format, out, in, random);
        expect_exact(weight, DType::kBf16);
        expect_exact(weight, DType::kF32);
      }
    }
  }
}

TEST_P(PackTest, Nvfp4) {
  Random random(4);
  for (const int64_t out : {1, 15, 16, 17, 50}) {
    for (const int64_t in : {16, 32, 48, 96}) {
      SCOPED_TRACE(fmt::format("[{}, {}]", out, in));
      const Weight weight(WeightFormat::kNvfp4, out, in, random);
      expect_exact(weight, DType::kBf16);
      expect_exact(weight, DType::kF32);
    }
  }
}

// All codes in all 16 columns of a group with all finite block scales.
TEST_P(PackTest, EveryNvfp4CodeAndScale) {
  Random random(5);
  for (const float global_scale : {1.0F, 0.3F, 1e-3F}) {
    Weight weight(WeightFormat::kNvfp4, 127, 256, random);
    weight.global_scale = global_scale;
    for (int64_t o = 0; o < 127; ++o) {
      for (int64_t g = 0; g < 16; ++g) {
        weight.scales[static_cast<size_t>(o * 16 + g)] = static_cast<uint8_t>(o);
        for (int64_t pair = 0; pair < 8; ++pair) {
          const int64_t low = (2 * pair + g) % 16;
          const int64_t high = (2 * pair + 1 + g) % 16;
          weight.data[static_cast<size_t>(o * 128 + g * 8 + pair)] = static_cast<uint8_t>(low | high << 4);
        }
      }
    }
    expect_exact(weight, DType::kBf16);
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, PackTest, ::testing::ValuesIn(tables_here()), table_name);

}  // namespace
}  // namespace strobe::kernel
