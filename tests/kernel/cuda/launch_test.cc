#include "kernel/cuda/launch.h"

#include <gmock/gmock.h>

#include "base/failure.h"
#include "kernel/cuda/device_memory.h"

namespace strobe::kernel::cuda {
namespace {

TEST(Launch, AnErrorIsAFailureThatNamesTheCall) {
  check(cudaSuccess, "fine");
  try {
    check(cudaErrorInvalidValue, "cudaSomething");
    FAIL() << "no Failure";
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.what(), ::testing::HasSubstr("cudaSomething"));
    EXPECT_THAT(failure.what(), ::testing::HasSubstr("cudaErrorInvalidValue"));
  }
}

TEST(DeviceMemory, CarriesBytes) {
  const std::vector<int> sent = {3, -1, 7};
  DeviceMemory memory(sent);
  std::vector<int> back(3);
  memory.download(back.data(), memory.bytes());
  EXPECT_EQ(back, sent);
  const DeviceMemory moved = std::move(memory);
  EXPECT_EQ(moved.bytes(), 12U);
  EXPECT_EQ(DeviceMemory(0).data(), nullptr);
}

TEST(DeviceMemory, TooMuchIsAFailure) {
  EXPECT_THROW(DeviceMemory(size_t{1} << 50), Failure);
}

}  // namespace
}  // namespace strobe::kernel::cuda
