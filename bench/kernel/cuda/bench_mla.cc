// MLA decode and verify on the shapes of Kimi-K2: 64 heads, 8 tokens (1 for plain decoding), fp8 pages of 64.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "base/failure.h"
#include "families.h"
#include "kernel/cuda/device_memory.h"
#include "kernel/cuda/sm90/mla_decode.h"

namespace strobe::bench {
namespace {

using kernel::AttentionRequest;
using kernel::MlaAttention;
using kernel::cuda::DeviceMemory;
using kernel::cuda::sm90::MlaStages;
using kernel::cuda::sm90::MlaWorkspace;

constexpr int64_t kHeads = 64, kLatent = 512, kRope = 64, kDim = kLatent + kRope, kPage = 64;
constexpr int64_t kPageBytes = kPage * kDim;
constexpr float kScale = 0.0721688F;  // 1 / sqrt(192): of 128 + 64 numbers a head before absorption

struct Shape {
  int64_t batch, tokens, context;
  double target_us;  // 0: none
};

// Pages of normal numbers: one random page of 256, laid out again and again on the device.
class Pages {
 public:
  explicit Pages(int64_t count) : memory_(static_cast<size_t>(count * kPageBytes)), host_(kKinds * kPageBytes) {
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    for (uint8_t& byte : host_) byte = to_e4m3(normal(random)).bits;
    for (int64_t page = 0; page < count; page += kKinds) {
      const auto bytes = static_cast<size_t>(std::min(kKinds, count - page) * kPageBytes);
      kernel::cuda::check(
          cudaMemcpy(memory_.as<uint8_t>() + page * kPageBytes, host_.data(), bytes, cudaMemcpyHostToDevice), "pages");
    }
  }
  [[nodiscard]] void* device() const { return memory_.data(); }
  [[nodiscard]] double value(int32_t page, int64_t slot, int64_t column) const {
    return to_float(E4m3{host_[static_cast<size_t>((page % kKinds) * kPageBytes + slot * kDim + column)]});
  }

 private:
  static constexpr int64_t kKinds = 256;
  DeviceMemory memory_;
  std::vector<uint8_t> host_;
};

class Case {
 public:
  Case(const Shape& shape, int copies)
      : shape_(shape),
        each_(shape.batch * ((shape.context + kPage - 1) / kPage)),
        pages_(copies * each_),
        workspace_(shape.batch * shape.tokens, shape.batch, kHeads),
        workspace_memory_(static_cast<size_t>(workspace_.bytes)) {
    workspace_memory_.fill(0);
    workspace_.data = workspace_memory_.data();
    std::mt19937_64 random(2);
    std::normal_distribution<float> normal;
    q_host_.resize(static_cast<size_t>(shape.batch * shape.tokens * kHeads * kDim));
    for (Bf16& x : q_host_) x = to_bf16(normal(random));
    q_ = DeviceMemory(q_host_);
    out_ = DeviceMemory(static_cast<size_t>(shape.batch * shape.tokens * kHeads * kLatent * 2));
    const int64_t per_request = each_ / shape.batch;
    for (int64_t copy = 0; copy < copies; ++copy) {
      std::vector<int32_t> list(static_cast<size_t>(each_));
      std::iota(list.begin(), list.end(), static_cast<int32_t>(copy * each_));
      std::shuffle(list.begin(), list.end(), random);
      lists_.push_back(list);
      device_lists_.emplace_back(list);
      std::vector<AttentionRequest> requests;
      for (int64_t b = 0; b < shape.batch; ++b) {
        requests.push_back({.row_begin = static_cast<int32_t>(b * shape.tokens),
                            .row_count = static_cast<int32_t>(shape.tokens),
                            .first_position = static_cast<int32_t>(shape.context - shape.tokens),
                            .key_count = static_cast<int32_t>(shape.context),
                            .pages = device_lists_.back().as<int32_t>() + b * per_request});
      }
      requests_.emplace_back(requests);
    }
  }

  // Requests [first, first + count) of set `copy`.
  void launch(int copy, int64_t first, int64_t count, cudaStream_t stream, MlaStages* stages = nullptr) {
    const MlaAttention call{
        .q = {.data = q_.data(), .dtype = DType::kBf16, .stride = kHeads * kDim},
        .store = {.data = pages_.device(), .dtype = DType::kE4m3, .dim = kDim, .page_size = kPage, .scale = 1},
        .requests = requests_[static_cast<size_t>(copy)].as<AttentionRequest>() + first,
        .request_count = count,
        .out = {.data = out_.data(), .dtype = DType::kBf16, .stride = kHeads * kLatent},
        .heads = kHeads,
        .latent = kLatent,
        .rope = kRope,
        .scale = kScale};
    kernel::cuda::sm90::mla_decode(call, workspace_, stream, stages);
  }

  std::vector<Bf16> output() {
    std::vector<Bf16> host(out_.bytes() / 2);
    kernel::cuda::check(cudaDeviceSynchronize(), "mla_decode");
    out_.download(host.data(), out_.bytes());
    return host;
  }
  void poison() { out_.fill(0xff); }

  // ||out - formula|| / ||formula|| over some (request, token, head), in double.
  [[nodiscard]] double relative_error(const std::vector<Bf16>& actual) const {
    double error = 0;
    double norm = 0;
    for (int64_t sample = 0; sample < 6; ++sample) {
      const int64_t row = (sample * 29 + shape_.tokens - 1) % (shape_.batch * shape_.tokens);
      const int64_t head = (sample * 37 + 5) % kHeads;
      const std::vector<double> expected = formula(row, head);
      for (int64_t i = 0; i < kLatent; ++i) {
        const double a = to_float(actual[static_cast<size_t>((row * kHeads + head) * kLatent + i)]);
        error += std::pow(a - expected[static_cast<size_t>(i)], 2);
        norm += std::pow(expected[static_cast<size_t>(i)], 2);
      }
    }
    return std::sqrt(error / norm);
  }

