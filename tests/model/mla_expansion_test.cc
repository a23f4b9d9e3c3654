// The expanded form of latent attention against the absorbed one, on random weights of odd shapes: alone, in company
// and in chunks, on everything that this machine can run kernels on; and when and with how much memory it is used.
#include "model/mla_expansion.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "golden.h"
#include "model/layers.h"
#include "tables.h"

namespace strobe::model {
namespace {

constexpr MlaRecipe kKimi{.heads = 64, .q_lora = 1536, .latent = 512, .nope = 128, .rope = 64, .v = 128};
constexpr MlaRecipe kPocket{.heads = 8, .q_lora = 128, .latent = 512, .nope = 64, .rope = 64, .v = 64};
constexpr int64_t kMib = int64_t{1} << 20;

TEST(MlaExpansion, PaysFromSoManyRows) {
  EXPECT_EQ(expansion_pays_from(kKimi), 171);
  EXPECT_EQ(expansion_pays_from(kPocket), 74);
  for (const MlaRecipe& mla : {kKimi, kPocket, MlaRecipe{.latent = 48, .nope = 24, .rope = 16, .v = 40},
                               MlaRecipe{.latent = 64, .nope = 64, .rope = 32, .v = 63},
                               MlaRecipe{.latent = 100, .nope = 10, .rope = 8, .v = 90}}) {
    const auto absorbed = [&](int64_t rows) { return rows * (2 * mla.latent + mla.rope); };
    const auto expanded = [&](int64_t rows) {
      return rows * (mla.nope + mla.rope + mla.v) + mla.latent * (mla.nope + mla.v);
    };
    const int64_t from = expansion_pays_from(mla);
    EXPECT_LT(expanded(from), absorbed(from));
    EXPECT_GE(expanded(from - 1), absorbed(from - 1)) << from;
  }
}

TEST(MlaExpansion, NeverPaysWhereHeadsAreAsLargeAsTheLatent) {
  EXPECT_EQ(expansion_pays_from({.heads = 4, .latent = 64, .nope = 64, .rope = 32, .v = 64}), 0);
  EXPECT_EQ(expansion_pays_from({.heads = 4, .latent = 64, .nope = 100, .rope = 32, .v = 64}), 0);
  EXPECT_EQ(expansion_pays_from({.heads = 4, .latent = 512, .nope = 600, .rope = 64, .v = 64}), 0)
      << "keys larger than kernels take";
}

TEST(MlaExpansion, HeadsAreTakenAsMemoryAllows) {
  const MlaExpansion gpu{.min_rows = 171, .kv_bytes = 512 * kMib};
  // 640 bytes a key, value and head.
  EXPECT_EQ(expanded_heads_at_once(kKimi, gpu, 1, DType::kBf16), 64);
  EXPECT_EQ(expanded_heads_at_once(kKimi, gpu, 8192, DType::kBf16), 64);
  EXPECT_EQ(expanded_heads_at_once(kKimi, gpu, 16384, DType::kBf16), 48) << "51 fit: whole eights";
  EXPECT_EQ(expanded_heads_at_once(kKimi, gpu, 131072, DType::kBf16), 6);
  EXPECT_EQ(expanded_heads_at_once(kKimi, gpu, 262144, DType::kBf16), 3);
  EXPECT_EQ(expanded_heads_at_once(kKimi, gpu, 10000000, DType::kBf16), 1);
  EXPECT_EQ(expanded_heads_at_once(kKimi, gpu, 8192, DType::kF32), 48);
}

// Whatever the number of keys up to the longest, it fits.
TEST(MlaExpansion, TheWorkspaceHoldsEveryLength) {
  for (const int64_t kv_bytes : {kMib, 64 * kMib, 512 * kMib}) {
    const MlaExpansion expansion{.min_rows = 171, .kv_bytes = kv_bytes};
    for (const int64_t longest : {200, 4096, 262144}) {
      const int64_t planned = expansion_workspace_bytes(kKimi, expansion, 512, longest, DType::kBf16);
      for (int64_t keys = 200; keys <= longest; keys = keys * 3 / 2) {
        const int64_t heads = expanded_heads_at_once(kKimi, expansion, keys, DType::kBf16);
        const int64_t taken = keys * heads * 320 * 2 + keys * 512 * 2 + 512 * int64_t{64} * 192 * 2;
        EXPECT_LE(taken, planned) << keys << " of " << longest << ", " << kv_bytes;
      }
    }
  }
  EXPECT_EQ(expansion_workspace_bytes(kKimi, {.min_rows = 171, .kv_bytes = 512 * kMib}, 512, 1000, DType::kBf16),
            int64_t{1000} * 64 * 320 * 2 + 1000 * 512 * 2 + int64_t{512} * 64 * 192 * 2)
      << "no more than all heads of the longest context";
}

// One layer's attention with random weights, and a cache full of NaN.
class Layer {
 public:
  static constexpr int32_t kPageSize = 16;
  static constexpr int32_t kPages = 40;
  static constexpr int64_t kHidden = 64;

