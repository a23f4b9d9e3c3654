#include <algorithm>
#include <cmath>

#include "attention_case.h"

namespace strobe::kernel {
namespace {

class GqaTest : public TableTest {
 protected:
  [[nodiscard]] std::vector<DType> stores() const { return store_types(table()); }
};

TEST_P(GqaTest, KeyCounts) {
  for (const DType store : stores()) {
    for (const int32_t page_size : {64, 16, 1}) {
      for (const bool causal : {true, false}) {
        AttentionOptions o = gqa_options(4, 2, 32);
        o.store = store;
        o.page_size = page_size;
        o.causal = causal;
        if (store == DType::kE4m3) o.store_scale = page_size == 64 ? 0.013F : 1.0F;
        expect_attention_key_counts(table(), o);
      }
    }
  }
}

TEST_P(GqaTest, HeadsAndSizes) {
  struct Shape {
    int64_t heads, kv_heads, head_dim;
  };
  int turn = 0;
  for (const auto& [heads, kv_heads, head_dim] :
       {Shape{1, 1, 64}, Shape{8, 2, 64}, Shape{8, 8, 64}, Shape{64, 8, 128}, Shape{6, 2, 40}, Shape{5, 1, 20},
        Shape{9, 3, 33}, Shape{34, 2, 16}, Shape{2, 1, 256}, Shape{3, 3, 1}}) {
    for (const DType store : stores()) {
      AttentionOptions o = gqa_options(heads, kv_heads, head_dim);
      o.store = store;
      o.store_scale = store == DType::kE4m3 ? 0.05F : 1.0F;
      o.causal = turn % 3 != 0;
      o.lengths = {70, 8};
      const AttentionCase c(o, static_cast<uint64_t>(++turn));
      expect_attention_right(table(), c, {tail(o, 0, 8), tail(o, 1, 3)}, turn % 2 == 0 ? DType::kBf16 : DType::kF32,
                             turn / 2 % 2 == 0 ? DType::kBf16 : DType::kF32);
    }
  }
}

TEST_P(GqaTest, ValuesOfAnotherSize) {
  struct Shape {
    int64_t heads, kv_heads, head_dim, value_dim;
  };
  int turn = 0;
  for (const auto& [heads, kv_heads, head_dim, value_dim] :
       {Shape{8, 8, 128, 64}, Shape{4, 4, 192, 128}, Shape{6, 2, 40, 24}, Shape{3, 1, 33, 70}, Shape{2, 2, 64, 1},
        Shape{2, 1, 20, 257}, Shape{1, 1, kMaxAttentionKeyDim, kMaxAttentionValueDim}}) {
    for (const DType store : stores()) {
      AttentionOptions o = gqa_options(heads, kv_heads, head_dim);
      o.value_dim = value_dim;
      o.store = store;
      o.store_scale = store == DType::kE4m3 ? 0.05F : 1.0F;
      o.page_size = turn % 2 == 0 ? 64 : 16;
      o.causal = turn % 3 != 0;
      o.lengths = {70, 8, 300};
      const AttentionCase c(o, static_cast<uint64_t>(++turn));
      expect_attention_right(
          table(), c, {tail(o, 0, 8), {.request = 1, .first = 5, .count = 0, .key_count = 5}, tail(o, 2, 3)},
          turn % 2 == 0 ? DType::kBf16 : DType::kF32, turn / 2 % 2 == 0 ? DType::kBf16 : DType::kF32);
    }
  }
}

// A prompt's chunk over keys and values that were made for it: one request, one page, heads with keys of their own.
TEST_P(GqaTest, Prompts) {
  struct Shape {
    int64_t heads, head_dim, value_dim;
  };
  for (const auto& [heads, head_dim, value_dim] : {Shape{2, 192, 128}, Shape{4, 128, 64}, Shape{3, 40, 24}}) {
    for (const int64_t keys : {1, 2, 31, 64, 65, 129, 257, 520}) {
      if (head_dim > 100 && keys > 200) continue;  // the formula takes long
      AttentionOptions o = gqa_options(heads, heads, head_dim);
      o.value_dim = value_dim;
      o.store = table().activation;
      o.page_size = static_cast<int32_t>(keys);
      o.prompt = true;
      o.lengths = {keys};
      const AttentionCase c(o, static_cast<uint64_t>(keys));
      expect_attention_right(table(), c, {tail(o, 0, keys)}, DType::kBf16, table().activation, 3);
      if (keys > 64) expect_attention_right(table(), c, {tail(o, 0, 63)}, DType::kBf16, table().activation, 2);
    }
  }
}

// The page of a prompt's keys may have been larger: what lies behind may be NaN.
TEST_P(GqaTest, PromptsDoNotReadBehindTheirKeys) {
  AttentionOptions o = gqa_options(4, 4, 128);
  o.value_dim = 64;
  o.page_size = 512;
  o.prompt = true;
  o.lengths = {150};
  AttentionCase c(o, 106);
  expect_attention_right(table(), c, {tail(o, 0, 140)}, DType::kBf16, DType::kBf16);
  for (const int64_t row : {10, 149}) {  // and no row sees the one behind it
    const Matrix before =
        c.run(table(), {{.request = 0, .first = 0, .count = row, .key_count = 150}}, DType::kBf16, DType::kBf16, 2);
    c.keys[0].fill_row(row, std::nanf(""));
    c.values[0].fill_row(row, std::nanf(""));
    const Matrix after =
        c.run(table(), {{.request = 0, .first = 0, .count = row, .key_count = 150}}, DType::kBf16, DType::kBf16, 2);
    EXPECT_EQ(before.all_row_bytes(), after.all_row_bytes()) << row;
    c = AttentionCase(o, 106);
  }
}

TEST_P(GqaTest, ExtremeScores) {
  for (const DType store : stores()) {
    AttentionOptions o = gqa_options(4, 2, 32);
    o.store = store;
    expect_attention_extreme_scores(table(), o);
    o.causal = false;
    expect_attention_extreme_scores(table(), o);
  }
}

TEST_P(GqaTest, Windows) {
  for (const int32_t window : {1, 2, 16, 63, 64, 65, 128, 1000}) {
    AttentionOptions o = gqa_options(4, 2, 32);
    o.window = window;
    o.lengths = {200, 3, 64, 65};
    const AttentionCase c(o, 100);
    expect_attention_right(table(), c, {tail(o, 0, 8), tail(o, 1, 3), tail(o, 2, 64), tail(o, 3, 1)}, DType::kF32,
                           DType::kF32);
    expect_attention_right(table(), c, {{.request = 0, .first = 60, .count = 70, .key_count = 200}}, DType::kBf16,
                           DType::kBf16);
  }
}

// A window means nothing where attention is not causal.
TEST_P(GqaTest, NoWindowWithoutCausality) {
  AttentionOptions o = gqa_options(4, 2, 32);
  o.causal = false;
  o.window = 7;
  o.lengths = {100};
  expect_attention_right(table(), AttentionCase(o, 101), {tail(o, 0, 8)}, DType::kF32, DType::kF32);
}

TEST_P(GqaTest, FirstVisible) {
  for (const bool causal : {false, true}) {
    for (const int32_t window : {0, 40}) {
      AttentionOptions o = gqa_options(4, 2, 32);
      o.causal = causal;
      o.window = window;
      o.lengths = {200, 200, 200, 130, 66, 8};
      o.first_visible = {0, 1, 128, 65, 64, 0};
      const AttentionCase c(o, 102);
      std::vector<Chunk> chunks;
      for (int r = 0; r < 6; ++r) chunks.push_back(tail(o, r, 8));
      // Causal rows before the first visible position see nothing: zeros (the formula's sum of no terms).
      expect_attention_right(table(), c, chunks, DType::kF32, DType::kF32);
    }
  }
}

TEST_P(GqaTest, NothingVisibleGivesZeros) {
  AttentionOptions o = gqa_options(4, 2, 32);
  o.causal = false;
  o.lengths = {64, 70};
  o.first_visible = {64, 100};
  const AttentionCase c(o, 103);
  const Matrix out = c.run(table(), {tail(o, 0, 3), tail(o, 1, 2)}, DType::kF32, DType::kF32, 2);
  EXPECT_EQ(out.values(), std::vector<float>(5 * 4 * 32, 0.0F));
}

// What a row may not see may hold NaN: positions before its window, positions before first_visible.
TEST_P(GqaTest, UnseenPositionsMayBeNan) {
  AttentionOptions o = gqa_options(4, 2, 32);
  o.lengths = {150};
  o.first_visible = {101};
  for (const bool causal : {true, false}) {
    o.causal = causal;
    AttentionCase c(o, 104);
    const std::vector<Chunk> chunks = {tail(o, 0, 8)};
    const auto expected = c.run(table(), chunks, DType::kF32, DType::kF32).all_row_bytes();
    for (int64_t p = 0; p < 101; ++p) {
      c.keys[0].fill_row(p, std::nanf(""));
      c.values[0].fill_row(p, std::nanf(""));
    }
    EXPECT_EQ(c.run(table(), chunks, DType::kF32, DType::kF32).all_row_bytes(), expected);
  }
  o.first_visible.clear();
  o.causal = true;
  o.window = 20;
  AttentionCase c(o, 105);
  const std::vector<Chunk> chunks = {tail(o, 0, 8)};
  const auto expected = c.run(table(), chunks, DType::kF32, DType::kF32).all_row_bytes();
  for (int64_t p = 0; p <= 142 - 20; ++p) {
    c.keys[0].fill_row(p, std::nanf(""));
    c.values[0].fill_row(p, std::nanf(""));
  }
  EXPECT_EQ(c.run(table(), chunks, DType::kF32, DType::kF32).all_row_bytes(), expected);
}

TEST_P(GqaTest, BatchInvariant) {
  for (const DType store : stores()) {
    for (const bool causal : {true, false}) {
      AttentionOptions o = gqa_options(8, 2, 64);
      o.store = store;
      o.store_scale = store == DType::kE4m3 ? 0.05F : 1.0F;
      o.causal = causal;
      o.lengths = {64, 9, 1, 65, 130, 300};
      expect_attention_invariant(table(), o);
      if (HasFailure()) return;
    }
  }
}

TEST_P(GqaTest, BatchInvariantInOtherShapes) {
  AttentionOptions o = gqa_options(5, 1, 20);
  o.lengths = {65, 3, 100};
  expect_attention_invariant(table(), o);
  o = gqa_options(6, 6, 33);
  o.page_size = 16;
  o.causal = false;
  o.lengths = {64, 9, 130};
  expect_attention_invariant(table(), o);
  o = gqa_options(32, 2, 128);
  o.lengths = {20, 3, 70};
  expect_attention_invariant(table(), o);
  o = gqa_options(4, 2, 128);
  o.value_dim = 64;
  o.lengths = {65, 3, 300};
  expect_attention_invariant(table(), o);
}

TEST_P(GqaTest, BatchInvariantWithWindows) {
  AttentionOptions o = gqa_options(8, 2, 64);
  o.lengths = {64, 9, 1, 65, 130, 300};
  for (const int32_t window : {1, 64, 100}) {
    o.window = window;
    expect_attention_invariant(table(), o);
  }
  o.window = 0;
  o.first_visible = {3, 0, 0, 60, 64, 129};
  expect_attention_invariant(table(), o);
  o.causal = false;
  expect_attention_invariant(table(), o);
}

// Long enough for splits of any length to be cut in several places.
TEST_P(GqaTest, BatchInvariantOverLongContexts) {
  for (const DType store : store_types(table())) {
    AttentionOptions o = gqa_options(2, 1, 24);
    o.store = store;
    o.lengths = {513, 9, 1100};
    expect_attention_invariant(table(), o);
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, GqaTest, ::testing::ValuesIn(tables_here()), table_name);

}  // namespace
}  // namespace strobe::kernel
