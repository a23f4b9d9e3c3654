#include "probe/timing_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strobe::probe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TimingKernelsTest : public ::testing::Test {
 protected:
  // Three different calls on real numbers.
  void make_calls() {
    timing_.silu_mul(
        {.gate = {gate_, DType::kF32, 2}, .up = {up_, DType::kF32, 2}, .y = {y_, DType::kF32, 2}, .rows = 1, .dim = 2});
    timing_.argmax({.logits = up_, .stride = 2, .ids = &id_, .rows = 1, .columns = 2});
    timing_.rms_norm({.x = {gate_, DType::kF32, 2},
                      .weight = up_,
                      .y = {y_, DType::kF32, 2},
                      .rows = 1,
                      .dim = 2,
                      .epsilon = 1e-5F});
  }

  WorkerPool pool_{1};
  TimingKernels timing_{std::make_unique<kernel::HostKernels>(pool_, kernel::ref_kernels())};
  float gate_[2] = {1, 2}, up_[2] = {3, 4}, y_[2] = {};
  int32_t id_ = -1;
};

TEST_F(TimingKernelsTest, PassesCallsOn) {
  make_calls();
  EXPECT_EQ(id_, 1);
  EXPECT_NE(y_[0], 0);
  EXPECT_THAT(timing_.stop(), IsEmpty()) << "nothing is noted before start()";
}

TEST_F(TimingKernelsTest, NotesCallsInOrder) {
  timing_.start();
  make_calls();
  const std::vector<KernelCall> calls = timing_.stop();
  std::vector<std::string> names;
  std::vector<bool> ends;
  for (const KernelCall& call : calls) {
    names.push_back(call.name);
    ends.push_back(call.ends_pass);
    EXPECT_GE(call.us, 0);
  }
  EXPECT_THAT(names, ElementsAre("silu_mul 2", "argmax", "rms_norm 1x2"));
  EXPECT_THAT(ends, ElementsAre(false, true, false));
  make_calls();
  timing_.start();
  EXPECT_THAT(timing_.stop(), IsEmpty()) << "start() begins anew";
}

TEST_F(TimingKernelsTest, RunsRecordedWork) {
  int runs = 0;
  timing_.run_recorded(1, [&] { ++runs; });
  timing_.start();
  timing_.run_recorded(1, [&] { ++runs; });
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace strobe::probe
