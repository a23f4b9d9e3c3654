#include "harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <new>
#include <numeric>

#include "sanitized.h"

namespace strobe::kernel {

WorkerPool& pool_of(int workers) {
  static std::map<int, std::unique_ptr<WorkerPool>> pools;
  auto& pool = pools[workers];
  if (!pool) pool = std::make_unique<WorkerPool>(workers);
  return *pool;
}

void PrintTo(const CpuKernels* table, std::ostream* out) {
  *out << table->name;
}

std::string table_name(const ::testing::TestParamInfo<const CpuKernels*>& info) {
  return std::string(info.param->name);
}

float Random::uniform(float low, float high) {
  return low + (high - low) * static_cast<float>(static_cast<double>(engine_() >> 11) * 0x1p-53);
}

float Random::normal(float deviation) {
  // Box-Muller: the standard's distributions differ between libraries.
  const double u = (static_cast<double>(engine_() >> 11) + 1) * 0x1p-53;
  const double v = static_cast<double>(engine_() >> 11) * 0x1p-53;
  return round_to_bf16(deviation * static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v)));
}

int64_t Random::below(int64_t count) {
  return static_cast<int64_t>(engine_() % static_cast<uint64_t>(count));
}

std::vector<int32_t> Random::permutation(int64_t count) {
  std::vector<int32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = count - 1; i > 0; --i)
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(below(i + 1))]);
  return order;
}

float round_to_bf16(float value) {
  return to_float(to_bf16(value));
}

// One element in front of the first row: no row starts on a vector's boundary by luck.
Matrix::Matrix(DType dtype, int64_t rows, int64_t columns, int64_t gap)
    : dtype_(dtype), rows_(rows), columns_(columns), gap_(gap), gap_value_(std::numeric_limits<float>::quiet_NaN()) {
  const int64_t elements = rows == 0 ? 0 : (rows - 1) * stride() + columns;
  bytes_ = std::vector<std::byte>(static_cast<size_t>((1 + elements) * size_bytes(dtype)));
  for (int64_t r = 0; r < rows; ++r) fill_row(r, gap_value_);
  fill_gaps(gap_value_);
}

std::byte* Matrix::element(int64_t index) const {
  return const_cast<std::byte*>(bytes_.data()) + (1 + index) * size_bytes(dtype_);
}

Rows Matrix::view() const {
  return {.data = element(0), .dtype = dtype_, .stride = stride()};
}

float* Matrix::f32() const {
  STROBE_CHECK(dtype_ == DType::kF32);
  return reinterpret_cast<float*>(element(0));
}

float Matrix::at(int64_t row, int64_t column) const {
  const std::byte* place = element(row * stride() + column);
  if (dtype_ == DType::kF32) {
    float value = 0;
    std::memcpy(&value, place, sizeof value);
    return value;
  }
  Bf16 value;
  std::memcpy(&value, place, sizeof value);
  return to_float(value);
}

void Matrix::put(int64_t row, int64_t column, float value) {
  std::byte* place = element(row * stride() + column);
  const Bf16 half = to_bf16(value);
  if (dtype_ == DType::kF32) {
    std::memcpy(place, &value, sizeof value);
  } else {
    std::memcpy(place, &half, sizeof half);
  }
}

Matrix& Matrix::fill(Random& random, float deviation) {
  for (int64_t r = 0; r < rows_; ++r) {
    for (int64_t c = 0; c < columns_; ++c) put(r, c, random.normal(deviation));
  }
  return *this;
}

void Matrix::fill_row(int64_t row, float value) {
  for (int64_t c = 0; c < columns_; ++c) put(row, c, value);
}

void Matrix::fill_gaps(float value) {
  gap_value_ = value;
  for (int64_t r = 0; r + 1 < rows_; ++r) {
    for (int64_t c = columns_; c < stride(); ++c) put(r, c, value);
  }
}

Matrix Matrix::select(const std::vector<int>& rows) const {
  Matrix part(dtype_, static_cast<int64_t>(rows.size()), columns_, gap_);
  for (size_t i = 0; i < rows.size(); ++i) {
    for (int64_t c = 0; c < columns_; ++c) part.put(static_cast<int64_t>(i), c, at(rows[i], c));
  }
  part.fill_gaps(gap_value_);
  return part;
}

