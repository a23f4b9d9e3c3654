#include "tensor/buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/failure.h"

namespace strobe {
namespace {

constexpr int64_t kHugePageBytes = int64_t{2} << 20;

}  // namespace

Buffer::Buffer(void* data, int64_t bytes, Device device, std::function<void(void*)> release)
    : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {}

Buffer::~Buffer() {
  reset();
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      device_(other.device_),
      release_(std::exchange(other.release_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    device_ = other.device_;
    release_ = std::exchange(other.release_, nullptr);
  }
  return *this;
}

void Buffer::reset() noexcept {
  if (data_ != nullptr && release_) release_(data_);
  data_ = nullptr;
}

Buffer Buffer::host(int64_t bytes) {
  STROBE_CHECK(bytes >= 0, "bytes = {}", bytes);
  if (bytes == 0) return {};
  // Over-allocate by one huge page and hand out the aligned part, so that the kernel can back it with huge pages.
  const bool huge = bytes >= kHugePageBytes;
  const int64_t mapped = huge ? bytes + kHugePageBytes : bytes;
  void* base = mmap(nullptr, static_cast<size_t>(mapped), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) fail("cannot allocate {} bytes of memory: {}", bytes, std::strerror(errno));
  void* data = base;
  if (huge) {
    const auto address = reinterpret_cast<uintptr_t>(base);
    data = reinterpret_cast<void*>((address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes);
    madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // advice: failing is only slower
  }
  return Buffer(data, bytes, Device{}, [base, mapped](void*) { munmap(base, static_cast<size_t>(mapped)); });
}

Tensor Buffer::tensor(DType dtype, Shape shape) const {
  STROBE_CHECK(shape.elements() * size_bytes(dtype) <= bytes_, "{} {} in {} bytes", to_string(dtype), shape, bytes_);
  return Tensor(data_, dtype, shape, device_);
}

}  // namespace strobe
