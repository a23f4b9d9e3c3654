// Weights, rows and stores full of harmless numbers, in the memory of the kernels that are timed. The numbers follow
// from the order of the calls alone, and are bf16 numbers also where they are kept as f32: two devices that are asked
// for the same get the same.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "kernel/kernels.h"
#include "tensor/buffer.h"

namespace strobe::probe {

class Operands {
 public:
  // `set_bytes`: how much memory the copies of a case's weights should fill together, so that a call finds its own
  // where it has not been read for a while; 0: one copy. Borrows the kernels.
  explicit Operands(kernel::Kernels& kernels, int64_t set_bytes = 0) : kernels_(kernels), set_bytes_(set_bytes) {}

  [[nodiscard]] kernel::Kernels& kernels() const { return kernels_; }
  // How many copies of `bytes` make the set, 1 to 1024.
  [[nodiscard]] int64_t copies(int64_t bytes) const;
  // Bytes of a weight in the kernels' own format.
  [[nodiscard]] int64_t packed_bytes(WeightFormat format, int64_t out, int64_t in) const;

  // A weight in the kernels' own format, each in memory of its own; those of one shape hold the same numbers.
  QuantTensor weight(WeightFormat format, int64_t out, int64_t in);
  // A table as Embed wants it: row-major bf16.
  QuantTensor table(int64_t rows, int64_t columns);
  kernel::Rows rows(DType dtype, int64_t rows, int64_t columns);
  float* f32(int64_t count);
  int32_t* i32(std::span<const int32_t> values);
  kernel::PagedStore store(DType dtype, int64_t slots, int64_t dim);
  // Requests where attention kernels read them.
  const kernel::AttentionRequest* requests(std::span<const kernel::AttentionRequest> list);

  // What lies there now, after all that was queued.
  [[nodiscard]] std::vector<float> read(const kernel::Rows& rows, int64_t count, int64_t columns) const;
  [[nodiscard]] std::vector<float> read(const int32_t* ids, int64_t count) const;

 private:
  struct Source {
    WeightFormat format;
    int64_t out, in;
    QuantTensor packed;  // on the host
    Buffer memory;
  };
  const Source& source(WeightFormat format, int64_t out, int64_t in);
  void* put(const void* bytes, int64_t count);
  float next();  // in [-0.5, 0.5)

  kernel::Kernels& kernels_;
  int64_t set_bytes_;
  std::deque<Buffer> buffers_;
  std::deque<Source> sources_;
  uint64_t seed_ = 1;
};

}  // namespace strobe::probe
