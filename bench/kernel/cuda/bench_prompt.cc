// Attention of a prompt's chunk: 2,048 rows of 64 heads, whose last one stands at the end of `context` positions.
// cuDNN beside it: bench/peers/gpu/bench_prompt.py.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/failure.h"
#include "families.h"
#include "kernel/cuda/device_memory.h"
#include "kernel/cuda/sm90/prompt_attention.h"

namespace strobe::bench {
namespace {

using kernel::AttentionRequest;
using kernel::GqaAttention;
using kernel::cuda::DeviceMemory;

constexpr int64_t kHeads = 64, kRows = 2048;

struct Shape {
  int64_t key, value, context;
};

// The first million are random, then they come again: a prime number of them, so that rows differ.
class Numbers {
 public:
  Numbers(int64_t rows, int64_t columns, uint64_t seed) : columns_(columns), host_(kPeriod) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (Bf16& x : host_) x = to_bf16(normal(random));
    const int64_t count = rows * columns;
    memory_ = DeviceMemory(static_cast<size_t>(count) * 2);
    for (int64_t at = 0; at < count; at += kPeriod) {
      const auto bytes = static_cast<size_t>(std::min(kPeriod, count - at)) * 2;
      kernel::cuda::check(cudaMemcpy(memory_.as<Bf16>() + at, host_.data(), bytes, cudaMemcpyHostToDevice), "numbers");
    }
  }
  [[nodiscard]] void* device() const { return memory_.data(); }
  [[nodiscard]] double at(int64_t row, int64_t column) const {
    return static_cast<double>(to_float(host_[static_cast<size_t>((row * columns_ + column) % kPeriod)]));
  }

 private:
  static constexpr int64_t kPeriod = 1'000'003;
  int64_t columns_;
  std::vector<Bf16> host_;
  DeviceMemory memory_;
};

class Case {
 public:
  explicit Case(const Shape& shape)
      : shape_(shape),
        scale_(1 / std::sqrt(static_cast<float>(shape.key))),
        q_(kRows, kHeads * shape.key, 1),
        k_(shape.context, kHeads * shape.key, 2),
        v_(shape.context, kHeads * shape.value, 3),
        out_(static_cast<size_t>(kRows * kHeads * shape.value * 2)),
        page_(std::vector<int32_t>{0}),
        request_(std::vector<AttentionRequest>{{.row_count = static_cast<int32_t>(kRows),
                                                .first_position = static_cast<int32_t>(shape.context - kRows),
                                                .key_count = static_cast<int32_t>(shape.context),
                                                .pages = page_.as<int32_t>()}}) {
    out_.fill(0xff);
  }

  void launch(cudaStream_t stream) const {
    const auto slots = static_cast<int32_t>(shape_.context);
    const GqaAttention call{
        .q = {.data = q_.device(), .dtype = DType::kBf16, .stride = kHeads * shape_.key},
        .k = {.data = k_.device(), .dtype = DType::kBf16, .dim = kHeads * shape_.key, .page_size = slots},
        .v = {.data = v_.device(), .dtype = DType::kBf16, .dim = kHeads * shape_.value, .page_size = slots},
        .requests = request_.as<AttentionRequest>(),
        .request_count = 1,
        .out = {.data = out_.data(), .dtype = DType::kBf16, .stride = kHeads * shape_.value},
        .rows = kRows,
        .heads = kHeads,
        .kv_heads = kHeads,
        .head_dim = shape_.key,
        .value_dim = shape_.value,
        .scale = scale_,
        .prompt = true};
    kernel::cuda::sm90::prompt_attention(call, stream);
  }

  // ||out - formula|| / ||formula|| over some (row, head), in double.
  [[nodiscard]] double relative_error() const {
    std::vector<Bf16> actual(out_.bytes() / 2);
    kernel::cuda::check(cudaDeviceSynchronize(), "prompt_attention");
    out_.download(actual.data(), out_.bytes());
    double error = 0;
    double norm = 0;
    for (int64_t sample = 0; sample < 8; ++sample) {
      const int64_t row = (sample * 293 + kRows - 1) % kRows;
      const int64_t head = (sample * 37 + 5) % kHeads;
      const std::vector<double> expected = formula(row, head);
      for (int64_t i = 0; i < shape_.value; ++i) {
        const auto a =
            static_cast<double>(to_float(actual[static_cast<size_t>((row * kHeads + head) * shape_.value + i)]));
        error += std::pow(a - expected[static_cast<size_t>(i)], 2);
        norm += std::pow(expected[static_cast<size_t>(i)], 2);
      }
    }
    return std::sqrt(error / norm);
  }

 private:
  [[nodiscard]] std::vector<double> formula(int64_t row, int64_t head) const {
    const int64_t keys = shape_.context - kRows + row + 1;
    std::vector<double> scores;
    for (int64_t p = 0; p < keys; ++p) {
      double score = 0;
      for (int64_t i = 0; i < shape_.key; ++i) {
        score += q_.at(row, head * shape_.key + i) * k_.at(p, head * shape_.key + i);
      }
      scores.push_back(score * static_cast<double>(scale_));
    }
    const double highest = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    std::vector<double> out(static_cast<size_t>(shape_.value), 0);
    for (int64_t p = 0; p < keys; ++p) {
      const double weight = std::exp(scores[static_cast<size_t>(p)] - highest);
      total += weight;
      for (int64_t i = 0; i < shape_.value; ++i) {
        out[static_cast<size_t>(i)] += weight * v_.at(p, head * shape_.value + i);
      }
    }
    for (double& x : out) x /= total;
    return out;
  }

  Shape shape_;
  float scale_;
  Numbers q_, k_, v_;
  DeviceMemory out_, page_, request_;
};

void bench_shape(Report& report, const std::string& filter, const Shape& shape) {
  const std::string name = fmt::format("prompt {} heads of {}/{}, {} rows, context {}", kHeads, shape.key, shape.value,
                                       kRows, shape.context);
  if (name.find(filter) == std::string::npos) return;
  const Case c(shape);
  c.launch(nullptr);
  const double error = c.relative_error();
  if (!(error < 5e-3)) fail("{}: relative error {}, at most 5e-3 is allowed", name, error);
  // Keys and values of one call are larger than L2.
  const GraphTiming timing = time_graph(4, [&](int, cudaStream_t stream) { c.launch(stream); });
  const auto columns = static_cast<double>(kHeads * (shape.key + shape.value));
  const auto visible = static_cast<double>(kRows * (shape.context - kRows) + kRows * (kRows + 1) / 2);
  report.add(name, timing,
             {.bytes = 2 * columns * static_cast<double>(shape.context + kRows), .flops = 2 * columns * visible},
             {{"error", error}});
}

}  // namespace

void bench_prompt(Report& report, const std::string& filter) {
  for (const Shape& shape : {Shape{192, 128, 2048}, Shape{192, 128, 8192}, Shape{192, 128, 32768},
                             Shape{128, 128, 8192}, Shape{128, 64, 8192}, Shape{64, 64, 8192}}) {
    bench_shape(report, filter, shape);
  }
}

}  // namespace strobe::bench
