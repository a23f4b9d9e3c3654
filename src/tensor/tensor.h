// Tensor: a view of numbers that somebody else owns. Shape: up to four named-by-position dimensions with strides.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"
#include "tensor/dtype.h"

namespace strobe {

enum class DeviceKind { kCpu, kCuda };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;
  friend bool operator==(Device, Device) = default;
};

[[nodiscard]] std::string to_string(Device device);

// Up to four dimensions. A dimension of 0 is an empty tensor, not "unset".
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {  // NOLINT(google-explicit-constructor)
    STROBE_CHECK(dims.size() <= kMaxRank, "rank {}", dims.size());
    for (const int64_t dim : dims) dims_[static_cast<size_t>(rank_++)] = dim;
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int64_t operator[](int i) const {
    STROBE_CHECK(i >= 0 && i < rank_, "dimension {} of {}", i, rank_);
    return dims_[static_cast<size_t>(i)];
  }
  [[nodiscard]] int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[static_cast<size_t>(i)];
    return n;
  }
  void append(int64_t dim) {
    STROBE_CHECK(rank_ < kMaxRank, "rank {}", rank_);
    dims_[static_cast<size_t>(rank_++)] = dim;
  }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// "[4, 256]"
[[nodiscard]] std::string to_string(const Shape& shape);

// The last dimension is always contiguous; the others have strides in elements.
class Tensor {
 public:
  Tensor() = default;
  Tensor(void* data, DType dtype, Shape shape, Device device = {});

  [[nodiscard]] bool defined() const { return data_ != nullptr; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] int64_t dim(int i) const { return shape_[i]; }
  [[nodiscard]] int64_t stride(int i) const { return strides_[static_cast<size_t>(i)]; }
  [[nodiscard]] Device device() const { return device_; }
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] int64_t bytes() const { return shape_.elements() * size_bytes(dtype_); }
  [[nodiscard]] bool contiguous() const;

  // The numbers as T; T must be the C++ type of dtype().
  template <class T>
  [[nodiscard]] T* as() const;

  // [begin, end) along dimension i; a view of the same memory.
  [[nodiscard]] Tensor slice(int i, int64_t begin, int64_t end) const;

  // The same contiguous memory with another shape of as many elements.
  [[nodiscard]] Tensor reshape(Shape shape) const;

  // Splits the last dimension d = a * b of any strided tensor into [..., a, b].
  [[nodiscard]] Tensor split_last(int64_t a, int64_t b) const;

 private:
  void* data_ = nullptr;
  DType dtype_ = DType::kF32;
  Shape shape_;
  std::array<int64_t, Shape::kMaxRank> strides_{};
  Device device_;
};

// The DType of a C++ type.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType kValue = DType::kF32;
};
template <>
struct DTypeOf<Bf16> {
  static constexpr DType kValue = DType::kBf16;
};
template <>
struct DTypeOf<E4m3> {
  static constexpr DType kValue = DType::kE4m3;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType kValue = DType::kU8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType kValue = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType kValue = DType::kI64;
};

template <class T>
T* Tensor::as() const {
  STROBE_CHECK(DTypeOf<T>::kValue == dtype_, "tensor is {}", to_string(dtype_));
  return static_cast<T*>(data_);
}

// Checks that a set of tensors agree on named dimensions:
//   Dims dims("rms_norm");
//   dims.check("x", x, {"tokens", "hidden"}).check("weight", weight, {"hidden"});
// aborts with "rms_norm: weight [255]: hidden is 255 here and 256 in x" when they do not. A name that is a number
// stands for itself.
class Dims {
 public:
  explicit Dims(const char* where) : where_(where) {}
  Dims& check(const char* name, const Tensor& tensor, std::initializer_list<const char*> dims);
  [[nodiscard]] int64_t operator[](const char* dim) const;

 private:
  struct Bound {
    const char* dim;
    const char* tensor;
    int64_t value;
  };
  const char* where_;
  std::array<Bound, 12> bound_{};
  int count_ = 0;
};

}  // namespace strobe

template <>
struct fmt::formatter<strobe::Shape> : fmt::formatter<std::string> {
  auto format(const strobe::Shape& shape, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(strobe::to_string(shape), context);
  }
};
