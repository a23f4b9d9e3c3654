// Moments by the device's own clock.
#include "kernel/cuda/marks.h"

#include <gtest/gtest.h>

#include "base/failure.h"
#include "kernel/cuda_device.h"

namespace strobe::kernel {
namespace {

TEST(Marks, EachReplayNotesThemAnew) {
  const auto kernels = open_cuda_device(0, {.graphs = true});
  constexpr int64_t kBytes = int64_t{64} << 20;
  const Buffer memory = kernels->memory().allocate(kBytes);
  const uint64_t key = kernels->new_recorder();
  for (int run = 0; run < 4; ++run) {  // the first is not recorded, the second records
    kernels->mark(0);
    kernels->run_recorded(key, [&] {
      kernels->mark(1);
      kernels->memory().fill(memory.data(), run, kBytes);
      kernels->mark(2);
    });
    EXPECT_GT(kernels->ms_between(1, 2), 0) << "run " << run;
    EXPECT_GE(kernels->ms_between(0, 1), 0) << "run " << run << ": mark 1 is an earlier run's";
    EXPECT_GE(kernels->ms_between(0, 2), kernels->ms_between(1, 2)) << "run " << run;
  }
}

TEST(Marks, OneThatWasNeverNotedIsAFailure) {
  const auto kernels = open_cuda_device(0, {.graphs = true});
  kernels->mark(0);
  EXPECT_THROW(static_cast<void>(kernels->ms_between(0, 1)), Failure);
}

}  // namespace
}  // namespace strobe::kernel
