// The two operations between draft, verify and commit, on the CPU and on a GPU where there is one.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "places.h"

namespace strobe::ops {
namespace {

using Ids = std::vector<int32_t>;

class Blocks : public testing::TestWithParam<DeviceKind> {
 protected:
  Blocks() : pool_(1), place_(pool_, GetParam()) {}
  static Tensor view(Ids& ids) { return Tensor(ids.data(), DType::kI32, {static_cast<int64_t>(ids.size())}); }
  Ids back(const Tensor& tensor) {
    const auto* ids = to_host(*place_.exec, tensor, storage_).as<int32_t>();
    return {ids, ids + tensor.dim(0)};
  }

  WorkerPool pool_;
  Place place_;
  std::vector<std::byte> storage_;
};

TEST_P(Blocks, DraftsFillAllButTheFedTokens) {
  Ids tokens = {3, 1, 0}, drafted = {9, 8, 7, 6, 5, 4, 3, 2, 1}, ids = {11, 0, 0, 12, 0, 0, 13, 0, 0};
  WorkspaceFrame frame(*place_.workspace);
  const kernel::Blocks blocks{
      .block_tokens = to_device(*place_.exec, frame, view(tokens)).as<int32_t>(), .sequences = 3, .block_rows = 3};
  const Tensor filled = to_device(*place_.exec, frame, view(ids));
  fill_drafts(*place_.exec, blocks, to_device(*place_.exec, frame, view(drafted)), filled);
  EXPECT_EQ(back(filled), (Ids{11, 8, 7, 12, 5, 4, 13, 2, 1}));
}

TEST_P(Blocks, DraftsStandAsFarAsTheBestTokensAgree) {
  // All drafts right; none; right after a wrong one; a block of one; of two; a sequence that is only there for the
  // count.
  Ids tokens = {4, 4, 4, 1, 2, 0};
  Ids ids = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4};
  Ids best = {2, 3, 4, 5, 9, 3, 4, 5, 2, 9, 4, 5, 2, 3, 4, 5, 2, 3, 4, 5, 2, 3, 4, 5};
  Ids slots(24);
  for (int32_t r = 0; r < 24; ++r) slots[static_cast<size_t>(r)] = 100 + r;
  WorkspaceFrame frame(*place_.workspace);
  const kernel::Blocks blocks{
      .block_tokens = to_device(*place_.exec, frame, view(tokens)).as<int32_t>(), .sequences = 6, .block_rows = 4};
  const Tensor accepted = frame.tensor(DType::kI32, {6}), committed = frame.tensor(DType::kI32, {24});
  accept_greedy(*place_.exec, blocks, to_device(*place_.exec, frame, view(ids)),
                to_device(*place_.exec, frame, view(best)), to_device(*place_.exec, frame, view(slots)), accepted,
                committed);
  EXPECT_EQ(back(accepted), (Ids{3, 0, 1, 0, 1, 0}));
  EXPECT_EQ(back(committed), (Ids{100, 101, 102, 103, 104, -1,  -1, -1, 108, 109, -1, -1,
                                  112, -1,  -1,  -1,  116, 117, -1, -1, -1,  -1,  -1, -1}));
}

TEST_P(Blocks, NoSequencesAreValid) {
  WorkspaceFrame frame(*place_.workspace);
  const Tensor none = frame.tensor(DType::kI32, {0});
  fill_drafts(*place_.exec, {.block_rows = 8}, none, none);
  accept_greedy(*place_.exec, {.block_rows = 8}, none, none, none, none, none);
}

INSTANTIATE_TEST_SUITE_P(Devices, Blocks, testing::ValuesIn(devices_here()), device_name);

}  // namespace
}  // namespace strobe::ops
