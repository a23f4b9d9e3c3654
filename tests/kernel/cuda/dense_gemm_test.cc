// Hopper's dense products (sm90/dense_gemm.h): the right numbers, the same bytes for a row however the call is cut.
#include "kernel/cuda/sm90/dense_gemm.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "kernel/cuda_device.h"
#include "products.h"

namespace strobe::kernel {
namespace {

using cuda::DeviceMemory;
using cuda::sm90::dense_gemm;
using cuda::sm90::DenseTiling;
using cuda::sm90::kDenseTilings;
using cuda::sm90::takes_dense;

void multiply(const Gemm& call) {
  dense_gemm(call, nullptr);
}

struct Shape {
  int64_t out, in;
};
// Whole tiles and parts of them; one slice, and several (of equal and of different lengths).
constexpr Shape kShapes[] = {{64, 64},    {8, 8},       {1, 72},      {129, 200},  {576, 7168}, {384, 1024},
                             {200, 4808}, {1536, 2056}, {2048, 1032}, {4160, 328}, {8200, 520}};

TEST(DenseGemm, OneOrderForAnyNumberOfRows) {
  for (const auto& [out, in] : kShapes) {
    const ProductCase products(out, in, 1000);
    products.expect_one_order(multiply, {1, 2, 7, 8, 9, 16, 17, 32, 33, 63, 64, 65, 128, 129, 200, 256, 257, 600});
  }
}

TEST(DenseGemm, TilingsGiveTheSameBytes) {
  for (const auto& [out, in] : kShapes) {
    for (const int64_t rows : {1, 60, 333}) {
      const ProductCase products(out, in, rows);
      const std::vector<float> chosen = products.multiply(multiply, 0, rows);
      for (const DenseTiling& tiling : kDenseTilings) {
        EXPECT_EQ(products.multiply([&](const Gemm& call) { dense_gemm(call, tiling, nullptr); }, 0, rows), chosen)
            << fmt::format("[{}, {}], {} rows, {} x {}", out, in, rows, 64 * tiling.groups, tiling.tokens);
      }
    }
  }
}

// What other rows hold, NaN and infinities included, is nobody's business.
TEST(DenseGemm, RowsDoNotSeeEachOther) {
  constexpr int64_t kOut = 200, kIn = 1096, kRows = 70;
  Random random(7);
  const Weight weight(WeightFormat::kBf16, kOut, kIn, random);
  const DeviceMemory w(weight.data);
  Matrix x(DType::kBf16, kRows, kIn, 8);
  x.fill(random);
  const auto run = [&] {
    const DeviceMemory there = upload(x);
    Matrix y(DType::kF32, kRows, kOut);
    const DeviceMemory there_y = upload(y);
    GemmProblem p{.x = x.view(), .weight = weight.tensor(), .y = y.view(), .rows = kRows};
    p.x.data = there.data();
    p.weight.data = w.data();
    p.y.data = there_y.data();
    multiply({.problems = &p, .count = 1});
    there_y.download(y.view().data, there_y.bytes());
    return y.all_row_bytes();
  };
  const std::vector<std::string> clean = run();
  for (int64_t r = 0; r < kRows; r += 2) x.fill_row(r, r % 4 == 0 ? std::nanf("") : -INFINITY);
  const std::vector<std::string> poisoned = run();
  for (size_t r = 1; r < kRows; r += 2) EXPECT_EQ(poisoned[r], clean[r]) << r;
  EXPECT_NE(poisoned[0], clean[0]);
}

// Operands of one problem, on the host and on the device; y starts as NaN, or as numbers if it is added to.
struct Operands {
  Operands(const Shape& shape, int64_t rows, DType y_type, bool accumulate, int64_t y_gap, Random& random)
      : weight(WeightFormat::kBf16, shape.out, shape.in, random),
        x(DType::kBf16, rows, shape.in, (8 - shape.in % 8) % 8 + 16),
        y(y_type, rows, shape.out, y_gap) {
    x.fill(random);
    if (accumulate) y.fill(random);
    host = {.x = x.view(), .weight = weight.tensor(), .y = y.view(), .rows = rows, .accumulate = accumulate};
    device_w = DeviceMemory(weight.data);
    device_x = upload(x);
    device_y = upload(y);
    device = host;
    device.weight.data = device_w.data();
    device.x.data = device_x.data();
    device.y.data = device_y.data();
  }
  // What the device has against the reference on the same operands.
  void expect_right() {
    const GemmProblem& p = host;
    Matrix expected = y;
    GemmProblem of_ref = host;
    of_ref.y = expected.view();
    ref_kernels().gemm(pool_of(1), {.problems = &of_ref, .count = 1});
    device_y.download(y.view().data, device_y.bytes());
    EXPECT_TRUE(y.gaps_intact());
    // 2^-7 of a bf16 result; f32 sums of the tensor cores.
    const double unit = y.view().dtype == DType::kBf16 ? 0x1p-7 : 1e-5;
    for (int64_t r = 0; r < p.rows; ++r) {
      for (int64_t c = 0; c < p.weight.out; ++c) {
        ASSERT_NEAR(y.at(r, c), expected.at(r, c), unit * (8 + 4 * std::sqrt(static_cast<double>(p.weight.in))))
            << fmt::format("[{}, {}], {} rows, y {}{}: row {}, column {}", p.weight.out, p.weight.in, p.rows,
                           to_string(p.y.dtype), p.accumulate ? " +=" : "", r, c);
      }
    }
  }

