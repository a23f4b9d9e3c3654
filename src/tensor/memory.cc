#include "tensor/memory.h"

#include <cstring>

namespace strobe {
namespace {

class HostMemory final : public Memory {
 public:
  [[nodiscard]] Device device() const override { return {}; }
  [[nodiscard]] int64_t alignment() const override { return 64; }
  Buffer allocate(int64_t bytes) override { return Buffer::host(bytes); }
  void upload(void* to, const void* from, int64_t bytes) override { copy(to, from, bytes); }
  void download(void* to, const void* from, int64_t bytes) override { copy(to, from, bytes); }
  void fill(void* at, int byte, int64_t bytes) override { std::memset(at, byte, static_cast<size_t>(bytes)); }

 private:
  static void copy(void* to, const void* from, int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace strobe