  Layer(const Platform& platform, DType kv)
      : pool_(2),
        kernels_(platform.open(pool_)),
        workspace_(kernels_->memory()),
        exec_(*kernels_, workspace_),
        arena_(kernels_->forms(), kernels_->memory()),
        store_({.layers = 1, .dim = kMla.latent + kMla.rope, .dtype = kv}, kPages, kPageSize, {}, kernels_->memory()) {
    recipe_.hidden = kHidden;
    recipe_.rope = {.dim = kMla.rope, .style = kernel::RopeStyle::kInterleaved};
    recipe_.layers = {{.attention = kMla}};
    rope_ = make_rope_table(recipe_.rope, kPages * kPageSize, arena_);
    weights_.q_b = matrix(kMla.heads * (kMla.nope + kMla.rope), kHidden, 0.2F);
    weights_.kv_a = matrix(kMla.latent + kMla.rope, kHidden, 0.2F);
    std::vector<float> ones(static_cast<size_t>(kMla.latent), 1.0F);
    weights_.kv_a_norm = arena_.copy(Tensor(ones.data(), DType::kF32, {kMla.latent}));
    for (int64_t h = 0; h < kMla.heads; ++h) add_head();
    weights_.o = matrix(kHidden, kMla.heads * kMla.v, 0.1F);
    for (int32_t page = 0; page < kPages; ++page) store_.poison(page);
  }

  // A sequence's rows of a call.
  struct Rows {
    int32_t salt = 0;  // which numbers
    int32_t first = 0;
    int32_t count = 0;
    std::vector<int32_t> pages;
  };

  // What attention adds to nothing: [rows, hidden].
  std::vector<float> run(const std::vector<Rows>& sequences, const MlaExpansion& expansion) {
    recipe_.expansion = expansion;
    engine::RowList list(kPageSize);
    std::vector<float> x;
    for (const Rows& rows : sequences) {
      const std::vector<int32_t> ids(static_cast<size_t>(rows.count), 0);
      list.add(ids, rows.first, rows.pages);
      for (int32_t p = rows.first; p < rows.first + rows.count; ++p) {
        std::mt19937 random(static_cast<uint32_t>(rows.salt * 1000 + p));
        for (int64_t i = 0; i < kHidden; ++i) x.push_back(to_float(to_bf16(normal_(random))));
      }
    }
    ops::WorkspaceFrame frame(workspace_);
    const int64_t tokens = list.rows();
    std::vector<float> nothing(static_cast<size_t>(tokens * kHidden), 0.0F);
    const Tensor given = ops::to_device(exec_, frame, Tensor(x.data(), DType::kF32, {tokens, kHidden}));
    const Tensor input = frame.tensor(exec_.activation(), {tokens, kHidden});
    ops::copy(exec_, given, input);
    const Tensor zeros = ops::to_device(exec_, frame, Tensor(nothing.data(), DType::kF32, {tokens, kHidden}));
    const Tensor h = frame.tensor(DType::kF32, {tokens, kHidden});
    ops::copy(exec_, zeros, h);
    const engine::RowList::Placed placed = list.place(exec_, frame, {}, expansion.min_rows);
    const LayerContext context{recipe_, rope_, store_, placed.batch, 0};
    mla_attention(exec_, context, kMla, weights_, input, h);
    std::vector<std::byte> storage;
    const auto* numbers = ops::to_host(exec_, h, storage).as<float>();
    return {numbers, numbers + tokens * kHidden};
  }

