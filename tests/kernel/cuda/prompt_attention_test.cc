// Attention of a prompt's chunk on Hopper (sm90/prompt_attention.h): the right numbers, the same bytes for a row
// however the prompt is cut into chunks.
#include "kernel/cuda/sm90/prompt_attention.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "kernel/cuda/generic.h"
#include "kernel/cuda_device.h"
#include "products.h"

namespace strobe::kernel {
namespace {

using cuda::DeviceMemory;
using cuda::sm90::prompt_attention;
using cuda::sm90::takes_prompt;

struct Sizes {
  int64_t key, value;
};
constexpr Sizes kSizes[] = {{192, 128}, {128, 128}, {128, 64}, {64, 64}};

using Attention = std::function<void(const GqaAttention&)>;
void attend(const GqaAttention& call) {
  prompt_attention(call, nullptr);
}

// A prompt of `length` positions. Slots behind what a call may see, and rows beside the call's, are NaN.
class PromptCase {
 public:
  PromptCase(const Sizes& sizes, int64_t heads, int64_t length, float deviation = 1)
      : sizes_(sizes),
        heads_(heads),
        length_(length),
        queries(DType::kBf16, length, heads * sizes.key),
        keys(DType::kBf16, length, heads * sizes.key),
        values(DType::kBf16, length, heads * sizes.value) {
    Random random(static_cast<uint64_t>(length * 8 + heads));
    queries.fill(random, deviation);
    keys.fill(random);
    values.fill(random);
  }

  // Positions [first, first + count) as a chunk of their own, in a page that is `behind` slots longer than its keys.
  [[nodiscard]] std::vector<std::string> run(const Attention& attention, int64_t first, int64_t count,
                                             int64_t behind = 0) const {
    constexpr int64_t kBefore = 3, kAfter = 2;
    constexpr float kUntouched = 7;
    const int64_t seen = first + count;
    Matrix q(DType::kBf16, kBefore + count + kAfter, heads_ * sizes_.key, 8);
    for (int64_t r = 0; r < count; ++r) copy_row(queries, first + r, q, kBefore + r);
    Matrix out(DType::kBf16, q.rows(), heads_ * sizes_.value, 16);
    for (int64_t r = 0; r < out.rows(); ++r) out.fill_row(r, kUntouched);
    const DeviceMemory q_there = upload(q);
    const DeviceMemory k_there = upload(store_of(keys, seen, behind));
    const DeviceMemory v_there = upload(store_of(values, seen, behind));
    const DeviceMemory out_there = upload(out);
    const DeviceMemory page(std::vector<int32_t>{0});
    const auto request = [&](int64_t row_count) {
      return AttentionRequest{.row_begin = static_cast<int32_t>(kBefore),
                              .row_count = static_cast<int32_t>(row_count),
                              .first_position = static_cast<int32_t>(first),
                              .key_count = static_cast<int32_t>(seen),
                              .pages = page.as<int32_t>()};
    };
    const DeviceMemory requests(std::vector<AttentionRequest>{request(0), request(count)});
    GqaAttention call = call_of(count, seen + behind);
    call.q = {.data = q_there.data(), .dtype = DType::kBf16, .stride = q.stride()};
    call.k.data = k_there.data();
    call.v.data = v_there.data();
    call.requests = requests.as<AttentionRequest>();
    call.request_count = 2;
    call.out = {.data = out_there.data(), .dtype = DType::kBf16, .stride = out.stride()};
    call.rows = q.rows();
    EXPECT_TRUE(takes_prompt(call));
    attention(call);
    out_there.download(out.view().data, out_there.bytes());
    EXPECT_TRUE(out.gaps_intact());
    std::vector<std::string> rows = out.all_row_bytes();
    Matrix untouched(DType::kBf16, 1, out.columns());
    untouched.fill_row(0, kUntouched);
    for (int64_t r = 0; r < out.rows(); ++r) {
      if (r >= kBefore && r < kBefore + count) continue;
      EXPECT_EQ(rows[static_cast<size_t>(r)], untouched.row_bytes(0)) << r;
    }
    return {rows.begin() + kBefore, rows.begin() + kBefore + count};
  }

