// Drawing on a device against kernel/ref, token for token, and what holds on every device.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "kernel/draw_law.h"
#include "places.h"

namespace strobe::ops {
namespace {

using Ids = std::vector<int32_t>;
using kernel::DrawParams;

constexpr float kInf = std::numeric_limits<float>::infinity();

// A call's inputs on the host.
struct Call {
  Ids block_tokens;
  std::vector<DrawParams> params;
  int64_t block_rows = 0;
  int64_t columns = 0;
  std::vector<float> logits;
  Ids positions, best;

  [[nodiscard]] int64_t rows() const { return static_cast<int64_t>(block_tokens.size()) * block_rows; }
  // Of one sequence alone.
  [[nodiscard]] Call only(int64_t s) const {
    const auto part = [&](const auto& list, int64_t each) {
      return std::remove_cvref_t<decltype(list)>(list.begin() + s * each, list.begin() + (s + 1) * each);
    };
    return {.block_tokens = part(block_tokens, 1),
            .params = part(params, 1),
            .block_rows = block_rows,
            .columns = columns,
            .logits = part(logits, block_rows * columns),
            .positions = part(positions, block_rows),
            .best = part(best, block_rows)};
  }
};

Ids best_of(const Call& call) {
  Ids best(static_cast<size_t>(call.rows()));
  WorkerPool pool(1);
  kernel::ref_kernels().argmax(pool, {.logits = call.logits.data(),
                                      .stride = call.columns,
                                      .ids = best.data(),
                                      .rows = call.rows(),
                                      .columns = call.columns});
  return best;
}

DrawParams some_params(std::mt19937& random, int64_t columns) {
  const auto chance = [&] { return random() % 2 == 0; };
  DrawParams params{.temperature = 0.3F + 0.1F * static_cast<float>(random() % 20), .seed = random()};
  if (chance()) params.top_k = 1 + static_cast<int32_t>(random() % static_cast<uint64_t>(chance() ? 50 : 2 * columns));
  if (chance()) params.top_p = 0.001F * static_cast<float>(1 + random() % 999);
  if (chance()) params.min_p = 0.001F * static_cast<float>(random() % 300);
  return params;
}

// Logits of several kinds: even, peaked, on a coarse grid (many ties), with holes of NaN and -infinity.
void fill_row(float* logits, int64_t columns, std::mt19937& random) {
  std::normal_distribution<float> normal(0, random() % 2 == 0 ? 1.0F : 4.0F);
  const auto kind = random() % 4;
  for (int64_t c = 0; c < columns; ++c) {
    logits[c] = normal(random);
    if (kind == 1) logits[c] = std::round(logits[c]);
    if (kind == 2 && random() % 3 == 0) logits[c] = random() % 2 == 0 ? -kInf : std::nanf("");
  }
  if (kind == 3) logits[random() % static_cast<uint64_t>(columns)] = 14;
}

Call some_call(int64_t sequences, int64_t block_rows, int64_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  Call call{.block_rows = block_rows, .columns = columns};
  for (int64_t s = 0; s < sequences; ++s) {
    call.block_tokens.push_back(
        static_cast<int32_t>(s % 4 == 3 ? random() % static_cast<uint64_t>(block_rows + 1) : block_rows));
    call.params.push_back(s % 5 == 4 ? DrawParams{} : some_params(random, columns));
  }
  call.logits.resize(static_cast<size_t>(call.rows() * columns));
  for (int64_t r = 0; r < call.rows(); ++r) fill_row(&call.logits[static_cast<size_t>(r * columns)], columns, random);
  call.best = best_of(call);
  for (int64_t r = 0; r < call.rows(); ++r) {
    call.positions.push_back(static_cast<int32_t>(random() % 100000));
  }
  return call;
}

Ids by_reference(const Call& call) {
  Ids tokens = call.best;
  WorkerPool pool(1);
  kernel::ref::draw_tokens(pool, {.blocks = {.block_tokens = call.block_tokens.data(),
                                             .sequences = static_cast<int64_t>(call.block_tokens.size()),
                                             .block_rows = call.block_rows},
                                  .params = call.params.data(),
                                  .logits = call.logits.data(),
                                  .stride = call.columns,
                                  .columns = call.columns,
                                  .positions = call.positions.data(),
                                  .tokens = tokens.data()});
  return tokens;
}

class Draw : public testing::TestWithParam<DeviceKind> {
 protected:
  Draw() : pool_(2), place_(pool_, GetParam()) {}

