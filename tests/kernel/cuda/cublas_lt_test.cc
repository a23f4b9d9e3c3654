// Products through cuBLASLt against kernel/ref, where the machine has the library.
#include "kernel/cuda/cublas_lt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "products.h"

namespace strobe::kernel {
namespace {

using cuda::CublasLt;
using cuda::DeviceMemory;

TEST(CublasLt, IsTheProduct) {
  const auto library = CublasLt::open();
  if (!library.ok()) GTEST_SKIP() << library.message();
  const DeviceMemory workspace(static_cast<size_t>(CublasLt::kWorkspaceBytes));
  Random random(5);
  for (const auto& [rows, out, in] : {std::tuple{256, 128, 64}, {300, 1536, 512}, {1000, 24, 8}}) {
    for (const DType type : {DType::kF32, DType::kBf16}) {
      for (const bool accumulate : {false, true}) {
        if (accumulate && type == DType::kBf16) continue;
        // Gaps between the rows, as slices have them.
        Matrix x(DType::kBf16, rows, in, 8), y(type, rows, out, 16);
        x.fill(random);
        y.fill(random);
        const Weight weight(WeightFormat::kBf16, out, in, random);
        Matrix expected = y;
        GemmProblem problem{.x = x.view(), .weight = weight.tensor(), .y = expected.view(), .rows = rows};
        problem.accumulate = accumulate;
        ref_kernels().gemm(pool_of(1), {.problems = &problem, .count = 1});

        const DeviceMemory there_x = upload(x), there_y = upload(y), there_w(weight.data);
        problem.x.data = there_x.data();
        problem.y.data = there_y.data();
        problem.weight.data = there_w.data();
        ASSERT_TRUE(CublasLt::takes(problem));
        (*library)->gemm(problem, workspace.data(), nullptr);
        there_y.download(y.view().data, there_y.bytes());
        EXPECT_TRUE(y.gaps_intact());
        const double tolerance = type == DType::kBf16 ? 0x1p-7 : 1e-5;
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < out; ++c) {
            ASSERT_NEAR(y.at(r, c), expected.at(r, c), tolerance * (8 + 4 * std::sqrt(static_cast<double>(in))))
                << rows << " rows, " << out << " x " << in << ": row " << r << ", column " << c;
          }
        }
      }
    }
  }
}

TEST(CublasLt, TakesWhatItCanAndNothingElse) {
  const GemmProblem problem{.x = {reinterpret_cast<void*>(0x1000), DType::kBf16, 64},
                            .weight = {.out = 32, .in = 64, .data = reinterpret_cast<void*>(0x1000)},
                            .y = {reinterpret_cast<void*>(0x1000), DType::kF32, 32},
                            .rows = 256};
  EXPECT_TRUE(CublasLt::takes(problem));
  const auto changed = [&](auto change) {
    GemmProblem other = problem;
    change(other);
    return CublasLt::takes(other);
  };
  const int32_t picks = 0;
  EXPECT_FALSE(changed([](GemmProblem& p) { p.x.dtype = DType::kF32; }));
  EXPECT_FALSE(changed([](GemmProblem& p) { p.weight.format = WeightFormat::kNvfp4; }));
  EXPECT_FALSE(changed([](GemmProblem& p) { p.x.stride = 65; }));
  EXPECT_FALSE(changed([](GemmProblem& p) { p.y.stride = 33; }));
  EXPECT_FALSE(changed([](GemmProblem& p) { p.weight.in = 63; }));
  EXPECT_FALSE(changed([](GemmProblem& p) { p.y.data = reinterpret_cast<void*>(0x1004); }));
  EXPECT_FALSE(changed([&](GemmProblem& p) { p.x_rows = &picks; }));
  EXPECT_FALSE(changed([&](GemmProblem& p) { p.range = &picks; }));
  EXPECT_FALSE(changed([](GemmProblem& p) { p.rows = 0; }));
}

}  // namespace
}  // namespace strobe::kernel
