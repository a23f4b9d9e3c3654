// TargetPass on the pocket model: which rows get logits, and that a row's numbers do not depend on its company.
#include "engine/target_pass.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "../model/tables.h"
#include "engine/sampling.h"

namespace strobe::engine {
namespace {

using model::Pocket;
using Ids = std::vector<int32_t>;

class TargetPassTest : public testing::Test {
 protected:
  TargetPassTest()
      : pocket_(model::pocket_for(*model::platforms_here().back())),
        store_(pocket_.target_store(DType::kE4m3)),
        pass_(pocket_.target(store_), Pocket::kPageSize) {}

  static Ids text(int32_t count, int32_t salt) {
    Ids ids(static_cast<size_t>(count));
    for (int32_t i = 0; i < count; ++i) ids[static_cast<size_t>(i)] = (i * 37 + salt) % 3000 + 5;
    return ids;
  }
  static std::vector<float> row(const RowLogits& logits, int64_t i) {
    const auto numbers = logits.row(i);
    return {numbers.begin(), numbers.end()};
  }

  // What a pass that has run says of its rows.
  RowLogits logits(const TargetPass& pass, int64_t begin, int64_t count) {
    words_.fetch(pocket_.exec(), pass.outputs().logits, pass.outputs().best, true);
    return words_.rows(begin, count);
  }

  HostRows words_;
  Pocket& pocket_;
  cache::KvStore store_;
  TargetPass pass_;
};

TEST_F(TargetPassTest, RowsThatAskGetLogitsInTheirOrder) {
  const Ids a = text(5, 1), b = text(70, 2), c = text(1, 3);
  const Ids pages_a = {3}, pages_b = {9, 1}, pages_c = {4};
  ops::WorkspaceFrame frame(pocket_.exec().workspace());
  pass_.add(a, 0, pages_a, 2);
  pass_.add(b, 0, pages_b, 0);
  pass_.add(c, 0, pages_c, 1);
  pass_.run(pocket_.exec(), frame);
  EXPECT_EQ(pass_.rows().rows(), 76);
  EXPECT_EQ(pass_.outputs().features.dim(0), 76);
  EXPECT_EQ(pass_.outputs().features.dim(1), pocket_.draft_config().feature_width());
  const RowLogits together = logits(pass_, 0, 3);
  ASSERT_EQ(together.argmax.size(), 3U);
  std::vector<std::vector<float>> rows;
  for (int64_t i = 0; i < 3; ++i) {
    rows.push_back(row(together, i));
    EXPECT_EQ(together.argmax[static_cast<size_t>(i)], argmax(rows.back())) << i;
    for (const float logit : rows.back()) ASSERT_TRUE(std::isfinite(logit));
  }
  EXPECT_NE(rows[0], rows[1]);
  EXPECT_EQ(row(logits(pass_, 2, 1), 0), rows[2]) << "a view from the third on";

  // The same sequences alone, elsewhere in the cache.
  const Ids other_pages = {11};
  pass_.clear();
  pass_.add(a, 0, other_pages, 2);
  pass_.run(pocket_.exec(), frame);
  EXPECT_EQ(row(logits(pass_, 0, 2), 0), rows[0]);
  EXPECT_EQ(row(logits(pass_, 0, 2), 1), rows[1]);
  pass_.clear();
  pass_.add(c, 0, other_pages, 1);
  pass_.run(pocket_.exec(), frame);
  EXPECT_EQ(row(logits(pass_, 0, 1), 0), rows[2]);
}

TEST_F(TargetPassTest, NoRowsAndNoLogitsAreValid) {
  ops::WorkspaceFrame frame(pocket_.exec().workspace());
  pass_.run(pocket_.exec(), frame);
  EXPECT_FALSE(pass_.outputs().features.defined());
  const Ids a = text(3, 1), pages = {2};
  pass_.add(a, 0, pages, 0);
  pass_.run(pocket_.exec(), frame);
  EXPECT_EQ(pass_.outputs().features.dim(0), 3);
  EXPECT_EQ(pass_.outputs().best.dim(0), 0);
}

TEST_F(TargetPassTest, WithoutCapturesThereAreNoFeaturesAndTheSameLogits) {
  TargetModel bare = pocket_.target(store_);
  bare.capture_layers.clear();
  TargetPass plain(std::move(bare), Pocket::kPageSize);
  const Ids a = text(9, 4), pages = {2}, other = {5};
  ops::WorkspaceFrame frame(pocket_.exec().workspace());
  plain.add(a, 0, pages, 1);
  plain.run(pocket_.exec(), frame);
  EXPECT_FALSE(plain.outputs().features.defined());
  pass_.add(a, 0, other, 1);
  pass_.run(pocket_.exec(), frame);
  const std::vector<float> bare_row = row(logits(plain, 0, 1), 0);
  EXPECT_EQ(bare_row, row(logits(pass_, 0, 1), 0));
}

}  // namespace
}  // namespace strobe::engine
