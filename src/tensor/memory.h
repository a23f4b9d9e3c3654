// Memory: where buffers of a device come from, and how bytes get there and back.
#pragma once

#include <cstdint>

#include "tensor/buffer.h"

namespace strobe {

// The device works through what is asked of it in order; uploads take part in that order.
class Memory {
 public:
  virtual ~Memory() = default;

  [[nodiscard]] virtual Device device() const = 0;
  // Of every buffer, in bytes; whoever cuts buffers into pieces keeps it.
  [[nodiscard]] virtual int64_t alignment() const = 0;
  // Zeroed. Throws Failure when there is no memory.
  virtual Buffer allocate(int64_t bytes) = 0;
  // Host to device. `from` may change as soon as it returns.
  virtual void upload(void* to, const void* from, int64_t bytes) = 0;
  // Device to host, once all that was asked before is done; complete when it returns.
  virtual void download(void* to, const void* from, int64_t bytes) = 0;
  virtual void fill(void* at, int byte, int64_t bytes) = 0;

  [[nodiscard]] bool is_host() const { return device().kind == DeviceKind::kCpu; }
};

[[nodiscard]] Memory& host_memory();

}  // namespace strobe