  Weight weight;
  Matrix x, y;
  GemmProblem host, device;
  DeviceMemory device_w, device_x, device_y;
};

TEST(DenseGemm, IsTheProduct) {
  Random random(11);
  int turn = 0;
  for (const Shape& shape : {Shape{1, 8}, {3, 64}, {64, 72}, {66, 128}, {127, 1024}, {130, 1032}, {260, 2200}}) {
    for (const int64_t rows : {0, 1, 2, 8, 9, 31, 64, 100, 130, 300}) {
      ++turn;
      const bool accumulate = turn % 3 == 0;
      const DType type = accumulate || turn % 2 == 0 ? DType::kF32 : DType::kBf16;
      Operands o(shape, rows, type, accumulate, turn % 5, random);
      multiply({.problems = &o.device, .count = 1});
      o.expect_right();
      if (HasFailure()) return;
    }
  }
}

// Problems at equal distances share a launch, others do not; which it is shows nowhere.
TEST(DenseGemm, ManyProblemsInOneCall) {
  constexpr int64_t kHeads = 5, kOut = 72, kIn = 136, kRows = 37;
  Random random(13);
  std::vector<Weight> weights;
  std::vector<uint8_t> all;
  for (int64_t h = 0; h < kHeads; ++h) {
    weights.emplace_back(WeightFormat::kBf16, kOut, kIn, random);
    all.insert(all.end(), weights.back().data.begin(), weights.back().data.end());
  }
  const DeviceMemory w(all);
  Matrix x(DType::kBf16, kRows, kHeads * kIn);
  x.fill(random);
  const DeviceMemory device_x = upload(x);
  const auto run = [&](const std::vector<int64_t>& heads, bool one_x) {
    Matrix y(DType::kF32, kRows, kHeads * kOut);
    const DeviceMemory device_y = upload(y);
    std::vector<GemmProblem> problems;
    for (const int64_t h : heads) {
      problems.push_back({.x = {device_x.as<uint16_t>() + (one_x ? 0 : h * kIn), DType::kBf16, kHeads * kIn},
                          .weight = weights[static_cast<size_t>(h)].tensor(),
                          .y = {device_y.as<float>() + h * kOut, DType::kF32, kHeads * kOut},
                          .rows = kRows});
      problems.back().weight.data = w.as<uint16_t>() + h * kOut * kIn;
    }
    multiply({.problems = problems.data(), .count = static_cast<int64_t>(problems.size())});
    device_y.download(y.view().data, device_y.bytes());
    return y.all_row_bytes();
  };
  for (const bool one_x : {false, true}) {
    const std::vector<std::string> together = run({0, 1, 2, 3, 4}, one_x);
    EXPECT_EQ(run({4, 2, 3, 0, 1}, one_x), together);
    Matrix expected(DType::kF32, kRows, kHeads * kOut);
    for (int64_t h = 0; h < kHeads; ++h) {
      const GemmProblem p{.x = {static_cast<Bf16*>(x.view().data) + (one_x ? 0 : h * kIn), DType::kBf16, kHeads * kIn},
                          .weight = weights[static_cast<size_t>(h)].tensor(),
                          .y = {expected.f32() + h * kOut, DType::kF32, kHeads * kOut},
                          .rows = kRows};
      ref_kernels().gemm(pool_of(1), {.problems = &p, .count = 1});
    }
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kHeads * kOut; ++c) {
        float value = 0;
        std::memcpy(&value, together[static_cast<size_t>(r)].data() + c * 4, 4);
        ASSERT_NEAR(value, expected.at(r, c), 1e-3) << r << ", " << c;
      }
    }
  }
}