  // What `run` gives, against the reference; the sum of the terms' magnitudes is the reference's of absolute values.
  void expect_right(int64_t first, int64_t count, int64_t behind) const {
    SCOPED_TRACE(fmt::format("{} heads of {}/{}, rows {}..{}, {} slots more", heads_, sizes_.key, sizes_.value, first,
                             first + count, behind));
    Matrix magnitudes = values;
    for (int64_t r = 0; r < length_; ++r) {
      for (int64_t c = 0; c < values.columns(); ++c) magnitudes.put(r, c, std::fabs(values.at(r, c)));
    }
    const std::vector<float> expected = reference(values, first, count);
    const std::vector<float> terms = reference(magnitudes, first, count);
    Oracle oracle;
    for (size_t i = 0; i < expected.size(); ++i) {
      oracle.add(static_cast<double>(expected[i]), static_cast<double>(terms[i]));
    }
    const std::vector<std::string> rows = run(attend, first, count, behind);
    std::vector<float> result;
    for (const std::string& row : rows) {
      for (size_t i = 0; i < row.size(); i += 2) {
        Bf16 number{};
        std::memcpy(&number, row.data() + i, 2);
        result.push_back(to_float(number));
      }
    }
    EXPECT_TRUE(close(result, oracle, 1.25 * 0x1p-8, DType::kBf16));  // probabilities are bf16
  }

 private:
  static void copy_row(const Matrix& from, int64_t row, Matrix& to, int64_t to_row) {
    for (int64_t c = 0; c < from.columns(); ++c) to.put(to_row, c, from.at(row, c));
  }
  static Matrix store_of(const Matrix& all, int64_t seen, int64_t behind) {
    Matrix store(DType::kBf16, seen + behind, all.columns());
    for (int64_t r = 0; r < seen; ++r) copy_row(all, r, store, r);
    return store;
  }
  [[nodiscard]] GqaAttention call_of(int64_t rows, int64_t page_size) const {
    const auto slots = static_cast<int32_t>(page_size);
    return {.k = {.dtype = DType::kBf16, .dim = heads_ * sizes_.key, .page_size = slots},
            .v = {.dtype = DType::kBf16, .dim = heads_ * sizes_.value, .page_size = slots},
            .rows = rows,
            .heads = heads_,
            .kv_heads = heads_,
            .head_dim = sizes_.key,
            .value_dim = sizes_.value,
            .scale = 1 / std::sqrt(static_cast<float>(sizes_.key)),
            .prompt = true};
  }
  [[nodiscard]] std::vector<float> reference(const Matrix& v, int64_t first, int64_t count) const {
    GqaAttention call = call_of(count, length_);
    const int32_t page = 0;
    const AttentionRequest request{.row_count = static_cast<int32_t>(count),
                                   .first_position = static_cast<int32_t>(first),
                                   .key_count = static_cast<int32_t>(first + count),
                                   .pages = &page};
    const Matrix out(DType::kF32, count, v.columns());
    call.q = queries.view();
    call.q.data = static_cast<Bf16*>(call.q.data) + first * queries.stride();
    call.k.data = keys.view().data;
    call.v.data = v.view().data;
    call.requests = &request;
    call.request_count = 1;
    call.out = out.view();
    ref_kernels().gqa_attention(pool_of(2), call);
    return out.values();
  }

  Sizes sizes_;
  int64_t heads_;
  int64_t length_;