std::vector<float> Matrix::values() const {
  std::vector<float> all;
  for (int64_t r = 0; r < rows_; ++r) {
    for (int64_t c = 0; c < columns_; ++c) all.push_back(at(r, c));
  }
  return all;
}

std::string Matrix::row_bytes(int64_t row) const {
  return {reinterpret_cast<const char*>(element(row * stride())), static_cast<size_t>(columns_ * size_bytes(dtype_))};
}

std::vector<std::string> Matrix::all_row_bytes() const {
  std::vector<std::string> all;
  for (int64_t r = 0; r < rows_; ++r) all.push_back(row_bytes(r));
  return all;
}

bool Matrix::gaps_intact() const {
  for (int64_t r = 0; r + 1 < rows_; ++r) {
    for (int64_t c = columns_; c < stride(); ++c) {
      const float value = at(r, c);
      if (std::isnan(gap_value_) ? !std::isnan(value) : value != gap_value_) return false;
    }
  }
  return true;
}

Weight::Weight(WeightFormat format, int64_t out, int64_t in, Random& random) : format_(format), out_(out), in_(in) {
  if (format == WeightFormat::kNvfp4) {
    data.resize(static_cast<size_t>(out * in / 2));
    scales.resize(static_cast<size_t>(out * in / 16));
    for (auto& pair : data) pair = static_cast<uint8_t>(random.below(256));
    for (auto& scale : scales) scale = static_cast<uint8_t>(random.below(0x7f));  // zero to 448
    global_scale = 0.0137F;
    return;
  }
  data.resize(static_cast<size_t>(weight_bytes(format, out, in)));
  for (int64_t i = 0; i < out * in; ++i) {
    const float value = random.normal();
    const Bf16 half = to_bf16(value);
    if (format == WeightFormat::kF32) {
      std::memcpy(data.data() + i * 4, &value, 4);
    } else {
      std::memcpy(data.data() + i * 2, &half, 2);
    }
  }
}

QuantTensor Weight::tensor() const {
  return {.format = format_,
          .out = out_,
          .in = in_,
          .data = data.data(),
          .scales = scales.empty() ? nullptr : scales.data(),
          .global_scale = global_scale};
}

double e4m3_value(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  const double sign = code >= 128 ? -1 : 1;
  if ((code & 127) == 127) return std::numeric_limits<double>::quiet_NaN();
  return sign * (exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10));
}

double Weight::at(int64_t row, int64_t column) const {
  const int64_t i = row * in_ + column;
  if (format_ == WeightFormat::kF32) {
    float value = 0;
    std::memcpy(&value, data.data() + i * 4, 4);
    return value;
  }
  if (format_ == WeightFormat::kBf16) {
    const uint32_t bits =
        (uint32_t{data[static_cast<size_t>(2 * i + 1)]} << 24) | (uint32_t{data[static_cast<size_t>(2 * i)]} << 16);
    float value = 0;
    std::memcpy(&value, &bits, 4);
    return value;
  }
  const int code = data[static_cast<size_t>(i / 2)] >> (column % 2 * 4) & 15;
  const int exponent = code >> 1 & 3;
  const double magnitude = exponent == 0 ? 0.5 * (code & 1) : std::ldexp(1 + 0.5 * (code & 1), exponent - 1);
  const double value = (code >= 8 ? -magnitude : magnitude) * e4m3_value(scales[static_cast<size_t>(i / 16)]);
  return value * static_cast<double>(global_scale);
}

Packed::Packed(const CpuKernels& table, const QuantTensor& weight) {
  const WeightFormat format = table.packed_format(weight.format);
  const auto bytes = static_cast<size_t>(weight_bytes(format, weight.out, weight.in));
  bytes_.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})));
  std::memset(bytes_.get(), 0xff, bytes);  // pack must write padding too
  tensor_ = table.pack(weight, bytes_.get());
}

void Packed::Free::operator()(std::byte* bytes) const {
  ::operator delete (bytes, std::align_val_t{64});
}