 private:
  [[nodiscard]] std::vector<double> formula(int64_t row, int64_t head) const {
    const int64_t request = row / shape_.tokens;
    const int64_t keys = shape_.context - shape_.tokens + row % shape_.tokens + 1;
    const int32_t* list = lists_[0].data() + request * (each_ / shape_.batch);
    const Bf16* q = q_host_.data() + (row * kHeads + head) * kDim;
    std::vector<double> scores;
    std::vector<double> out(kLatent, 0);
    for (int64_t p = 0; p < keys; ++p) {
      double score = 0;
      for (int64_t i = 0; i < kDim; ++i) {
        score += static_cast<double>(to_float(q[i])) * pages_.value(list[p / kPage], p % kPage, i);
      }
      scores.push_back(score * static_cast<double>(kScale));
    }
    const double highest = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (int64_t p = 0; p < keys; ++p) {
      const double weight = std::exp(scores[static_cast<size_t>(p)] - highest);
      total += weight;
      for (int64_t i = 0; i < kLatent; ++i) {
        out[static_cast<size_t>(i)] += weight * pages_.value(list[p / kPage], p % kPage, i);
      }
    }
    for (double& x : out) x /= total;
    return out;
  }

  Shape shape_;
  int64_t each_;  // pages of one set
  Pages pages_;
  MlaWorkspace workspace_;
  DeviceMemory workspace_memory_;
  std::vector<Bf16> q_host_;
  DeviceMemory q_, out_;
  std::vector<std::vector<int32_t>> lists_;
  std::vector<DeviceMemory> device_lists_, requests_;
};

// Mean and largest cycles of each stage over the blocks of threads that had work.
nlohmann::json stage_cycles(Case& c, int64_t batch) {
  const DeviceMemory memory(132 * sizeof(MlaStages));
  std::vector<MlaStages> stages(132);
  for (int copy = 0; copy < 3; ++copy) c.launch(copy, 0, batch, nullptr, memory.as<MlaStages>());
  kernel::cuda::check(cudaDeviceSynchronize(), "mla_decode");
  memory.download(stages.data(), memory.bytes());
  nlohmann::json facts;
  const auto add = [&](const char* name, auto from, auto to) {
    int64_t sum = 0;
    int64_t largest = 0;
    int64_t count = 0;
    for (const MlaStages& s : stages) {
      if (s.first_scores == 0) continue;
      sum += s.*to - s.*from;
      largest = std::max(largest, s.*to - s.*from);
      ++count;
    }
    facts[name] = {sum / std::max<int64_t>(count, 1), largest};
  };
  add("list", &MlaStages::begin, &MlaStages::listed);
  add("q", &MlaStages::listed, &MlaStages::first_scores);
  add("first_page", &MlaStages::first_scores, &MlaStages::first_page);
  add("first_item", &MlaStages::first_page, &MlaStages::first_outputs);
  add("rest", &MlaStages::first_outputs, &MlaStages::partials);
  add("merge", &MlaStages::partials, &MlaStages::end);
  return facts;
}

void bench_shape(Report& report, const std::string& filter, const Shape& shape) {
  const std::string name = fmt::format("mla batch {} tokens {} context {}", shape.batch, shape.tokens, shape.context);
  if (name.find(filter) == std::string::npos) return;
  const int copies = cold_copies(shape.batch * shape.context * kDim);
  Case c(shape, copies);
  c.poison();
  c.launch(0, 0, shape.batch, nullptr);
  const std::vector<Bf16> all = c.output();
  const double error = c.relative_error(all);
  if (!(error < 3e-3)) fail("{}: relative error {}, at most 3e-3 is allowed", name, error);
  // The last request alone has the bytes it has among the others.
  c.poison();
  c.launch(0, shape.batch - 1, 1, nullptr);
  const std::vector<Bf16> alone = c.output();
  const auto tail = static_cast<int64_t>(alone.size()) / shape.batch;
  if (!std::equal(alone.end() - tail, alone.end(), all.end() - tail)) fail("{}: not batch-invariant", name);

  const GraphTiming timing =
      time_graph(copies, [&](int copy, cudaStream_t stream) { c.launch(copy, 0, shape.batch, stream); });
  const auto rows = static_cast<double>(shape.batch * shape.tokens * kHeads);
  const auto context = static_cast<double>(shape.context);
  nlohmann::json facts = {{"error", error}, {"cycles", stage_cycles(c, shape.batch)}};
  if (shape.target_us > 0) facts["target_us"] = shape.target_us;
  report.add(name, timing,
             {.bytes = static_cast<double>(shape.batch) * context * kDim + rows * (kDim + kLatent) * 2,
              .flops = 2 * rows * context * (kDim + kLatent)},
             facts);
}

}  // namespace

void bench_mla(Report& report, const std::string& filter) {
  for (const Shape& shape : {Shape{1, 8, 1024, 11}, Shape{1, 8, 8192, 24}, Shape{1, 8, 32768, 62},
                             Shape{1, 8, 131072, 215}, Shape{8, 8, 1024, 0}, Shape{8, 8, 8192, 112},
                             Shape{8, 8, 32768, 405}, Shape{1, 1, 8192, 0}, Shape{8, 1, 8192, 0}}) {
    bench_shape(report, filter, shape);
  }
}

}  // namespace strobe::bench
