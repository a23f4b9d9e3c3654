#include "ops/exec.h"

#include "base/mix.h"

namespace strobe::ops {

void Exec::run_recorded(uint64_t tag, const std::function<void()>& work) {
  WorkspaceFrame frame(workspace_);
  const auto place = reinterpret_cast<uint64_t>(frame.top());
  kernels_->run_recorded(mix(tag, place), work);
}

}  // namespace strobe::ops
