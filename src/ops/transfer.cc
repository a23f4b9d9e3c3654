#include "base/check.h"
#include "ops/ops.h"

namespace strobe::ops {

Tensor to_device(Exec& exec, WorkspaceFrame& frame, const Tensor& tensor) {
  STROBE_CHECK(tensor.contiguous(), "{}", tensor.shape());
  if (exec.on_host()) return tensor;
  const Tensor copy = frame.tensor(tensor.dtype(), tensor.shape());
  exec.memory().upload(copy.data(), tensor.data(), tensor.bytes());
  return copy;
}

Tensor to_host(Exec& exec, const Tensor& tensor, std::vector<std::byte>& storage) {
  STROBE_CHECK(tensor.contiguous(), "{}", tensor.shape());
  if (exec.on_host()) return tensor;
  if (storage.size() < static_cast<size_t>(tensor.bytes())) storage.resize(static_cast<size_t>(tensor.bytes()));
  exec.memory().download(storage.data(), tensor.data(), tensor.bytes());
  return Tensor(storage.data(), tensor.dtype(), tensor.shape());
}

}  // namespace strobe::ops
