// MLA decode on Hopper against the formula in double and against kernel/ref, in the one shape it is made for.
#include "kernel/cuda/sm90/mla_decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_case.h"
#include "kernel/cuda/device_memory.h"
#include "kernel/cuda/graphs.h"
#include "kernel/cuda/sm90/mla_work.cuh"

namespace strobe::kernel {
namespace {

using cuda::DeviceMemory;

int64_t round_up(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

// Rows on the device, each aligned to 16 bytes, NaN between them.
class DeviceRows {
 public:
  DeviceRows(DType dtype, int64_t rows, int64_t columns)
      : width_(size_bytes(dtype)), rows_(rows), columns_(columns), stride_(round_up(columns, 8) + 8) {
    host_.assign(static_cast<size_t>(rows * stride_ * width_), 0xff);
    memory_ = DeviceMemory(host_);
    view_ = {.data = memory_.data(), .dtype = dtype, .stride = stride_};
  }
  void upload(const Rows& from) {
    for (int64_t r = 0; r < rows_; ++r) {
      std::copy_n(static_cast<const uint8_t*>(from.data) + r * from.stride * width_, columns_ * width_, row(r));
    }
    memory_.upload(host_.data(), host_.size());
  }
  void download(const Rows& to) {
    memory_.download(host_.data(), host_.size());
    for (int64_t r = 0; r < rows_; ++r) {
      std::copy_n(row(r), columns_ * width_, static_cast<uint8_t*>(to.data) + r * to.stride * width_);
      const uint8_t* gap = row(r) + columns_ * width_;
      EXPECT_TRUE(std::all_of(gap, gap + (stride_ - columns_) * width_, [](uint8_t b) { return b == 0xff; }))
          << "something was written behind row " << r;
    }
  }
  [[nodiscard]] const Rows& view() const { return view_; }

 private:
  uint8_t* row(int64_t r) { return host_.data() + r * stride_ * width_; }

  int64_t width_, rows_, columns_, stride_;
  std::vector<uint8_t> host_;
  DeviceMemory memory_;
  Rows view_;
};

// One workspace for all calls of the program: each must leave it as the next one needs it.
const cuda::sm90::MlaWorkspace& shared_workspace() {
  static cuda::sm90::MlaWorkspace workspace(400, 16, 64);
  static DeviceMemory memory(static_cast<size_t>(workspace.bytes));
  if (workspace.data == nullptr) {
    memory.fill(0);
    workspace.data = memory.data();
  }
  return workspace;
}

// The kernel as the shared cases call one: host memory in and out.
void mla_on_device(WorkerPool&, const MlaAttention& host) {
  MlaAttention call = host;
  int64_t rows = 0;
  int32_t pages = 1;
  std::vector<AttentionRequest> requests(host.requests, host.requests + host.request_count);
  std::vector<int32_t> page_lists;
  for (const AttentionRequest& r : requests) {
    rows = std::max<int64_t>(rows, r.row_begin + r.row_count);
    for (int32_t i = 0; i < (r.key_count + 63) / 64; ++i) {
      page_lists.push_back(r.pages[i]);
      pages = std::max(pages, r.pages[i] + 1);
    }
  }
  const DeviceMemory device_pages(page_lists);
  const int32_t* next = device_pages.as<int32_t>();
  for (AttentionRequest& r : requests) {
    r.pages = next;
    next += (r.key_count + 63) / 64;
  }
  const DeviceMemory device_requests(requests);
  DeviceMemory store(static_cast<size_t>(pages * 64 * host.store.dim));
  store.upload(host.store.data, store.bytes());
  DeviceRows q(host.q.dtype, rows, host.heads * (host.latent + host.rope));
  q.upload(host.q);
  DeviceRows out(host.out.dtype, rows, host.heads * host.latent);
  call.q = q.view();
  call.out = out.view();
  call.store.data = store.data();
  call.requests = device_requests.as<AttentionRequest>();
  cuda::sm90::mla_decode(call, shared_workspace(), nullptr);
  cuda::check(cudaDeviceSynchronize(), "mla_decode");
  out.download(host.out);
}

const CpuKernels& table() {
  static const CpuKernels kernels = [] {
    CpuKernels k;
    k.name = "sm90";
    k.activation = DType::kBf16;
    k.mla_attention = mla_on_device;
    return k;
  }();
  return kernels;
}

// Row blocks cover each folded row once, hold at most 64 and never rows whose splits have different lengths.
TEST(MlaWork, RowBlocks) {
  for (const int heads : {1, 3, 8, 64, 128}) {
    for (const int first : {0, 1, 2040, 2047, 2048, 6000}) {
      for (const int rows : {1, 8, 9, 64, 5000}) {
        const AttentionRequest request{.row_count = rows, .first_position = first};
        const auto work = cuda::sm90::request_work(request, heads);
        int next = 0;
        for (int i = 0; i < work.blocks; ++i) {
          const auto block = cuda::sm90::row_block(request, heads, i);
          ASSERT_EQ(block.begin, next);
          ASSERT_GT(block.end, block.begin);
          ASSERT_LE(block.end - block.begin, cuda::sm90::kRowBlock);
          const int last = first + (block.end - 1) / heads;
          ASSERT_EQ(cuda::sm90::split_pages(first + block.begin / heads), cuda::sm90::split_pages(last));
          ASSERT_LE(cuda::sm90::split_count(last), work.slots);
          next = block.end;
        }
        ASSERT_EQ(next, rows * heads);
        ASSERT_LE(work.blocks, (rows * heads + 63) / 64 + 1 + rows / cuda::sm90::kClass);
      }
    }
  }
  EXPECT_EQ(cuda::sm90::request_work({}, 8).blocks, 0);
}

TEST(MlaWork, Divisors) {
  constexpr int kMost = std::numeric_limits<int>::max();
  for (const int value : {1, 2, 3, 5, 33, 64, 128, 132, 1'000'003, kMost}) {
    const cuda::sm90::Divisor by = cuda::sm90::divisor(value);
    for (const int n : {0, 1, value - 1, value, 131 * (value % 1000), 12'345'678, kMost - 1, kMost}) {
      EXPECT_EQ(by.quotient(n), n / value) << n << " by " << value;
    }
  }
}

TEST(MlaWork, AtMostSixteenSplits) {
  for (int position = 0; position < 300'000; ++position) {
    const int splits = cuda::sm90::split_count(position);
    ASSERT_LE(splits, cuda::sm90::kMaxSplits);
    ASSERT_GT(int64_t{splits} * cuda::sm90::split_pages(position) * cuda::sm90::kPage, position);
  }
}

AttentionOptions options(int64_t heads, std::vector<int64_t> lengths = {}) {
  AttentionOptions o{.heads = heads, .key_dim = 576, .value_dim = 512, .store = DType::kE4m3, .store_scale = 0.05F};
  o.scale = 0.072F;
  o.lengths = std::move(lengths);
  return o;
}

TEST(MlaDecode, KeyCounts) {
  expect_attention_key_counts(table(), options(3));
}

TEST(MlaDecode, Heads) {
  for (const int64_t heads : {1, 5, 8, 16, 33, 64, 128}) {
    const AttentionOptions o = options(heads, {70, 8});
    const AttentionCase c(o, static_cast<uint64_t>(heads));
    expect_attention_right(table(), c, {tail(o, 0, 8), tail(o, 1, 3)}, DType::kBf16, DType::kF32);
    expect_attention_right(table(), c, {tail(o, 0, 1)}, DType::kF32, DType::kBf16);
  }
}

// Splits of two to six pages, cut in the middle of a call's rows, and pages behind the last.
TEST(MlaDecode, Splits) {
  const AttentionOptions o = options(8, {1023, 2048, 2049, 2052, 4100});
  const AttentionCase c(o, 5);
  std::vector<Chunk> chunks;
  for (int r = 0; r < 5; ++r) chunks.push_back(tail(o, r, 8));
  expect_attention_right(table(), c, chunks, DType::kBf16, DType::kBf16);
  expect_attention_right(table(), c, {tail(o, 3, 30)}, DType::kBf16, DType::kBf16);
}

TEST(MlaDecode, RelativeErrorBelow3em3) {
  for (const int64_t length : {1, 64, 200, 1100, 2500}) {
    const AttentionOptions o = options(16, {length});
    const AttentionCase c(o, static_cast<uint64_t>(length));
    const std::vector<Chunk> chunks = {tail(o, 0, 8)};
    const Oracle oracle = c.formula(chunks);
    for (const DType out : {DType::kF32, DType::kBf16}) {
      const std::vector<float> actual = c.run(table(), chunks, DType::kBf16, out).values();
      double error = 0;
      double norm = 0;
      for (size_t i = 0; i < actual.size(); ++i) {
        error += std::pow(actual[i] - oracle.value[i], 2);
        norm += std::pow(oracle.value[i], 2);
      }
      const double relative = std::sqrt(error / norm);
      EXPECT_LT(relative, 3e-3) << "length " << length << ", " << to_string(out);
      RecordProperty("relative_error_" + std::to_string(length), std::to_string(relative));
    }
  }
}

TEST(MlaDecode, ExtremeScores) {
  AttentionOptions o = options(2);
  o.store_scale = 0.0625F;  // small integers stay exact, and hardly a number becomes zero
  expect_attention_extreme_scores(table(), o);
}

// Queries as large and as small as bf16 holds without a score overflowing.
TEST(MlaDecode, QueriesOfAnySize) {
  for (const float size : {1e-30F, 1e-6F, 1e5F, 1e20F}) {
    AttentionOptions o = options(4, {150});
    o.scale = 0.05F / size;
    AttentionCase c(o, 17);
    for (int64_t r = 0; r < 150; ++r) {
      for (int64_t i = 0; i < c.queries[0].columns(); ++i) {
        c.queries[0].put(r, i, round_to_bf16(c.queries[0].at(r, i) * size));
      }
    }
    expect_attention_right(table(), c, {tail(o, 0, 9)}, DType::kBf16, DType::kF32);
  }
}

TEST(MlaDecode, NothingToDo) {
  const AttentionOptions o = options(8, {70});
  const AttentionCase c(o, 3);
  EXPECT_EQ(c.run(table(), {}, DType::kBf16, DType::kBf16).rows(), 0);
  EXPECT_EQ(c.run(table(), {tail(o, 0, 0)}, DType::kBf16, DType::kBf16).rows(), 0);
}

TEST(MlaDecode, BatchInvariant) {
  expect_attention_invariant(table(), options(8, {64, 9, 1, 65, 130, 300}));
}

TEST(MlaDecode, BatchInvariantInOtherHeads) {
  expect_attention_invariant(table(), options(64, {6, 3, 66}));
  expect_attention_invariant(table(), options(5, {65, 3, 100}));
}

TEST(MlaDecode, BatchInvariantWhereSplitsGrow) {
  expect_attention_invariant(table(), options(2, {2053, 9, 130}));
}

// In a large call a block of threads has several splits of a row and folds them as it goes; alone each has its own, and
// the merge folds them. Shares of the work begin anywhere in a group of splits.
TEST(MlaDecode, SameBytesHoweverSplitsAreDealtOut) {
  const AttentionOptions o = options(8, {2100, 1020, 700, 2040, 66, 999, 1200, 2052, 1500});
  const AttentionCase c(o, 21);
  for (const int rows : {8, 33, 66}) {
    std::vector<Chunk> chunks;
    for (int r = 0; r < static_cast<int>(o.lengths.size()); ++r) chunks.push_back(tail(o, r, rows));
    const Matrix all = c.run(table(), chunks, DType::kBf16, DType::kBf16);
    int64_t row = 0;
    for (const Chunk& chunk : chunks) {
      const Matrix alone = c.run(table(), {chunk}, DType::kBf16, DType::kBf16);
      for (int64_t i = 0; i < alone.rows(); ++i, ++row) {
        ASSERT_TRUE(all.row_bytes(row) == alone.row_bytes(i)) << "request " << chunk.request << ", row " << i;
      }
    }
    ASSERT_EQ(row, all.rows());
  }
}

// More requests and items than the list of a block of threads holds, and timing that differs from run to run.
TEST(MlaDecode, SameBytesEveryTime) {
  const AttentionOptions o = options(64, {2100, 1020, 700, 1024, 1, 65, 999, 1200});
  const AttentionCase c(o, 8);
  std::vector<Chunk> chunks;
  for (int r = 0; r < 8; ++r) chunks.push_back(tail(o, r, r % 2 == 0 ? 8 : 30));
  const Matrix first = c.run(table(), chunks, DType::kBf16, DType::kBf16);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(c.run(table(), chunks, DType::kBf16, DType::kBf16, 1, 1 + static_cast<uint64_t>(i)).all_row_bytes() ==
                first.all_row_bytes());
  }
}

// A call may begin while what is ahead of it ends, but reads nothing of it before: copies, a call of its own kind, both
// launched one by one and in a graph.
TEST(MlaDecode, WaitsForWhatIsAhead) {
  constexpr int64_t kHeads = 64, kRows = 8, kKeys = 300, kPages = 5;
  std::vector<Bf16> queries(kRows * kHeads * 576);
  for (size_t i = 0; i < queries.size(); ++i) queries[i] = to_bf16(static_cast<float>(i % 17) - 8);
  std::vector<uint8_t> stored(kPages * 64 * 576);
  for (size_t i = 0; i < stored.size(); ++i) stored[i] = to_e4m3(static_cast<float>(i % 13) - 6).bits;
  const DeviceMemory source(queries);
  DeviceMemory q(source.bytes());
  const DeviceMemory store(stored);
  const DeviceMemory pages(std::vector<int32_t>{3, 0, 4, 1, 2});
  const DeviceMemory requests(std::vector<AttentionRequest>{
      {.row_count = kRows, .first_position = kKeys - kRows, .key_count = kKeys, .pages = pages.as<int32_t>()}});
  constexpr size_t kOutBytes = kRows * kHeads * 512 * 2;
  DeviceMemory first(kOutBytes);
  DeviceMemory second(kOutBytes);
  MlaAttention call{.q = {.data = q.data(), .dtype = DType::kBf16, .stride = kHeads * 576},
                    .store = {.data = store.data(), .dtype = DType::kE4m3, .dim = 576, .page_size = 64, .scale = 0.05F},
                    .requests = requests.as<AttentionRequest>(),
                    .request_count = 1,
                    .out = {.data = first.data(), .dtype = DType::kBf16, .stride = kHeads * 512},
                    .heads = kHeads,
                    .latent = 512,
                    .rope = 64,
                    .scale = 0.01F};
  const auto bytes_of = [](const DeviceMemory& memory) {
    std::vector<uint8_t> bytes(memory.bytes());
    memory.download(bytes.data(), bytes.size());
    return bytes;
  };
  q.upload(queries.data(), q.bytes());
  cuda::sm90::mla_decode(call, shared_workspace(), nullptr);
  cuda::check(cudaDeviceSynchronize(), "mla_decode");
  const std::vector<uint8_t> expected = bytes_of(first);

  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  {
    cuda::Graphs graphs(stream);
    for (int round = 0; round < 4; ++round) {
      first.fill(0xff);
      second.fill(0xff);
      q.fill(0xff);
      graphs.run(1, [&] {
        cuda::check(cudaMemcpyAsync(q.data(), source.data(), q.bytes(), cudaMemcpyDeviceToDevice, stream), "q");
        call.out.data = first.data();
        cuda::sm90::mla_decode(call, shared_workspace(), stream);
        call.out.data = second.data();
        cuda::sm90::mla_decode(call, shared_workspace(), stream);
        cuda::check(cudaMemsetAsync(q.data(), 0xff, q.bytes(), stream), "q");
      });
      cuda::check(cudaStreamSynchronize(stream), "mla_decode");
      EXPECT_TRUE(bytes_of(first) == expected) << "round " << round;
      EXPECT_TRUE(bytes_of(second) == expected) << "round " << round;
    }
  }
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace strobe::kernel
