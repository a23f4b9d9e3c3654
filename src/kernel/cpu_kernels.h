// The CPU kernels as one table per implementation: `ref` (the oracle: plain loops, f32) and one per instruction set.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/cpu_features.h"
#include "base/worker_pool.h"
#include "kernel/args.h"

namespace strobe::kernel {

struct CpuKernels {
  std::string_view name;  // ref, or that of its instruction set
  // The type in which matrix products want their input x; what norms and activations write. f32 for ref, bf16 for the
  // rest.
  DType activation = DType::kF32;

  // The format in which this table wants a weight that the checkpoint holds as `format` (itself when nothing is to be
  // done).
  WeightFormat (*packed_format)(WeightFormat format) = nullptr;
  // Writes `weight` (row-major) in packed_format into `packed` (weight_bytes of it, 64-byte aligned) and returns the
  // value that describes it.
  QuantTensor (*pack)(const QuantTensor& weight, void* packed) = nullptr;

  void (*gemm)(WorkerPool&, const Gemm&) = nullptr;
  void (*rms_norm)(WorkerPool&, const RmsNorm&) = nullptr;
  void (*rope)(WorkerPool&, const Rope&) = nullptr;
  void (*silu_mul)(WorkerPool&, const SiluMul&) = nullptr;
  void (*embed)(WorkerPool&, const Embed&) = nullptr;
  void (*copy)(WorkerPool&, const Copy&) = nullptr;
  void (*route)(WorkerPool&, const Route&) = nullptr;
  void (*combine)(WorkerPool&, const Combine&) = nullptr;
  void (*store_rows)(WorkerPool&, const StoreRows&) = nullptr;
  void (*load_rows)(WorkerPool&, const LoadRows&) = nullptr;
  void (*mla_attention)(WorkerPool&, const MlaAttention&) = nullptr;
  void (*gqa_attention)(WorkerPool&, const GqaAttention&) = nullptr;
  void (*argmax)(WorkerPool&, const Argmax&) = nullptr;
};

// All the maths as plain loops, in f32: what every other kernel is tested against, and the page to read first.
[[nodiscard]] const CpuKernels& ref_kernels();

// The table for an instruction set (the machine must have it; see best_cpu_isa).
[[nodiscard]] const CpuKernels& cpu_kernels(CpuIsa isa);

// The table that a value of --cpu-isa names: "ref", or what parse_cpu_isa takes. The Error begins with the name.
Result<const CpuKernels*> find_cpu_kernels(std::string_view name);

}  // namespace strobe::kernel
