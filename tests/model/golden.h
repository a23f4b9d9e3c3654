// Golden files: tensors that independent implementations computed (tests/golden/README.md).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "load/safetensors.h"
#include "source_dir.h"

namespace strobe {

class Golden {
 public:
  explicit Golden(const std::string& name)
      : file_(SafetensorsFile::open(source_dir() / "tests/golden/model" / (name + ".safetensors")).value()) {}

  [[nodiscard]] std::vector<float> floats(const std::string& name) const { return read<float>(name, FileDType::kF32); }
  [[nodiscard]] std::vector<int32_t> ints(const std::string& name) const {
    return read<int32_t>(name, FileDType::kI32);
  }
  [[nodiscard]] const std::vector<int64_t>& shape(const std::string& name) const { return find(name).shape; }

 private:
  [[nodiscard]] const StoredTensor& find(const std::string& name) const {
    for (const auto& tensor : file_.tensors()) {
      if (tensor.name == name) return tensor;
    }
    throw std::runtime_error("golden has no tensor " + name);
  }
  template <class T>
  [[nodiscard]] std::vector<T> read(const std::string& name, FileDType dtype) const {
    const StoredTensor& tensor = find(name);
    if (tensor.dtype != dtype) throw std::runtime_error(name + " is " + describe(tensor));
    std::vector<T> numbers(static_cast<size_t>(tensor.bytes) / sizeof(T));
    std::memcpy(numbers.data(), tensor.data, static_cast<size_t>(tensor.bytes));
    return numbers;
  }

  SafetensorsFile file_;
};

// The largest difference of a row, relative to the row's largest expected value. NaN anywhere gives infinity.
inline double row_error(std::span<const float> actual, std::span<const float> expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double largest = 0, difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double d = std::fabs(static_cast<double>(actual[i]) - expected[i]);
    if (std::isnan(d)) return INFINITY;
    difference = std::max(difference, d);
    largest = std::max(largest, std::fabs(static_cast<double>(expected[i])));
  }
  return largest == 0 ? difference : difference / largest;
}

// A whole tensor's difference relative to its size, in the 2-norm. NaN anywhere gives infinity.
class TensorError {
 public:
  void add(std::span<const float> actual, std::span<const float> expected) {
    EXPECT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const double d = static_cast<double>(actual[i]) - expected[i];
      difference_ += d * d;
      size_ += static_cast<double>(expected[i]) * expected[i];
    }
  }
  [[nodiscard]] double relative() const {
    if (std::isnan(difference_)) return INFINITY;
    return size_ == 0 ? std::sqrt(difference_) : std::sqrt(difference_ / size_);
  }

 private:
  double difference_ = 0;
  double size_ = 0;
};

}  // namespace strobe
