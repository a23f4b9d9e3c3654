#include <cmath>

#include "attention_case.h"

namespace strobe::kernel {
namespace {

class MlaTest : public TableTest {
 protected:
  [[nodiscard]] std::vector<DType> stores() const { return store_types(table()); }
};

TEST_P(MlaTest, KeyCounts) {
  for (const DType store : stores()) {
    for (const int32_t page_size : {64, 16, 1}) {
      AttentionOptions o{.heads = 3, .store = store, .page_size = page_size};
      if (store == DType::kE4m3) o.store_scale = page_size == 64 ? 0.013F : 1.0F;
      expect_attention_key_counts(table(), o);
    }
  }
}

TEST_P(MlaTest, HeadsAndSizes) {
  struct Shape {
    int64_t heads, latent, rope;
  };
  int turn = 0;
  for (const auto& [heads, latent, rope] :
       {Shape{1, 512, 64}, Shape{8, 512, 64}, Shape{64, 512, 64}, Shape{5, 512, 64}, Shape{1, 32, 16},
        Shape{16, 32, 16}, Shape{7, 20, 6}, Shape{33, 64, 32}, Shape{17, 1, 1}}) {
    for (const DType store : stores()) {
      AttentionOptions o{.heads = heads, .key_dim = latent + rope, .value_dim = latent, .store = store};
      o.scale = 1 / std::sqrt(static_cast<float>(o.key_dim));
      o.store_scale = store == DType::kE4m3 ? 0.05F : 1.0F;
      o.lengths = {70, 8};
      const AttentionCase c(o, static_cast<uint64_t>(++turn));
      expect_attention_right(table(), c, {tail(o, 0, 8), tail(o, 1, 3)}, turn % 2 == 0 ? DType::kBf16 : DType::kF32,
                             turn / 2 % 2 == 0 ? DType::kBf16 : DType::kF32);
    }
  }
}

TEST_P(MlaTest, ExtremeScores) {
  for (const DType store : stores()) expect_attention_extreme_scores(table(), {.heads = 2, .store = store});
}

TEST_P(MlaTest, BatchInvariant) {
  const std::vector<int64_t> lengths = {64, 9, 1, 65, 130, 300};
  for (const DType store : stores()) {
    const float scale = store == DType::kE4m3 ? 0.05F : 1.0F;
    expect_attention_invariant(table(), {.heads = 8, .store = store, .store_scale = scale, .lengths = lengths});
    if (HasFailure()) return;
  }
}

TEST_P(MlaTest, BatchInvariantInOtherShapes) {
  expect_attention_invariant(table(), {.heads = 1, .page_size = 16, .lengths = {64, 9, 130}});
  expect_attention_invariant(table(), {.heads = 5, .key_dim = 26, .value_dim = 20, .lengths = {65, 3, 100}});
  expect_attention_invariant(table(), {.heads = 20, .store = DType::kE4m3, .page_size = 32, .lengths = {33, 9, 70}});
  expect_attention_invariant(table(), {.heads = 64, .lengths = {6, 3, 66}});
}

TEST_P(MlaTest, BatchInvariantInTheModelsShape) {
  AttentionOptions o{.heads = 8, .key_dim = 576, .value_dim = 512, .store = DType::kE4m3, .store_scale = 0.02F};
  o.scale = 0.072F;
  o.lengths = {40, 9, 130};
  expect_attention_invariant(table(), o);
}

// Long enough for splits of any length to be cut in several places.
TEST_P(MlaTest, BatchInvariantOverLongContexts) {
  for (const DType store : stores()) {
    AttentionOptions o{.heads = 2, .key_dim = 26, .value_dim = 20, .store = store};
    o.lengths = {513, 9, 1100};
    expect_attention_invariant(table(), o);
  }
}

TEST_P(MlaTest, LongContexts) {
  for (const DType store : stores()) {
    AttentionOptions o{.heads = 3, .key_dim = 80, .value_dim = 64, .store = store};
    o.lengths = {1024, 1025, 2100};
    const AttentionCase c(o, 97);
    expect_attention_right(table(), c, {tail(o, 0, 2), tail(o, 1, 8), tail(o, 2, 40)}, DType::kBf16, DType::kBf16, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, MlaTest, ::testing::ValuesIn(tables_here()), table_name);

}  // namespace
}  // namespace strobe::kernel
