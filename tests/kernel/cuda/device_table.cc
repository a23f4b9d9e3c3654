// The CUDA kernels of every model (kernel/cuda/generic.h) as a table of kernels over host memory, so that the tests of
// the CPU kernels test them too: operands go to the device, results come back.
//
// Calls alternate: in one, rows lie as on the host (not aligned to vectors), in the next they start on 16 bytes with
// NaN between them. Tests that compare bytes so compare both.
#include <algorithm>
#include <deque>

#include "harness.h"
#include "kernel/cuda/device_memory.h"
#include "kernel/cuda/generic.h"

namespace strobe::kernel {
namespace {

using cuda::DeviceMemory;

// Device copies of one call's operands, in memory of just their size.
class Mirror {
 public:
  explicit Mirror() : aligned_(turn_++ % 2 == 1) {}

  template <class T>
  T* array(T* host, int64_t count) {
    if (host == nullptr || count == 0) return nullptr;
    const auto bytes = static_cast<size_t>(count) * sizeof(T);
    DeviceMemory& memory = memories_.emplace_back(bytes + shift(sizeof(T)));
    auto* place = memory.as<uint8_t>() + shift(sizeof(T));
    cuda::check(cudaMemcpy(place, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    return reinterpret_cast<T*>(place);
  }
  // Like array(), brought back by finish().
  template <class T>
  T* result(T* host, int64_t count) {
    T* place = array(host, count);
    if (place != nullptr)
      back_.push_back({.host = host, .device = place, .bytes = static_cast<size_t>(count) * sizeof(T)});
    return place;
  }
  // Aligned to 256 bytes.
  void* bytes(const void* host, size_t count) {
    if (host == nullptr || count == 0) return nullptr;
    DeviceMemory& memory = memories_.emplace_back(count);
    memory.upload(host, count);
    return memory.data();
  }

  Rows rows(const Rows& host, int64_t count, int64_t columns) {
    if (count == 0 || columns == 0) return host;
    const int64_t width = size_bytes(host.dtype);
    const int64_t stride = aligned_ ? (columns + 7) / 8 * 8 + 8 : host.stride;
    const auto size = static_cast<size_t>(((count - 1) * stride + columns) * width);
    std::vector<uint8_t> image(size, 0xff);
    const auto* from = static_cast<const uint8_t*>(host.data);
    if (aligned_) {
      for (int64_t r = 0; r < count; ++r) {
        std::copy_n(from + r * host.stride * width, columns * width, image.data() + r * stride * width);
      }
    } else {
      std::copy_n(from, size, image.data());
    }
    uint8_t* place = array(image.data(), static_cast<int64_t>(size), shift(width));
    return {.data = place, .dtype = host.dtype, .stride = stride};
  }
  Rows result(const Rows& host, int64_t count, int64_t columns) {
    const Rows there = rows(host, count, columns);
    add_result(host, there, count, columns);
    return there;
  }
  void add_result(const Rows& host, const Rows& there, int64_t count, int64_t columns) {
    if (count > 0 && columns > 0) back_rows_.push_back({host, there, count, columns});
  }

  // Waits for the device and brings results back.
  void finish() {
    cuda::check(cudaDeviceSynchronize(), "a kernel");
    for (const Result& r : back_)
      cuda::check(cudaMemcpy(r.host, r.device, r.bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (const RowsResult& r : back_rows_) bring_back(r);
  }

 private:
  struct Result {
    void* host;
    const void* device;
    size_t bytes;
  };
  struct RowsResult {
    Rows host;
    Rows device;
    int64_t count;
    int64_t columns;
  };

  // How far behind an aligned address an operand of such elements begins.
  [[nodiscard]] size_t shift(int64_t width) const { return aligned_ ? 0 : static_cast<size_t>(width); }

  uint8_t* array(const uint8_t* host, int64_t count, size_t offset) {
    DeviceMemory& memory = memories_.emplace_back(static_cast<size_t>(count) + offset);
    cuda::check(cudaMemcpy(memory.as<uint8_t>() + offset, host, static_cast<size_t>(count), cudaMemcpyHostToDevice),
                "cudaMemcpy");
    return memory.as<uint8_t>() + offset;
  }

  void bring_back(const RowsResult& r) const {
    const int64_t width = size_bytes(r.host.dtype);
    std::vector<uint8_t> image(static_cast<size_t>(((r.count - 1) * r.device.stride + r.columns) * width));
    cuda::check(cudaMemcpy(image.data(), r.device.data, image.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    auto* to = static_cast<uint8_t*>(r.host.data);
    if (!aligned_) {  // what lies between the rows, too: the test looks at it
      std::copy(image.begin(), image.end(), to);
      return;
    }
    for (int64_t row = 0; row < r.count; ++row) {
      const uint8_t* from = image.data() + row * r.device.stride * width;
      std::copy_n(from, r.columns * width, to + row * r.host.stride * width);
      if (row + 1 == r.count) break;
      const bool intact = std::all_of(from + r.columns * width, from + r.device.stride * width,
                                      [](uint8_t byte) { return byte == 0xff; });
      EXPECT_TRUE(intact) << "something was written behind row " << row;
    }
  }

  static inline int turn_ = 0;
  bool aligned_;
  std::deque<DeviceMemory> memories_;
  std::vector<Result> back_;
  std::vector<RowsResult> back_rows_;
};

int64_t largest(const int32_t* numbers, int64_t count) {
  return count == 0 ? -1 : *std::max_element(numbers, numbers + count);
}

QuantTensor mirror_weight(Mirror& mirror, const QuantTensor& host) {
  QuantTensor there = host;
  if (host.format == WeightFormat::kNvfp4) {
    there.data = mirror.bytes(host.data, static_cast<size_t>(host.out * host.in / 2));
    there.scales = mirror.bytes(host.scales, static_cast<size_t>(host.out * host.in / 16));
  } else {
    there.data = mirror.bytes(host.data, static_cast<size_t>(weight_bytes(host.format, host.out, host.in)));
  }
  return there;
}

void gemm(WorkerPool&, const Gemm& host) {
  Mirror mirror;
  std::vector<GemmProblem> problems(host.problems, host.problems + host.count);
  for (GemmProblem& p : problems) {
    const int64_t x_rows = p.x_rows == nullptr ? p.rows : largest(p.x_rows, p.rows) + 1;
    p.x = mirror.rows(p.x, x_rows, p.weight.in);
    p.x_rows = mirror.array(p.x_rows, p.rows);
    p.y = mirror.result(p.y, p.rows, p.weight.out);
    p.weight = mirror_weight(mirror, p.weight);
  }
  cuda::gemm({.problems = problems.data(), .count = host.count}, nullptr);
  mirror.finish();
}

void rms_norm(WorkerPool&, const RmsNorm& host) {
  Mirror mirror;
  RmsNorm call = host;
  const int64_t columns = host.groups * host.dim;
  call.x = mirror.rows(host.x, host.rows, columns);
  if (host.y.data == host.x.data) {
    call.y = call.x;
    mirror.add_result(host.y, call.y, host.rows, columns);
  } else {
    call.y = mirror.result(host.y, host.rows, columns);
  }
  call.weight = mirror.array(host.weight, host.dim);
  cuda::rms_norm(call, nullptr);
  mirror.finish();
}

void rope(WorkerPool&, const Rope& host) {
  Mirror mirror;
  Rope call = host;
  const int64_t angles = (largest(host.positions, host.rows) + 1) * (host.dim / 2);
  const int64_t numbers = (host.rows - 1) * host.row_stride + (host.heads - 1) * host.head_stride + host.dim;
  call.x = mirror.result(host.x, host.rows == 0 ? 0 : numbers);
  call.positions = mirror.array(host.positions, host.rows);
  call.cos = mirror.array(host.cos, angles);
  call.sin = mirror.array(host.sin, angles);
  cuda::rope(call, nullptr);
  mirror.finish();
}

void silu_mul(WorkerPool&, const SiluMul& host) {
  Mirror mirror;
  SiluMul call = host;
  call.gate = mirror.rows(host.gate, host.rows, host.dim);
  call.up = mirror.rows(host.up, host.rows, host.dim);
  call.y = mirror.result(host.y, host.rows, host.dim);
  cuda::silu_mul(call, nullptr);
  mirror.finish();
}

void embed(WorkerPool&, const Embed& host) {
  Mirror mirror;
  Embed call = host;
  call.table = mirror_weight(mirror, host.table);
  call.ids = mirror.array(host.ids, host.rows);
  call.y = mirror.result(host.y, host.rows, host.table.in);
  cuda::embed(call, nullptr);
  mirror.finish();
}

void copy(WorkerPool&, const Copy& host) {
  Mirror mirror;
  Copy call = host;
  call.x = mirror.rows(host.x, host.rows, host.dim);
  call.y = mirror.result(host.y, host.rows, host.dim);
  cuda::copy(call, nullptr);
  mirror.finish();
}

void route(WorkerPool&, const Route& host) {
  Mirror mirror;
  Route call = host;
  call.logits = mirror.array(host.logits, host.rows * host.experts);
  call.bias = mirror.array(host.bias, host.experts);
  call.ids = mirror.result(host.ids, host.rows * host.top_k);
  call.weights = mirror.result(host.weights, host.rows * host.top_k);
  cuda::route(call, nullptr);
  mirror.finish();
}

void combine(WorkerPool&, const Combine& host) {
  Mirror mirror;
  Combine call = host;
  const int64_t choices = host.rows * host.top_k;
  call.x = mirror.array(host.x, (largest(host.slots, choices) + 1) * host.dim);
  call.slots = mirror.array(host.slots, choices);
  call.weights = mirror.array(host.weights, choices);
  call.y = mirror.result(host.y, host.rows, host.dim);
  cuda::combine(call, nullptr);
  mirror.finish();
}

void store_rows(WorkerPool&, const StoreRows& host) {
  Mirror mirror;
  StoreRows call = host;
  call.x = mirror.rows(host.x, host.rows, host.dim);
  call.slots = mirror.array(host.slots, host.rows);
  const int64_t bytes = (largest(host.slots, host.rows) + 1) * host.store.dim * size_bytes(host.store.dtype);
  call.store.data = mirror.bytes(host.store.data, static_cast<size_t>(bytes));
  cuda::store_rows(call, nullptr);
  mirror.finish();
  if (bytes == 0) return;
  cuda::check(cudaMemcpy(host.store.data, call.store.data, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
}

void argmax(WorkerPool&, const Argmax& host) {
  Mirror mirror;
  Argmax call = host;
  const Rows logits = mirror.rows(
      {.data = const_cast<float*>(host.logits), .dtype = DType::kF32, .stride = host.stride}, host.rows, host.columns);
  call.logits = static_cast<const float*>(logits.data);
  call.stride = logits.stride;
  call.ids = mirror.result(host.ids, host.rows);
  cuda::argmax(call, nullptr);
  mirror.finish();
}

// Requests with their page lists, and how many pages their stores have at least.
struct Requests {
  Requests(Mirror& mirror, const AttentionRequest* host, int64_t count, int32_t page_size) {
    std::vector<AttentionRequest> requests(host, host + count);
    for (AttentionRequest& r : requests) {
      const int64_t length = (r.key_count + page_size - 1) / page_size;
      pages = std::max(pages, largest(r.pages, length) + 1);
      r.pages = mirror.array(r.pages, length);
      rows = std::max<int64_t>(rows, r.row_begin + r.row_count);
    }
    data = static_cast<const AttentionRequest*>(mirror.bytes(requests.data(), requests.size() * sizeof requests[0]));
  }
  const AttentionRequest* data = nullptr;
  int64_t pages = 0;
  int64_t rows = 0;
};

PagedStore mirror_store(Mirror& mirror, const PagedStore& host, int64_t pages) {
  PagedStore there = host;
  const int64_t bytes = pages * host.page_size * host.dim * size_bytes(host.dtype);
  there.data = mirror.bytes(host.data, static_cast<size_t>(bytes));
  return there;
}

void load_rows(WorkerPool&, const LoadRows& host) {
  Mirror mirror;
  LoadRows call = host;
  const int64_t pages = (host.rows + host.store.page_size - 1) / host.store.page_size;
  call.store = mirror_store(mirror, host.store, largest(host.pages, pages) + 1);
  call.pages = mirror.array(host.pages, pages);
  call.y = mirror.result(host.y, host.rows, (host.copies - 1) * host.copy_stride + host.dim);
  cuda::load_rows(call, nullptr);
  mirror.finish();
}

void mla_attention(WorkerPool&, const MlaAttention& host) {
  Mirror mirror;
  MlaAttention call = host;
  const Requests requests(mirror, host.requests, host.request_count, host.store.page_size);
  ASSERT_EQ(requests.rows, host.rows);
  call.requests = requests.data;
  call.store = mirror_store(mirror, host.store, requests.pages);
  call.q = mirror.rows(host.q, host.rows, host.heads * (host.latent + host.rope));
  call.out = mirror.result(host.out, host.rows, host.heads * host.latent);
  cuda::mla_attention(call, nullptr);
  mirror.finish();
}

void gqa_attention(WorkerPool&, const GqaAttention& host) {
  Mirror mirror;
  GqaAttention call = host;
  const Requests requests(mirror, host.requests, host.request_count, host.k.page_size);
  ASSERT_EQ(requests.rows, host.rows);
  call.requests = requests.data;
  call.first_visible = mirror.array(host.first_visible, host.request_count);
  call.k = mirror_store(mirror, host.k, requests.pages);
  call.v = mirror_store(mirror, host.v, requests.pages);
  call.q = mirror.rows(host.q, host.rows, host.heads * host.head_dim);
  call.out = mirror.result(host.out, host.rows, host.heads * (host.value_dim > 0 ? host.value_dim : host.head_dim));
  cuda::gqa_attention(call, nullptr);
  mirror.finish();
}

}  // namespace

std::vector<const CpuKernels*> tables_here() {
  static const CpuKernels kTable{.name = "cuda",
                                 .activation = DType::kBf16,
                                 .packed_format = ref_kernels().packed_format,
                                 .pack = ref_kernels().pack,
                                 .gemm = gemm,
                                 .rms_norm = rms_norm,
                                 .rope = rope,
                                 .silu_mul = silu_mul,
                                 .embed = embed,
                                 .copy = copy,
                                 .route = route,
                                 .combine = combine,
                                 .store_rows = store_rows,
                                 .load_rows = load_rows,
                                 .mla_attention = mla_attention,
                                 .gqa_attention = gqa_attention,
                                 .argmax = argmax};
  return {&kTable};
}

}  // namespace strobe::kernel