  // No dimension is a multiple of another, three heads.
  static constexpr MlaRecipe kMla{.heads = 3, .latent = 48, .nope = 20, .rope = 16, .v = 24, .scale = 0.2F};

 private:
  std::vector<Bf16> numbers(int64_t count, float deviation) {
    std::vector<Bf16> list(static_cast<size_t>(count));
    for (Bf16& number : list) number = to_bf16(deviation * normal_(random_));
    return list;
  }
  QuantTensor pack(const std::vector<Bf16>& list, int64_t out, int64_t in) {
    return arena_.pack({.format = WeightFormat::kBf16, .out = out, .in = in, .data = list.data()});
  }
  QuantTensor matrix(int64_t out, int64_t in, float deviation) { return pack(numbers(out * in, deviation), out, in); }
  void add_head() {
    const std::vector<Bf16> keys = numbers(kMla.nope * kMla.latent, 0.2F);
    std::vector<Bf16> transposed(keys.size());
    for (int64_t i = 0; i < kMla.nope; ++i) {
      for (int64_t j = 0; j < kMla.latent; ++j) {
        transposed[static_cast<size_t>(j * kMla.nope + i)] = keys[static_cast<size_t>(i * kMla.latent + j)];
      }
    }
    weights_.to_latent.push_back(pack(transposed, kMla.latent, kMla.nope));
    weights_.latent_keys.push_back(pack(keys, kMla.nope, kMla.latent));
    weights_.from_latent.push_back(matrix(kMla.v, kMla.latent, 0.2F));
  }