  Ids run(const Call& call, const Ids& row_begin = {}) {
    WorkspaceFrame frame(*place_.workspace);
    const auto place = [&](const void* from, DType dtype, const Shape& shape) {
      return to_device(*place_.exec, frame, Tensor(const_cast<void*>(from), dtype, shape));
    };
    const auto ids = [&](const Ids& list) {
      return place(list.data(), DType::kI32, {static_cast<int64_t>(list.size())});
    };
    const auto words = static_cast<int64_t>(call.params.size() * sizeof(DrawParams) / sizeof(int32_t));
    const Tensor params = place(call.params.data(), DType::kI32, {words});
    const Tensor tokens = frame.tensor(DType::kI32, {call.rows()});
    place_.exec->memory().upload(tokens.data(), call.best.data(), call.rows() * 4);
    draw_tokens(*place_.exec, {.blocks = {.block_tokens = ids(call.block_tokens).as<int32_t>(),
                                          .sequences = static_cast<int64_t>(call.block_tokens.size()),
                                          .block_rows = call.block_rows},
                               .params = reinterpret_cast<const DrawParams*>(params.data()),
                               .row_begin = row_begin.empty() ? nullptr : ids(row_begin).as<int32_t>(),
                               .logits = place(call.logits.data(), DType::kF32, {call.rows(), call.columns}),
                               .positions = ids(call.positions),
                               .tokens = tokens});
    const auto* said = to_host(*place_.exec, tokens, storage_).as<int32_t>();
    return {said, said + call.rows()};
  }