TEST(DenseGemm, EachSeesWhatTheOneBeforeWrote) {
  expect_each_sees_the_one_before(multiply);
}

TEST(DenseGemm, TakesWhatItCanAndNothingElse) {
  const GemmProblem problem{
      .x = {reinterpret_cast<void*>(0x1000), DType::kBf16, 64},
      .weight = {.format = WeightFormat::kBf16, .out = 32, .in = 64, .data = reinterpret_cast<void*>(0x1000)},
      .y = {reinterpret_cast<void*>(0x1004), DType::kF32, 33},
      .rows = 1};
  EXPECT_TRUE(takes_dense(problem));
  const auto changed = [&](auto change) {
    GemmProblem other = problem;
    change(other);
    return takes_dense(other);
  };
  const int32_t picks = 0;
  EXPECT_TRUE(changed([](GemmProblem& p) { p.rows = 4096; }));
  EXPECT_FALSE(changed([](GemmProblem& p) { p.x.dtype = DType::kF32; }));
  EXPECT_FALSE(changed([](GemmProblem& p) { p.weight.format = WeightFormat::kNvfp4; }));
  EXPECT_FALSE(changed([](GemmProblem& p) { p.x.stride = 65; }));
  EXPECT_FALSE(changed([](GemmProblem& p) { p.weight.in = 63; }));
  EXPECT_FALSE(changed([](GemmProblem& p) { p.x.data = reinterpret_cast<void*>(0x1008); }));
  EXPECT_FALSE(changed([](GemmProblem& p) { p.weight.data = reinterpret_cast<void*>(0x1008); }));
  EXPECT_FALSE(changed([&](GemmProblem& p) { p.x_rows = &picks; }));
  EXPECT_FALSE(changed([&](GemmProblem& p) { p.range = &picks; }));
}

TEST(DenseGemm, SlicesFollowFromTheWeight) {
  using cuda::sm90::dense_gemm_slices;
  EXPECT_EQ(dense_gemm_slices(7168, 8192), 1);
  EXPECT_EQ(dense_gemm_slices(2048, 7168), 4);
  EXPECT_EQ(dense_gemm_slices(1536, 7168), 4);
  EXPECT_EQ(dense_gemm_slices(576, 7168), 8);
  EXPECT_EQ(dense_gemm_slices(64, 1023), 1);
  EXPECT_EQ(dense_gemm_slices(64, 1024), 2);
}

// Which kernels a device gives a problem to follows from its weight, however many rows it has and whatever else is in
// the call.
TEST(DenseGemm, ADeviceGoesByTheWeight) {
  const auto device = open_cuda_device(0, {.graphs = false});
  const auto multiply_there = [&](const Gemm& call) {
    device->gemm(call);
    device->wait();
  };
  const ProductCase large(2112, 1024, 300);
  large.expect_one_order(multiply_there, {1, 8, 9, 64, 129});
  EXPECT_EQ(large.multiply(multiply_there, 0, 300), large.multiply(multiply, 0, 300));
  const ProductCase small(64, 1024, 300);
  small.expect_one_order(multiply_there, {1, 8, 9, 64, 129});
  // Both in one call, in turn.
  const auto together = [&](const Gemm& call) {
    std::vector<DeviceMemory> rests;
    std::vector<GemmProblem> problems;
    for (int i = 0; i < 3; ++i) {
      GemmProblem p = call.problems[0];
      if (i != 1) {
        p.weight.out = 8;  // of the large weight: not enough of it
        rests.emplace_back(static_cast<size_t>(p.rows * p.y.stride * 4));
        p.y.data = rests.back().data();
      }
      problems.push_back(p);
    }
    multiply_there({.problems = problems.data(), .count = 3});
  };
  EXPECT_EQ(large.multiply(together, 0, 70), large.multiply(multiply, 0, 70));
}

}  // namespace
}  // namespace strobe::kernel
