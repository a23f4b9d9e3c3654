#include "ops/workspace.h"

#include <gtest/gtest.h>

#include <cstring>

namespace strobe::ops {
namespace {

TEST(Workspace, FramesGiveBackInStackOrder) {
  Workspace workspace(1 << 20);
  void* first = nullptr;
  {
    WorkspaceFrame outer(workspace);
    first = outer.array<std::byte>(100);
    void* inner_place = nullptr;
    {
      WorkspaceFrame inner(workspace);
      inner_place = inner.array<std::byte>(1);
      EXPECT_EQ(static_cast<std::byte*>(inner_place) - static_cast<std::byte*>(first), 128) << "64-byte steps";
    }
    EXPECT_EQ(outer.array<std::byte>(1), inner_place) << "the inner frame's memory is free again";
  }
  WorkspaceFrame again(workspace);
  EXPECT_EQ(again.array<std::byte>(1), first);
}

TEST(Workspace, EverythingIsAligned) {
  Workspace workspace;
  WorkspaceFrame frame(workspace);
  for (const int64_t bytes : {1, 63, 64, 65, 0, 1000}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(frame.array<std::byte>(bytes)) % 64, 0U) << bytes;
  }
  const Tensor tensor = frame.tensor(DType::kF32, {3, 5});
  EXPECT_TRUE(tensor.contiguous());
  EXPECT_EQ(tensor.bytes(), 60);
}

TEST(Workspace, GrowsWithoutMovingWhatIsTaken) {
  Workspace workspace(1024);
  WorkspaceFrame frame(workspace);
  auto* small = frame.array<std::byte>(1000);
  std::memset(small, 7, 1000);
  auto* large = frame.array<std::byte>(int64_t{3} << 20);
  std::memset(large, 9, size_t{3} << 20);
  auto* more = frame.array<std::byte>(500);
  std::memset(more, 5, 500);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(small[i], std::byte{7});
  for (int i = 0; i < 500; ++i) ASSERT_EQ(more[i], std::byte{5});
  EXPECT_EQ(large[0], std::byte{9});
  EXPECT_EQ(large[(3 << 20) - 1], std::byte{9});
}

TEST(Workspace, SettlesAtTheLargestStep) {
  Workspace workspace;
  const auto step = [&](int64_t mib) {
    WorkspaceFrame frame(workspace);
    for (int64_t i = 0; i < mib; ++i) static_cast<void>(frame.array<std::byte>(1 << 20));
    WorkspaceFrame inner(workspace);
    static_cast<void>(inner.array<std::byte>(1 << 20));
  };
  step(3);
  step(5);
  const int64_t settled = workspace.capacity_bytes();
  EXPECT_GE(settled, int64_t{6} << 20);
  EXPECT_EQ(workspace.peak_bytes(), int64_t{6} << 20);
  void* place = nullptr;
  for (int i = 0; i < 3; ++i) {
    step(5);
    EXPECT_EQ(workspace.capacity_bytes(), settled);
    WorkspaceFrame frame(workspace);
    auto* here = frame.array<std::byte>(settled);  // one block now
    if (place != nullptr) {
      EXPECT_EQ(here, place);
    }
    place = here;
  }
}

TEST(Workspace, AnInnerFrameThatGrewLeavesTheOuterOneWhole) {
  Workspace workspace(4096);
  WorkspaceFrame outer(workspace);
  auto* mine = outer.array<std::byte>(2000);
  std::memset(mine, 3, 2000);
  {
    WorkspaceFrame inner(workspace);
    std::memset(inner.array<std::byte>(1 << 21), 1, 1 << 21);
  }
  std::memset(outer.array<std::byte>(1000), 2, 1000);  // fits into the first block again
  {
    WorkspaceFrame inner(workspace);
    std::memset(inner.array<std::byte>(1 << 21), 4, 1 << 21);
  }
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(mine[i], std::byte{3});
}

TEST(WorkspaceDeathTest, IsNotReservedWhileInUse) {
  Workspace workspace;
  WorkspaceFrame frame(workspace);
  EXPECT_DEATH(workspace.reserve(100), "workspace in use");
}

}  // namespace
}  // namespace strobe::ops
