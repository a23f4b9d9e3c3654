// What the CUDA kernels of every model promise beyond what the tests of all tables (device_table.cc) look at: their own
// fast shapes, one result from all kernels of a family, and graphs whose requests change between replays.
#include "kernel/cuda/generic.h"

#include <cmath>

#include "attention_case.h"
#include "kernel/cuda/device_memory.h"
#include "products.h"

namespace strobe::kernel {
namespace {

using cuda::DeviceMemory;

const CpuKernels& table() {
  return *tables_here().at(0);
}

// --- matrix products ------------------------------------------------------------------------------------------------

// The kernels for few and for many rows add in one order: the same bytes, for every number of rows.
TEST(GenericGemm, OneOrderForAnyNumberOfRows) {
  struct Shape {
    int64_t out, in, rows;
  };
  const Product product = [](const Gemm& call) { cuda::gemm(call, nullptr); };
  for (const auto& [out, in, rows] : {Shape{768, 256, 1100}, Shape{4096, 512, 200}, Shape{1544, 776, 520},
                                      Shape{256, 2048, 2300}, Shape{136, 7168, 4100}}) {
    const ProductCase products(out, in, rows);
    products.expect_one_order(product, {1, 7, 8, 9, 16, 17, 32, 33, 64, 65});
    EXPECT_EQ(products.multiply(product, 0, rows), products.multiply(product, 0, rows, true)) << out << " x " << in;
  }
}

// More problems than one launch takes, of several kinds.
TEST(GenericGemm, ManyProblemsInOneCall) {
  constexpr int kCount = 300;
  Random random(3);
  std::vector<Weight> weights;
  std::vector<Matrix> xs, ys;
  std::vector<GemmProblem> problems;
  for (int i = 0; i < kCount; ++i) {
    const WeightFormat format = i % 7 == 0   ? WeightFormat::kF32
                                : i % 5 == 0 ? WeightFormat::kNvfp4
                                             : WeightFormat::kBf16;
    const int64_t in = 16 * (1 + i % 3 * 20);
    weights.emplace_back(format, 3 + i % 30, in, random);
    xs.emplace_back(i % 2 == 0 ? DType::kBf16 : DType::kF32, i % 11, in).fill(random);
    ys.emplace_back(DType::kF32, i % 11, 3 + i % 30);
  }
  for (size_t i = 0; i < kCount; ++i) {
    problems.push_back({.x = xs[i].view(), .weight = weights[i].tensor(), .y = ys[i].view(), .rows = xs[i].rows()});
  }
  table().gemm(pool_of(1), {.problems = problems.data(), .count = kCount});
  for (size_t i = 0; i < kCount; ++i) {
    const Matrix alone(DType::kF32, ys[i].rows(), ys[i].columns());
    GemmProblem p = problems[i];
    p.y = alone.view();
    table().gemm(pool_of(1), {.problems = &p, .count = 1});
    ASSERT_EQ(alone.all_row_bytes(), ys[i].all_row_bytes()) << "problem " << i;
    ref_kernels().gemm(pool_of(1), {.problems = &p, .count = 1});
    Oracle oracle;
    for (const float value : alone.values())
      oracle.add(value, std::fabs(value) + static_cast<double>(p.weight.in) * 99);
    ASSERT_TRUE(close(ys[i].values(), oracle, tolerance_of(table()).sum)) << "problem " << i;
  }
}

// --- attention ------------------------------------------------------------------------------------------------------

// The shapes that have a kernel of their own.
std::vector<AttentionOptions> fast_shapes() {
  std::vector<AttentionOptions> all;
  for (const DType store : {DType::kBf16, DType::kE4m3}) {
    for (AttentionOptions o : {gqa_options(8, 2, 64), gqa_options(6, 1, 128), gqa_options(3, 3, 64)}) {
      o.store = store;
      o.store_scale = store == DType::kE4m3 ? 0.05F : 1.0F;
      all.push_back(o);
    }
  }
  return all;
}

TEST(GenericGqa, KeyCounts) {
  int turn = 0;
  for (AttentionOptions o : fast_shapes()) {
    for (const bool causal : {true, false}) {
      o.causal = causal;
      o.page_size = ++turn % 3 == 0 ? 1 : turn % 3 == 1 ? 16 : 64;
      expect_attention_key_counts(table(), o);
    }
  }
}

TEST(GenericGqa, ExtremeScores) {
  for (AttentionOptions o : fast_shapes()) {
    o.store_scale = o.store == DType::kE4m3 ? 0.0625F : 1.0F;
    expect_attention_extreme_scores(table(), o);
  }
}

TEST(GenericGqa, WindowsAndFirstVisible) {
  for (AttentionOptions o : fast_shapes()) {
    o.lengths = {200, 3, 64, 65, 1500};
    for (const int32_t window : {0, 1, 16, 63, 64, 65, 1000}) {
      for (const bool with_first : {false, true}) {
        o.window = window;
        o.causal = window > 0;
        o.first_visible = with_first ? std::vector<int32_t>{195, 0, 64, 1, 700} : std::vector<int32_t>{};
        const AttentionCase c(o, 100);
        std::vector<Chunk> chunks;
        for (int r = 0; r < 5; ++r) chunks.push_back(tail(o, r, r == 2 ? 64 : 8));
        expect_attention_right(table(), c, chunks, DType::kF32, DType::kBf16);
      }
    }
  }
}

TEST(GenericGqa, BatchInvariantOverLongContexts) {
  AttentionOptions o = gqa_options(8, 2, 64);
  o.lengths = {1025, 9, 2100};
  expect_attention_invariant(table(), o);
  o.causal = false;
  o.lengths = {1025, 9, 300};
  expect_attention_invariant(table(), o);
}

// What a later row of the same request stores never reaches the rows before it, not even as NaN.
TEST(GenericAttention, LaterPositionsMayBeNan) {
  std::vector<AttentionOptions> shapes = fast_shapes();
  shapes.push_back({.heads = 8, .key_dim = 576, .value_dim = 512});
  shapes.push_back(gqa_options(4, 2, 32));
  for (AttentionOptions o : shapes) {
    for (const int64_t length : {8, 37, 66, 200}) {
      SCOPED_TRACE(fmt::format("{}, length {}", describe(o), length));
      o.lengths = {length};
      AttentionCase c(o, 106);
      const std::vector<Chunk> chunks = {tail(o, 0, 8)};
      const auto expected = c.run(table(), chunks, DType::kBf16, DType::kBf16).all_row_bytes();
      for (int64_t bad = 7; bad > 0; bad -= 2) {
        const int64_t p = length - 8 + bad;
        c.keys[0].fill_row(p, std::nanf(""));
        if (!o.mla) c.values[0].fill_row(p, std::nanf(""));
        const auto actual = c.run(table(), chunks, DType::kBf16, DType::kBf16).all_row_bytes();
        for (int64_t r = 0; r < bad; ++r) EXPECT_EQ(actual[static_cast<size_t>(r)], expected[static_cast<size_t>(r)]);
      }
    }
  }
}

// A graph of a full house is replayed with other requests, lengths and pages; rows that no request has stay as they
// are.
class Replay {
 public:
  static constexpr int kRows = 24;
  static constexpr int kRequests = 5;
  static constexpr int64_t kHeads = 8;
  static constexpr int64_t kDim = 64;
  static constexpr int kPages = 40;

