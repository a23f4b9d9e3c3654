#include "tensor/tensor.h"

#include <cstdlib>
#include <cstring>

namespace strobe {

std::string to_string(Device device) {
  return device.kind == DeviceKind::kCpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

Tensor::Tensor(void* data, DType dtype, Shape shape, Device device)
    : data_(data), dtype_(dtype), shape_(shape), device_(device) {
  int64_t stride = 1;
  for (int i = shape_.rank() - 1; i >= 0; --i) {
    strides_[static_cast<size_t>(i)] = stride;
    stride *= shape_[i];
  }
}

bool Tensor::contiguous() const {
  int64_t stride = 1;
  for (int i = shape_.rank() - 1; i >= 0; --i) {
    if (shape_[i] != 1 && this->stride(i) != stride) return false;
    stride *= shape_[i];
  }
  return true;
}

Tensor Tensor::slice(int i, int64_t begin, int64_t end) const {
  STROBE_CHECK(begin >= 0 && begin <= end && end <= shape_[i], "[{}, {}) of dimension {} of {}", begin, end, i, shape_);
  Tensor part = *this;
  part.data_ = static_cast<std::byte*>(data_) + begin * stride(i) * size_bytes(dtype_);
  Shape shape;
  for (int d = 0; d < shape_.rank(); ++d) shape.append(d == i ? end - begin : shape_[d]);
  part.shape_ = shape;
  return part;
}

Tensor Tensor::reshape(Shape shape) const {
  STROBE_CHECK(contiguous() && shape.elements() == shape_.elements(), "{} to {}", shape_, shape);
  return Tensor(data_, dtype_, shape, device_);
}

Tensor Tensor::split_last(int64_t a, int64_t b) const {
  const int last = shape_.rank() - 1;
  STROBE_CHECK(shape_[last] == a * b, "{} into {} x {}", shape_, a, b);
  Tensor split = *this;
  Shape shape;
  for (int d = 0; d < last; ++d) shape.append(shape_[d]);
  shape.append(a);
  shape.append(b);
  split.shape_ = shape;
  split.strides_[static_cast<size_t>(last)] = b;
  split.strides_[static_cast<size_t>(last + 1)] = 1;
  return split;
}

// The entry of a list for a dimension, or nullptr. Names are literals, mostly the same ones: comparing where they lie
// saves reading them.
template <class Bounds>
static auto find(const Bounds& bounds, int count, const char* dim) -> decltype(bounds.data()) {
  for (int b = 0; b < count; ++b) {
    if (bounds.data()[b].dim == dim || std::strcmp(bounds.data()[b].dim, dim) == 0) return bounds.data() + b;
  }
  return nullptr;
}

Dims& Dims::check(const char* name, const Tensor& tensor, std::initializer_list<const char*> dims) {
  STROBE_CHECK(tensor.shape().rank() == static_cast<int>(dims.size()), "{}: {} {} should have {} dimensions", where_,
               name, tensor.shape(), dims.size());
  int i = 0;
  for (const char* dim : dims) {
    const int64_t value = tensor.dim(i++);
    if (*dim >= '0' && *dim <= '9') {
      const int64_t literal = std::strtoll(dim, nullptr, 10);
      STROBE_CHECK(value == literal, "{}: {} {}: dimension {} should be {}", where_, name, tensor.shape(), i - 1,
                   literal);
      continue;
    }
    const Bound* found = find(bound_, count_, dim);
    if (found == nullptr) {
      STROBE_CHECK(count_ < static_cast<int>(bound_.size()), "{}: too many dimension names", where_);
      bound_[static_cast<size_t>(count_++)] = {dim, name, value};
      continue;
    }
    STROBE_CHECK(found->value == value, "{}: {} {}: {} is {} here and {} in {}", where_, name, tensor.shape(), dim,
                 value, found->value, found->tensor);
  }
  return *this;
}

int64_t Dims::operator[](const char* dim) const {
  if (const Bound* found = find(bound_, count_, dim)) return found->value;
  check_failed(__FILE__, __LINE__, "dimension is bound", fmt::format("{}: {}", where_, dim));
}

}  // namespace strobe
