// The draft against z-lab's dflash package: context keys and values from given features, block hidden states and
// tokens.
#include <gtest/gtest.h>

#include "golden.h"
#include "pocket.h"
#include "tables.h"

namespace strobe::model {
namespace {

class DraftGolden : public testing::TestWithParam<std::tuple<const Platform*, const char*>> {
 protected:
  static bool reference() { return std::get<0>(GetParam())->activation == DType::kF32; }
  static double tolerance() { return reference() ? 1e-4 : 2e-2; }
};

// Reads slot numbers back out of a store, as f32.
std::vector<float> stored_row(Memory& memory, const kernel::PagedStore& store, int32_t slot) {
  std::vector<float> row(static_cast<size_t>(store.dim));
  const int64_t bytes = store.dim * size_bytes(store.dtype);
  const auto* place = static_cast<const std::byte*>(store.data) + slot * bytes;
  if (store.dtype == DType::kF32) {
    memory.download(row.data(), place, bytes);
    return row;
  }
  std::vector<Bf16> stored(row.size());
  memory.download(stored.data(), place, bytes);
  for (size_t i = 0; i < row.size(); ++i) row[i] = to_float(stored[i]);
  return row;
}

TEST_P(DraftGolden, ContextAndBlocks) {
  const auto& [platform, name] = GetParam();
  const Golden golden(std::string(name) + ".draft");
  Pocket& pocket = pocket_for(*platform);
  ops::Exec& exec = pocket.exec();
  cache::KvStore store = pocket.draft_store(reference() ? DType::kF32 : DType::kBf16);
  for (int32_t page = 0; page < Pocket::kPages; ++page) store.poison(page);

  std::vector<float> features = golden.floats("features");
  const std::vector<int32_t> ids = golden.ints("input_ids");
  const auto tokens = static_cast<int32_t>(ids.size());
  const auto pages = scattered_pages(4);
  engine::RowList context(Pocket::kPageSize);
  context.add(ids, 0, pages);
  ops::WorkspaceFrame frame(exec.workspace());
  const int64_t width = pocket.draft_config().feature_width();
  const Tensor given = ops::to_device(exec, frame, Tensor(features.data(), DType::kF32, {tokens, width}));
  const Tensor used = frame.tensor(exec.activation(), {tokens, width});
  ops::copy(exec, given, used);
  const model::Batch placed_context = context.place(exec, frame).batch;
  pocket.draft().write_context(exec, used, placed_context.positions, placed_context.slots, store);

  const std::vector<int32_t> kv_positions = golden.ints("kv_positions");
  const std::vector<float> expected_k = golden.floats("context_k"), expected_v = golden.floats("context_v");
  const size_t row = 2 * 64;
  for (int64_t layer = 0; layer < 3; ++layer) {
    for (size_t p = 0; p < kv_positions.size(); ++p) {
      const int32_t slot = context.slots().as<int32_t>()[kv_positions[p]];
      const size_t offset = (static_cast<size_t>(layer) * kv_positions.size() + p) * row;
      EXPECT_LE(
          row_error(stored_row(exec.memory(), store.plane(layer, 0), slot), std::span(expected_k).subspan(offset, row)),
          tolerance())
          << "K of layer " << layer << ", position " << kv_positions[p];
      EXPECT_LE(
          row_error(stored_row(exec.memory(), store.plane(layer, 1), slot), std::span(expected_v).subspan(offset, row)),
          tolerance())
          << "V of layer " << layer << ", position " << kv_positions[p];
    }
  }

  for (const int32_t block : {8, 4}) {
    engine::RowList rows(Pocket::kPageSize);
    std::vector<int32_t> block_ids(static_cast<size_t>(block), pocket.draft().mask_token());
    block_ids[0] = golden.ints("bonus")[0];
    rows.add(block_ids, tokens, pages);
    const Tensor hidden = frame.tensor(DType::kF32, {block, 256});
    const Tensor drafted = frame.tensor(DType::kI32, {block});
    const int32_t first_visible = 0;
    const engine::RowList::Placed placed = rows.place(exec, frame, {&first_visible, 1});
    pocket.draft().draft(exec, placed.ids, placed.batch, store, drafted, hidden);
    std::vector<std::byte> hidden_storage, drafted_storage;
    const auto* hidden_rows = ops::to_host(exec, hidden, hidden_storage).as<float>();
    const auto* drafted_ids = ops::to_host(exec, drafted, drafted_storage).as<int32_t>();
    const std::string prefix = fmt::format("block{}_", block);
    const std::vector<float> expected_hidden = golden.floats(prefix + "hidden");
    for (int32_t r = 0; r < block; ++r) {
      const double error = row_error({hidden_rows + r * 256, 256},
                                     std::span(expected_hidden).subspan(static_cast<size_t>(r) * 256, 256));
      // bf16 keys, values and products: a row late in the block has gone through all of them three times.
      EXPECT_LE(error, reference() ? 1e-4 : 4e-2) << "block of " << block << ", row " << r;
    }
    const std::vector<int32_t> expected_tokens = golden.ints(prefix + "tokens");
    const std::vector<float> gaps = golden.floats(prefix + "gaps");
    for (int32_t r = 1; r < block; ++r) {
      // A draft token may differ only where the oracle itself was nearly undecided.
      if (gaps[static_cast<size_t>(r - 1)] < (reference() ? 1e-3F : 0.3F)) continue;
      EXPECT_EQ(drafted_ids[r], expected_tokens[static_cast<size_t>(r - 1)]) << "block of " << block << ", row " << r;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pocket, DraftGolden,
                         testing::Combine(testing::ValuesIn(platforms_here()),
                                          testing::Values("chat", "one_token", "long")),
                         [](const auto& param_info) {
                           return fmt::format("{}_{}", std::get<0>(param_info.param)->name,
                                              std::get<1>(param_info.param));
                         });

}  // namespace
}  // namespace strobe::model