::testing::AssertionResult close(const std::vector<float>& actual, const Oracle& oracle, double relative,
                                 DType output) {
  if (actual.size() != oracle.value.size()) {
    return ::testing::AssertionFailure() << actual.size() << " numbers, expected " << oracle.value.size();
  }
  const double half_unit = output == DType::kBf16 ? 0x1p-8 : 0x1p-24;
  size_t wrong = 0;
  size_t worst = 0;
  double worst_ratio = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double expected = oracle.value[i];
    const double error = std::fabs(actual[i] - expected);
    // 2^-126: below it numbers may be flushed to zero.
    const double allowed = relative * oracle.magnitude[i] + half_unit * std::fabs(expected) + 0x1p-126;
    bool good = error <= allowed;  // false for any NaN or infinity
    if (std::isnan(expected)) good = std::isnan(actual[i]);
    if (std::isinf(expected)) good = actual[i] == expected;
    if (good) continue;
    const double ratio = std::isfinite(error) ? error / allowed : std::numeric_limits<double>::infinity();
    if (wrong == 0 || ratio > worst_ratio) {
      worst = i;
      worst_ratio = ratio;
    }
    ++wrong;
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << wrong << " of " << actual.size() << " numbers are off; the worst is number "
                                       << worst << ": " << actual[worst] << ", expected " << oracle.value[worst]
                                       << " (terms add up to " << oracle.magnitude[worst] << "), " << worst_ratio
                                       << " times the allowed error";
}

Oracle with_values(Oracle oracle, const std::vector<float>& reference) {
  STROBE_CHECK(oracle.value.size() == reference.size(), "{} and {}", oracle.value.size(), reference.size());
  oracle.value.assign(reference.begin(), reference.end());
  return oracle;
}

std::vector<DType> store_types(const CpuKernels& table) {
  if (&table == &ref_kernels() || table.name == "cuda") return {DType::kF32, DType::kBf16, DType::kE4m3};
  return {DType::kBf16, DType::kE4m3};
}

Tolerance tolerance_of(const CpuKernels& table) {
  if (&table == &ref_kernels()) return {.sum = 0x1p-22, .nvfp4_sum = 0x1p-22, .attention = 4e-6, .function = 1e-6};
  const bool integers = &table == &cpu_kernels(CpuIsa::kAvx512Vnni) || &table == &cpu_kernels(CpuIsa::kAvx512Fp16);
  return {.sum = 1e-5, .nvfp4_sum = integers ? 0x1p-14 : 1e-5, .attention = 1.25 * 0x1p-8, .function = 1e-5};
}

void expect_batch_invariant(int row_count, const std::vector<int>& poisoned, const RunRows& run) {
  const auto is_poisoned = [&](int row) { return std::find(poisoned.begin(), poisoned.end(), row) != poisoned.end(); };
  std::vector<std::string> alone;
  for (int r = 0; r < row_count; ++r) alone.push_back(run({r}, 1).at(0));
  // The rows must differ, or a kernel that mixes them up would pass.
  for (int r = 1; r < row_count; ++r) {
    if (!is_poisoned(r) && !is_poisoned(r - 1)) {
      ASSERT_NE(alone[static_cast<size_t>(r)], alone[static_cast<size_t>(r - 1)]) << "rows " << r - 1 << ", " << r;
    }
  }

  Random random(7);
  for (const int count : {1, 2, 3, 8, 17, 64, 300}) {
    if (count > row_count) continue;
    for (const int workers : {1, 2, 3}) {
      for (int trial = kSanitized ? 2 : 0; trial < 3; ++trial) {
        std::vector<int> rows;
        if (trial == 0) {  // in order, from some row on
          const auto first = static_cast<int>(random.below(row_count - count + 1));
          for (int i = 0; i < count; ++i) rows.push_back(first + i);
        } else {
          const auto order = random.permutation(row_count);
          rows.assign(order.begin(), order.begin() + count);
        }
        const std::vector<std::string> together = run(rows, workers);
        ASSERT_EQ(together.size(), rows.size());
        for (size_t i = 0; i < rows.size(); ++i) {
          if (is_poisoned(rows[i])) continue;
          ASSERT_TRUE(together[i] == alone[static_cast<size_t>(rows[i])])
              << "row " << rows[i] << " as number " << i << " of " << count << " rows, " << workers
              << " workers, differs from the row alone";
        }
      }
    }
  }
}

}  // namespace strobe::kernel