  std::mt19937 random_{7};
  std::normal_distribution<float> normal_;
  WorkerPool pool_;
  std::unique_ptr<kernel::Kernels> kernels_;
  ops::Workspace workspace_;
  ops::Exec exec_;
  ops::WeightArena arena_;
  cache::KvStore store_;
  Recipe recipe_;
  ops::RopeTable rope_;
  MlaWeights weights_;
};

class MlaForms : public testing::TestWithParam<std::tuple<const Platform*, DType>> {
 protected:
  static const Platform& platform() { return *std::get<0>(GetParam()); }
  static bool reference() { return platform().activation == DType::kF32; }
  static DType kv() {
    const DType kv = std::get<1>(GetParam());
    return kv == DType::kBf16 && reference() ? DType::kF32 : kv;
  }
  // Both read the same stored rows. The reference rounds nothing in between (sums are in double, results in f32); the
  // others round queries, keys and values to bf16 (2^-9) in different places.
  static double tolerance() { return reference() ? 2e-6 : 1e-2; }
  static std::vector<int32_t> pages(int32_t begin, int32_t count) {
    std::vector<int32_t> list;
    for (int32_t i = 0; i < count; ++i) list.push_back((begin + i) * 7 % (Layer::kPages - 1) + 1);
    return list;
  }
  static void expect_close(const std::vector<float>& actual, const std::vector<float>& expected) {
    TensorError error;
    error.add(actual, expected);
    EXPECT_LE(error.relative(), tolerance());
    EXPECT_GT(error.relative(), 0) << "the same bytes: nothing was compared but a form with itself";
  }
  static std::vector<float> part(const std::vector<float>& rows, int64_t begin, int64_t count) {
    return {rows.begin() + begin * Layer::kHidden, rows.begin() + (begin + count) * Layer::kHidden};
  }
};

constexpr MlaExpansion kAbsorbed;
constexpr MlaExpansion kExpanded{.min_rows = 40, .kv_bytes = kMib};

TEST_P(MlaForms, AreTheSameFormula) {
  Layer layer(platform(), kv());
  for (const int32_t count : {40, 129, 300}) {
    const std::vector<Layer::Rows> rows = {{.salt = count, .count = count, .pages = pages(0, 19)}};
    const std::vector<float> absorbed = layer.run(rows, kAbsorbed), expanded = layer.run(rows, kExpanded);
    expect_close(expanded, absorbed);
    // Head by head, and from one row on, give the same bytes.
    EXPECT_EQ(layer.run(rows, {.min_rows = count, .kv_bytes = 1}), expanded);
    EXPECT_EQ(layer.run(rows, {.min_rows = count, .kv_bytes = count * int64_t{60 * 2 * 2}}), expanded);
    EXPECT_EQ(layer.run(rows, {.min_rows = count + 1, .kv_bytes = kMib}), absorbed) << "too few rows";
  }
}

// A chunk attends to what the chunks before it have stored, however they were computed.
TEST_P(MlaForms, InChunks) {
  Layer layer(platform(), kv());
  const auto list = pages(3, 19);
  const auto chunk = [&](int32_t first, int32_t count) {
    return std::vector<Layer::Rows>{{.salt = 5, .first = first, .count = count, .pages = list}};
  };
  const std::vector<float> whole = layer.run(chunk(0, 290), kExpanded);
  // What is stored follows from attention's inputs: cutting a prompt changes the order of sums at most.
  for (const int32_t cut : {45, 64, 100, 250}) {
    const std::vector<float> first = layer.run(chunk(0, cut), kExpanded);
    const std::vector<float> second = layer.run(chunk(cut, 290 - cut), kExpanded);
    TensorError error;
    error.add(first, part(whole, 0, cut));
    error.add(second, part(whole, cut, 290 - cut));
    EXPECT_LE(error.relative(), tolerance()) << cut;
    expect_close(second, layer.run(chunk(cut, 290 - cut), kAbsorbed));
  }
}

TEST_P(MlaForms, PromptsBesideShortRequests) {
  Layer layer(platform(), kv());
  const Layer::Rows context{.salt = 1, .count = 30, .pages = pages(0, 3)};
  Layer::Rows verify = context;
  verify.first = 30;
  verify.count = 8;
  const Layer::Rows prompt{.salt = 2, .count = 100, .pages = pages(3, 7)};
  const Layer::Rows other_prompt{.salt = 3, .count = 60, .pages = pages(10, 4)};
  const Layer::Rows decode{.salt = 4, .count = 1, .pages = pages(14, 1)};
  layer.run({context}, kAbsorbed);
  const std::vector<float> verify_alone = layer.run({verify}, kAbsorbed), decode_alone = layer.run({decode}, kAbsorbed);
  const std::vector<float> prompt_alone = layer.run({prompt}, kExpanded);
  const std::vector<float> other_alone = layer.run({other_prompt}, kExpanded);

  const auto expect_parts = [&](const std::vector<Layer::Rows>& sequences,
                                const std::vector<std::vector<float>>& expected) {
    const std::vector<float> together = layer.run(sequences, kExpanded);
    int64_t row = 0;
    for (size_t i = 0; i < sequences.size(); row += sequences[i++].count) {
      EXPECT_EQ(part(together, row, sequences[i].count), expected[i]) << "sequence " << i << " in company";
    }
  };
  expect_parts({verify, prompt}, {verify_alone, prompt_alone});
  expect_parts({prompt, verify}, {prompt_alone, verify_alone});
  expect_parts({prompt, other_prompt}, {prompt_alone, other_alone});
  expect_parts({decode, verify, prompt}, {decode_alone, verify_alone, prompt_alone});
  expect_parts({decode, prompt, verify, other_prompt}, {decode_alone, prompt_alone, verify_alone, other_alone});
  expect_parts({prompt, decode, other_prompt, verify}, {prompt_alone, decode_alone, other_alone, verify_alone});
}

INSTANTIATE_TEST_SUITE_P(Stores, MlaForms,
                         testing::Combine(testing::ValuesIn(platforms_here()),
                                          testing::Values(DType::kBf16, DType::kE4m3)),
                         [](const auto& param_info) {
                           return fmt::format("{}_{}", std::get<0>(param_info.param)->name,
                                              to_string(std::get<1>(param_info.param)));
                         });

}  // namespace
}  // namespace strobe::model
