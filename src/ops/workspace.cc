#include "ops/workspace.h"

#include <algorithm>

#include "base/check.h"

namespace strobe::ops {
namespace {

constexpr int64_t kMinBlockBytes = int64_t{1} << 20;

}  // namespace

Workspace::Workspace(Memory& memory, int64_t reserve_bytes) : memory_(memory) {
  reserve(reserve_bytes);
}

void Workspace::reserve(int64_t bytes) {
  STROBE_CHECK(depth_ == 0, "workspace in use");
  if (bytes <= 0 || (blocks_.size() == 1 && blocks_[0].buffer.bytes() >= bytes)) return;
  blocks_.clear();
  blocks_.push_back({memory_.allocate(bytes)});
  current_ = 0;
}

int64_t Workspace::capacity_bytes() const {
  int64_t bytes = 0;
  for (const auto& block : blocks_) bytes += block.buffer.bytes();
  return bytes;
}

Workspace& Workspace::joined() {
  if (depth_ == 0 && blocks_.size() > 1) reserve(capacity_bytes());
  return *this;
}

std::byte* Workspace::take(int64_t bytes) {
  STROBE_CHECK(bytes >= 0 && depth_ > 0, "bytes = {}, depth = {}", bytes, depth_);
  const int64_t alignment = memory_.alignment();
  bytes = (bytes + alignment - 1) / alignment * alignment;
  while (current_ < blocks_.size() && blocks_[current_].used + bytes > blocks_[current_].buffer.bytes()) ++current_;
  if (current_ == blocks_.size()) blocks_.push_back({memory_.allocate(std::max(bytes, kMinBlockBytes))});
  Block& block = blocks_[current_];
  std::byte* data = block.buffer.at(block.used);
  block.used += bytes;
  taken_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, taken_bytes_);
  return data;
}

WorkspaceFrame::WorkspaceFrame(Workspace& workspace)
    : workspace_(workspace.joined()),
      block_(workspace.current_),
      block_used_(block_ < workspace.blocks_.size() ? workspace.blocks_[block_].used : 0),
      taken_bytes_(workspace.taken_bytes_) {
  ++workspace_.depth_;
}

WorkspaceFrame::~WorkspaceFrame() {
  auto& blocks = workspace_.blocks_;
  for (size_t i = block_; i < blocks.size(); ++i) blocks[i].used = i == block_ ? block_used_ : 0;
  workspace_.current_ = block_;
  workspace_.taken_bytes_ = taken_bytes_;
  --workspace_.depth_;
}

Tensor WorkspaceFrame::tensor(DType dtype, Shape shape) {
  return Tensor(workspace_.take(shape.elements() * size_bytes(dtype)), dtype, shape, workspace_.memory_.device());
}

}  // namespace strobe::ops
