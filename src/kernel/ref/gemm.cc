// Matrix products: y = W x for a few rows x. W is read once per call, however many rows there are.
#include <vector>

#include "kernel/ref/dot.h"
#include "kernel/ref/families.h"
#include "kernel/ref/values.h"

namespace strobe::kernel::ref {
namespace {

// NVFP4: 16 neighbouring columns share an e4m3 scale.
//   value = e2m1 code * block scale * global scale
// The first product is exact in f32 (2 bits times 4 bits of mantissa), so a value is rounded once.
constexpr int64_t kNvfp4Group = 16;

void dequantise_nvfp4(const QuantTensor& w, int64_t row, float* values) {
  const auto* codes = static_cast<const uint8_t*>(w.data) + row * w.in / 2;
  const auto* scales = static_cast<const E4m3*>(w.scales) + row * w.in / kNvfp4Group;
  for (int64_t column = 0; column < w.in; ++column) {
    const uint8_t pair = codes[column / 2];
    const auto code = static_cast<uint8_t>(column % 2 == 0 ? pair & 15 : pair >> 4);
    values[column] = e2m1_to_float(code) * to_float(scales[column / kNvfp4Group]) * w.global_scale;
  }
}

// Row `row` of a row-major weight as f32.
void dequantise_row(const QuantTensor& w, int64_t row, float* values) {
  switch (w.format) {
    case WeightFormat::kF32:
      for (int64_t i = 0; i < w.in; ++i) values[i] = static_cast<const float*>(w.data)[row * w.in + i];
      break;
    case WeightFormat::kBf16:
      for (int64_t i = 0; i < w.in; ++i) values[i] = to_float(static_cast<const Bf16*>(w.data)[row * w.in + i]);
      break;
    case WeightFormat::kNvfp4:
      dequantise_nvfp4(w, row, values);
      break;
    default:
      check_failed(__FILE__, __LINE__, "the reference reads row-major weights", to_string(w.format));
  }
}

void multiply(WorkerPool& pool, const GemmProblem& p) {
  const int64_t in = p.weight.in;
  std::vector<float> x(static_cast<size_t>(p.rows * in));
  for (int64_t r = 0; r < p.rows; ++r) {
    const int64_t source = p.x_rows == nullptr ? r : p.x_rows[r];
    for (int64_t i = 0; i < in; ++i) x[static_cast<size_t>(r * in + i)] = get(p.x, source, i);
  }
  pool.run([&](int worker, int workers) {
    std::vector<float> w(static_cast<size_t>(in));
    const Range mine = split_range(p.weight.out, worker, workers);
    for (int64_t o = mine.begin; o < mine.end; ++o) {
      dequantise_row(p.weight, o, w.data());
      for (int64_t r = 0; r < p.rows; ++r) {
        const double before = p.accumulate ? get(p.y, r, o) : 0.0;
        set(p.y, r, o, static_cast<float>(before + dot(w.data(), x.data() + r * in, in)));
      }
    }
  });
}

}  // namespace

void gemm(WorkerPool& pool, const Gemm& call) {
  for (int64_t i = 0; i < call.count; ++i) {
    if (call.problems[i].rows > 0) multiply(pool, call.problems[i]);
  }
}

}  // namespace strobe::kernel::ref
