// Workspace: scratch memory of one rank, taken and given back in stack order, so that a step allocates nothing.
//
//   WorkspaceFrame frame(exec.workspace());
//   Tensor q = frame.tensor(DType::kF32, {rows, dim});   // aligned as the memory is, contents undefined, gone with the
//   frame
//
// The first steps may still add blocks; an empty workspace with several joins them into one before its next use, so
// that it settles at the largest step seen.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/memory.h"

namespace strobe::ops {

class Workspace {
 public:
  // In the host's memory, or in one that outlives the workspace.
  explicit Workspace(int64_t reserve_bytes = 0) : Workspace(host_memory(), reserve_bytes) {}
  explicit Workspace(Memory& memory, int64_t reserve_bytes = 0);

  // Makes one block of at least `bytes`. Only while nothing is taken.
  void reserve(int64_t bytes);
  [[nodiscard]] int64_t capacity_bytes() const;
  [[nodiscard]] int64_t peak_bytes() const { return peak_bytes_; }

 private:
  friend class WorkspaceFrame;
  struct Block {
    Buffer buffer;
    int64_t used = 0;
  };
  std::byte* take(int64_t bytes);
  // Itself, in one block if it is empty.
  Workspace& joined();

  Memory& memory_;
  std::vector<Block> blocks_;
  size_t current_ = 0;  // the block that serves the next request
  int64_t taken_bytes_ = 0;
  int64_t peak_bytes_ = 0;
  int depth_ = 0;
};

class WorkspaceFrame {
 public:
  explicit WorkspaceFrame(Workspace& workspace);
  ~WorkspaceFrame();
  WorkspaceFrame(const WorkspaceFrame&) = delete;
  WorkspaceFrame& operator=(const WorkspaceFrame&) = delete;

  [[nodiscard]] Tensor tensor(DType dtype, Shape shape);
  // Where the next piece may begin.
  [[nodiscard]] const void* top() { return workspace_.take(0); }
  template <class T>
  [[nodiscard]] T* array(int64_t count) {
    return reinterpret_cast<T*>(workspace_.take(count * static_cast<int64_t>(sizeof(T))));
  }

 private:
  Workspace& workspace_;
  size_t block_;
  int64_t block_used_;
  int64_t taken_bytes_;
};

}  // namespace strobe::ops
