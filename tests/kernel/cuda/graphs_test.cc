// Recorded work on the device: what is replayed, and what recordings take of its memory.
#include <gtest/gtest.h>

#include <iostream>
#include <vector>

#include "kernel/cuda/launch.h"
#include "kernel/cuda_device.h"

namespace strobe::kernel {
namespace {

int64_t free_bytes() {
  size_t free = 0, total = 0;
  cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<int64_t>(free);
}

// x += W x with many small problems: the launch whose parameters are largest. One in eight is such; a layer of MLA has
// two of them among its 25 or so, other kernels' parameters are small.
class Graphs : public testing::Test {
 protected:
  Graphs()
      : kernels_(open_cuda_device(0)),
        x_(kernels_->memory().allocate(kProblems * 4 * 4)),
        w_(kernels_->memory().allocate(4 * 4 * 4)) {
    for (int64_t p = 0; p < kProblems; ++p) {
      const Rows row{x_.at(p * 16), DType::kF32, 4};
      problems_.push_back({.x = row,
                           .weight = {.format = WeightFormat::kF32, .out = 4, .in = 4, .data = w_.data()},
                           .y = row,
                           .rows = 1,
                           .accumulate = true});
    }
  }
  void launch(int64_t kernels) {
    for (int64_t k = 0; k < kernels; ++k) kernels_->gemm({problems_.data(), k % 8 == 0 ? kProblems : 4});
  }

  static constexpr int64_t kProblems = 128;
  std::unique_ptr<Kernels> kernels_;
  Buffer x_, w_;
  std::vector<GemmProblem> problems_;
};

TEST_F(Graphs, TakeNoMoreThanPlansCount) {
  for (const int64_t kernels : {1, 50, 2000}) {
    kernels_->forget_recorded();
    const int64_t graphs = kernels == 2000 ? 8 : 40;
    const auto key = [&](int64_t g) { return static_cast<uint64_t>(kernels * 1000 + g); };
    for (int64_t g = 0; g < graphs; ++g) kernels_->run_recorded(key(g), [&] { launch(kernels); });
    const int64_t before = free_bytes();
    for (int round = 0; round < 2; ++round) {
      for (int64_t g = 0; g < graphs; ++g) kernels_->run_recorded(key(g), [&] { launch(kernels); });
    }
    const int64_t taken = before - free_bytes();
    std::cout << graphs << " graphs of " << kernels << " kernels: " << taken << " bytes\n";
    EXPECT_LE(taken, graphs * cuda_recorded_bytes(kernels)) << graphs << " graphs of " << kernels << " kernels";
  }
}

TEST_F(Graphs, ForgettingRecordsAnew) {
  const std::vector<float> one(4, 1);
  std::vector<float> eye(16, 0);
  for (size_t i = 0; i < 4; ++i) eye[5 * i] = 1;
  kernels_->memory().upload(w_.data(), eye.data(), 64);
  int recorded = 0;
  const auto twice = [&] { kernels_->run_recorded(1, [&] { launch(1), ++recorded; }); };
  for (int64_t p = 0; p < kProblems; ++p) kernels_->memory().upload(x_.at(p * 16), one.data(), 16);
  for (int i = 0; i < 4; ++i) twice();  // run, recorded and replayed, replayed twice
  EXPECT_EQ(recorded, 2);
  kernels_->wait();
  kernels_->forget_recorded();
  for (int i = 0; i < 3; ++i) twice();
  EXPECT_EQ(recorded, 4);
  float x = 0;
  kernels_->memory().download(&x, x_.at((kProblems - 1) * 16 + 12), 4);
  EXPECT_EQ(x, 128);  // doubled seven times
}

}  // namespace
}  // namespace strobe::kernel