 public:
  // Open for tests that want special numbers: [length, heads * size].
  Matrix queries, keys, values;
};

TEST(PromptAttention, IsTheAttention) {
  int turn = 0;
  for (const Sizes& sizes : kSizes) {
    for (const int64_t first : {0, 1, 63, 100, 1000}) {
      for (const int64_t rows : {1, 63, 64, 65, 128, 200}) {
        ++turn;
        const PromptCase c(sizes, turn % 2 == 0 ? 1 : 3, first + rows);
        c.expect_right(first, rows, turn % 3 == 0 ? 0 : 40 * turn % 133);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

// Scores that differ by hundreds: the highest one moves far and often, and most probabilities are zero.
TEST(PromptAttention, ScoresFarApart) {
  for (const Sizes& sizes : kSizes) {
    const PromptCase c(sizes, 2, 530, 40);
    c.expect_right(270, 260, 1);
  }
}

// A chunk's rows have the bytes that they have when the whole prompt is one chunk.
TEST(PromptAttention, OneOrderForAnyChunk) {
  const PromptCase c(kSizes[0], 2, 700);
  const std::vector<std::string> whole = c.run(attend, 0, 700);
  for (const int64_t count : {1, 64, 100, 129, 256}) {
    for (int64_t first = 0; first + count <= 700; first += 171) {
      const std::vector<std::string> chunk = c.run(attend, first, count, count % 3);
      for (int64_t r = 0; r < count; ++r) {
        ASSERT_EQ(chunk[static_cast<size_t>(r)], whole[static_cast<size_t>(first + r)])
            << fmt::format("row {} of {} from {} on", r, count, first);
      }
    }
  }
}

// Queries that are not numbers spoil their own rows, keys that are not numbers the rows that see them.
TEST(PromptAttention, RowsDoNotSeeEachOther) {
  PromptCase c(kSizes[0], 1, 300);
  const std::vector<std::string> clean = c.run(attend, 0, 300);
  for (const int64_t r : {0, 70, 128, 201}) c.queries.fill_row(r, r % 4 == 0 ? std::nanf("") : INFINITY);
  c.keys.fill_row(250, std::nanf(""));
  const std::vector<std::string> poisoned = c.run(attend, 0, 300);
  for (size_t r = 0; r < 300; ++r) {
    const bool expected_clean = r < 250 && r != 0 && r != 70 && r != 128 && r != 201;
    EXPECT_EQ(poisoned[r] == clean[r], expected_clean) << r;
  }
}

TEST(PromptAttention, TakesWhatItCanAndNothingElse) {
  void* somewhere = reinterpret_cast<void*>(0x1000);
  const GqaAttention call{.q = {somewhere, DType::kBf16, 4 * 192},
                          .k = {.data = somewhere, .dtype = DType::kBf16, .dim = 4 * 192, .page_size = 77},
                          .v = {.data = somewhere, .dtype = DType::kBf16, .dim = 4 * 128, .page_size = 77},
                          .request_count = 1,
                          .out = {somewhere, DType::kBf16, 4 * 128},
                          .rows = 70,
                          .heads = 4,
                          .kv_heads = 4,
                          .head_dim = 192,
                          .value_dim = 128,
                          .scale = 0.07F,
                          .prompt = true};
  EXPECT_TRUE(takes_prompt(call));
  const auto changed = [&](auto change) {
    GqaAttention other = call;
    change(other);
    return takes_prompt(other);
  };
  const int32_t first = 0;
  EXPECT_TRUE(changed([](GqaAttention& a) { a.rows = 1; }));
  EXPECT_TRUE(changed([](GqaAttention& a) {
    a.head_dim = 128, a.value_dim = 0;
    a.k.dim = 4 * 128;
  }));
  EXPECT_FALSE(changed([](GqaAttention& a) { a.prompt = false; }));
  EXPECT_FALSE(changed([](GqaAttention& a) { a.causal = false; }));
  EXPECT_FALSE(changed([](GqaAttention& a) { a.window = 64; }));
  EXPECT_FALSE(changed([&](GqaAttention& a) { a.first_visible = &first; }));
  EXPECT_FALSE(changed([](GqaAttention& a) { a.kv_heads = 2; }));
  EXPECT_FALSE(changed([](GqaAttention& a) { a.value_dim = 0; }));
  EXPECT_FALSE(changed([](GqaAttention& a) { a.scale = -1; }));
  EXPECT_FALSE(changed([](GqaAttention& a) { a.q.dtype = DType::kF32; }));
  EXPECT_FALSE(changed([](GqaAttention& a) { a.out.dtype = DType::kF32; }));
  EXPECT_FALSE(changed([](GqaAttention& a) { a.k.dtype = DType::kE4m3; }));
  EXPECT_FALSE(changed([](GqaAttention& a) { a.v.dtype = DType::kE4m3; }));
  EXPECT_FALSE(changed([](GqaAttention& a) { a.q.stride += 4; }));
  EXPECT_FALSE(changed([](GqaAttention& a) { a.out.stride += 4; }));
  EXPECT_FALSE(changed([](GqaAttention& a) { a.q.data = reinterpret_cast<void*>(0x1008); }));
  EXPECT_FALSE(changed([](GqaAttention& a) { a.out.data = reinterpret_cast<void*>(0x1008); }));
  EXPECT_FALSE(changed([](GqaAttention& a) { a.v.data = reinterpret_cast<void*>(0x1008); }));
}

// A device gives it the calls of prompts, and no others.
TEST(PromptAttention, ADeviceGivesItPrompts) {
  const auto device = open_cuda_device(0, {.graphs = false});
  const PromptCase c(kSizes[1], 2, 300);
  const auto on_device = [&](bool prompt) {
    return [&, prompt](const GqaAttention& call) {
      GqaAttention changed = call;
      changed.prompt = prompt;
      device->gqa_attention(changed);
      device->wait();
    };
  };
  EXPECT_EQ(c.run(on_device(true), 100, 200), c.run(attend, 100, 200));
  const Attention generic = [](const GqaAttention& call) { cuda::gqa_attention(call, nullptr); };
  EXPECT_EQ(c.run(on_device(false), 100, 200), c.run(generic, 100, 200));
  EXPECT_NE(c.run(on_device(true), 100, 200), c.run(on_device(false), 100, 200));
}

}  // namespace
}  // namespace strobe::kernel