  WorkerPool pool_;
  Place place_;
  std::vector<std::byte> storage_;
};

// On the CPU the reference itself runs.
class DrawOnDevice : public Draw {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DrawOnDevice);

TEST_P(DrawOnDevice, IsTheReferenceTokenForToken) {
  // Fewer columns than a cluster has blocks, than it has threads, more than shared memory holds; the largest.
  for (const int64_t columns : {1, 2, 7, 9, 100, 1000, 8191, 20480, 163840, 196608, 196609, 262144}) {
    const int64_t sequences = columns > 20000 ? 5 : 60, block_rows = columns > 20000 ? 3 : 4;
    for (uint32_t seed = 0; seed < (columns > 20000 ? 3U : 10U); ++seed) {
      const Call call = some_call(sequences, block_rows, columns, seed + static_cast<uint32_t>(columns));
      ASSERT_EQ(run(call), by_reference(call)) << columns << " columns, seed " << seed;
    }
  }
}

TEST_P(DrawOnDevice, FiltersCutWhereTheReferenceCuts) {
  // Every token as likely: ties decide by id; then weights of few values.
  for (const int64_t columns : {50, 5000, 9000}) {
    Call call = some_call(40, 2, columns, 3);
    for (size_t i = 0; i < call.logits.size(); ++i) call.logits[i] = i % 3 == 0 ? 0.0F : -1.0F;
    for (int64_t s = 0; s < 40; ++s) {
      DrawParams& params = call.params[static_cast<size_t>(s)];
      params = {.temperature = 1, .seed = static_cast<uint64_t>(s)};
      if (s % 4 == 0) params.top_k = static_cast<int32_t>(1 + s % 7 * columns / 8);
      if (s % 4 == 1) params.top_p = 0.02F * static_cast<float>(s + 1);
      if (s % 4 == 2) params.min_p = 0.36F + 0.0004F * static_cast<float>(s);
      if (s % 4 == 3) params = {.temperature = 1, .top_p = 0.9F, .min_p = 0.1F, .top_k = 40, .seed = params.seed};
    }
    call.best = best_of(call);
    EXPECT_EQ(run(call), by_reference(call)) << columns;
  }
}

// Small enough for a race checker: each filter with few weights where it cuts and with more than one block sorts, of
// many values or of one.
TEST_P(DrawOnDevice, EveryWayToACut) {
  for (const int64_t columns : {40, 2600}) {
    for (const bool all_equal : {false, true}) {
      Call call = some_call(6, 1, columns, 9);
      call.block_tokens = {1, 1, 1, 1, 1, 1};
      const auto most = static_cast<int32_t>(columns - columns / 10);
      call.params = {{.temperature = 1},
                     {.temperature = 1, .top_k = 5},
                     {.temperature = 1, .top_p = 0.6F, .top_k = 30},
                     {.temperature = 2, .top_p = 0.9F},
                     {.temperature = 1, .min_p = 0.01F},
                     {.temperature = 30, .top_p = 0.95F, .top_k = most}};
      for (size_t s = 0; s < 6; ++s) call.params[s].seed = s + 1;
      if (all_equal) std::fill(call.logits.begin(), call.logits.end(), 0.5F);
      call.best = best_of(call);
      EXPECT_EQ(run(call), by_reference(call)) << columns << " columns, all equal: " << all_equal;
    }
  }
}

TEST_P(Draw, ASequenceDrawsTheSameAloneAndAmongOthers) {
  const Call call = some_call(24, 4, 999, 5);
  const Ids together = run(call);
  EXPECT_NE(together, call.best);
  for (int64_t s = 0; s < 24; ++s) {
    const Ids expected(together.begin() + s * 4, together.begin() + (s + 1) * 4);
    EXPECT_EQ(run(call.only(s)), expected) << s;
  }
}

// What a verify pass draws at a row is what a plain step draws there.
TEST_P(Draw, ARowDrawsTheSameInABlockAndAlone) {
  const Call call = some_call(24, 4, 999, 5);
  const Ids together = run(call);
  for (int64_t r = 0; r < call.rows(); ++r) {
    const auto row = static_cast<size_t>(r), s = static_cast<size_t>(r / 4);
    if (r % 4 >= call.block_tokens[s]) continue;
    const Call alone{.block_tokens = {1},
                     .params = {call.params[s]},
                     .block_rows = 1,
                     .columns = call.columns,
                     .logits = {call.logits.begin() + r * 999, call.logits.begin() + (r + 1) * 999},
                     .positions = {call.positions[row]},
                     .best = {call.best[row]}};
    EXPECT_EQ(run(alone), Ids{together[row]}) << r;
  }
}

TEST_P(Draw, RowsMayLieAnywhere) {
  const Call call = some_call(6, 4, 500, 8);
  const Ids expected = run(call);
  // The same sequences, the last one's rows first.
  Call turned = call;
  Ids row_begin;
  const auto move = [&](auto& to, const auto& from, int64_t each, int64_t s) {
    std::copy_n(from.begin() + s * 4 * each, 4 * each, to.begin() + (5 - s) * 4 * each);
  };
  for (int32_t s = 0; s < 6; ++s) {
    row_begin.push_back((5 - s) * 4);
    move(turned.logits, call.logits, 500, s);
    move(turned.positions, call.positions, 1, s);
    move(turned.best, call.best, 1, s);
  }
  const Ids tokens = run(turned, row_begin);
  for (size_t r = 0; r < 24; ++r) EXPECT_EQ(tokens[(5 - r / 4) * 4 + r % 4], expected[r]) << r;
}

TEST_P(Draw, WhoDoesNotDrawKeepsItsTokens) {
  Call call = some_call(4, 3, 300, 6);
  call.params[0] = {};                  // greedy
  call.params[1] = {.temperature = 1};  // behind the block's tokens
  call.block_tokens = {3, 1, 3, 3};
  call.params[2] = call.params[3] = {.temperature = 1};
  for (int64_t c = 0; c < 300; ++c) call.logits[static_cast<size_t>(6 * 300 + c)] = -kInf;
  call.logits[9 * 300 + 17] = kInf;
  call.best = best_of(call);
  call.best[4] = call.best[5] = -5;
  const Ids tokens = run(call);
  for (const size_t r : {0, 1, 2, 4, 5, 6, 9}) EXPECT_EQ(tokens[r], call.best[r]) << r;
}

TEST_P(Draw, TokensComeAsOftenAsTheirWeights) {
  constexpr int64_t kSequences = 6000;
  Call call{.block_rows = 2, .columns = 4};
  for (int64_t s = 0; s < kSequences; ++s) {
    call.block_tokens.push_back(2);
    call.params.push_back({.temperature = 1, .seed = static_cast<uint64_t>(s)});
    for (int row = 0; row < 2; ++row) {
      for (const double p : {0.1, 0.2, 0.3, 0.4}) call.logits.push_back(static_cast<float>(std::log(p)));
      call.positions.push_back(row);
    }
  }
  call.best = best_of(call);
  const Ids tokens = run(call);
  for (const size_t row : {0, 1}) {
    std::vector<double> counts(4);
    for (size_t s = 0; s < kSequences; ++s) ++counts[static_cast<size_t>(tokens[2 * s + row])];
    for (size_t i = 0; i < 4; ++i) {
      const double p = 0.1 * static_cast<double>(i + 1);
      EXPECT_NEAR(counts[i] / kSequences, p, 5 * std::sqrt(p * (1 - p) / kSequences))
          << "row " << row << ", token " << i;
    }
  }
}

TEST_P(Draw, NoSequencesAreValid) {
  EXPECT_EQ(run({.block_rows = 8, .columns = 5}), Ids{});
}

INSTANTIATE_TEST_SUITE_P(Devices, Draw, testing::ValuesIn(devices_here()), device_name);

INSTANTIATE_TEST_SUITE_P(Devices, DrawOnDevice, testing::ValuesIn(gpus_here()), device_name);

}  // namespace
}  // namespace strobe::ops