  Replay()
      : q_(random_bf16(kRows * kHeads * kDim, 1)),
        k_(random_bf16(kPages * 16 * 2 * kDim, 2)),
        v_(random_bf16(kPages * 16 * 2 * kDim, 3)),
        lists_(static_cast<size_t>(kPages) * 4),
        requests_(sizeof(AttentionRequest) * kRequests),
        out_(static_cast<size_t>(kRows * kHeads * kDim) * 4) {
    cuda::check(cudaStreamCreate(&stream_), "cudaStreamCreate");
    cuda::check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    launch(kRequests, stream_);
    launch(kRequests, stream_);  // a graph with an edge between two kernels
    cudaGraph_t graph = nullptr;
    cuda::check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    cuda::check(cudaGraphInstantiate(&graph_, graph, 0), "cudaGraphInstantiate");
    cudaGraphDestroy(graph);
  }
  ~Replay() {
    cudaGraphExecDestroy(graph_);
    cudaStreamDestroy(stream_);
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  std::vector<uint32_t> run(std::vector<AttentionRequest> requests, const std::vector<int32_t>& pages, bool replay) {
    const auto count = static_cast<int>(requests.size());
    requests.resize(kRequests);
    lists_.upload(pages.data(), pages.size() * 4);
    int64_t next = 0;
    for (AttentionRequest& r : requests) {
      r.pages = lists_.as<int32_t>() + next;
      next += (r.key_count + 15) / 16;
    }
    requests_.upload(requests.data(), requests_.bytes());
    out_.fill(0xff);
    if (replay) {
      cuda::check(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch");
    } else {
      launch(count, stream_);
    }
    cuda::check(cudaStreamSynchronize(stream_), "gqa_attention");
    std::vector<uint32_t> out(out_.bytes() / 4);
    out_.download(out.data(), out_.bytes());
    return out;
  }

 private:
  void launch(int requests, cudaStream_t stream) const {
    const auto store = [](const DeviceMemory& memory) {
      return PagedStore{.data = memory.data(), .dtype = DType::kBf16, .dim = 2 * kDim, .page_size = 16};
    };
    cuda::gqa_attention({.q = {.data = q_.data(), .dtype = DType::kBf16, .stride = kHeads * kDim},
                         .k = store(k_),
                         .v = store(v_),
                         .requests = requests_.as<AttentionRequest>(),
                         .request_count = requests,
                         .out = {.data = out_.data(), .dtype = DType::kF32, .stride = kHeads * kDim},
                         .rows = kRows,
                         .heads = kHeads,
                         .kv_heads = 2,
                         .head_dim = kDim,
                         .scale = 0.125F},
                        stream);
  }

  DeviceMemory q_, k_, v_, lists_, requests_, out_;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
};

TEST(GenericAttention, RequestsMayChangeBetweenReplays) {
  Replay replay;
  Random random(5);
  const std::vector<std::vector<AttentionRequest>> steps = {
      {{.row_begin = 0, .row_count = 8, .first_position = 92, .key_count = 100},
       {.row_begin = 8, .row_count = 8, .first_position = 0, .key_count = 8},
       {.row_begin = 16, .row_count = 8, .first_position = 300, .key_count = 308}},
      {{.row_begin = 4, .row_count = 1, .first_position = 500, .key_count = 501}},
      {},
      {{.row_begin = 20, .row_count = 3, .first_position = 30, .key_count = 33},
       {.row_begin = 3, .row_count = 0},
       {.row_begin = 0, .row_count = 1, .first_position = 0, .key_count = 1},
       {.row_begin = 1, .row_count = 1, .first_position = 17, .key_count = 18},
       {.row_begin = 2, .row_count = 17, .first_position = 40, .key_count = 57}}};
  for (const auto& step : steps) {
    const std::vector<int32_t> pages = random.permutation(Replay::kPages);
    const std::vector<uint32_t> replayed = replay.run(step, pages, true);
    EXPECT_EQ(replayed, replay.run(step, pages, false));
    std::vector<bool> asked(Replay::kRows, false);
    for (const AttentionRequest& r : step) {
      for (int j = 0; j < r.row_count; ++j) asked[static_cast<size_t>(r.row_begin + j)] = true;
    }
    constexpr size_t kWidth = Replay::kHeads * Replay::kDim;
    for (size_t i = 0; i < replayed.size(); ++i) {
      ASSERT_EQ(replayed[i] == 0xffffffffU, !asked[i / kWidth]) << "row " << i / kWidth << ", number " << i % kWidth;
    }
  }
}

// --- chains of launches ---------------------------------------------------------------------------------------------

TEST(GenericLaunch, EachSeesWhatTheOneBeforeWrote) {
  expect_each_sees_the_one_before([](const Gemm& call) { cuda::gemm(call, nullptr); });
}

}  // namespace
}  // namespace strobe::kernel
