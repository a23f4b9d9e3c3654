#include <cstring>

#include "kernel/cpu_kernels.h"
#include "kernel/ref/families.h"

namespace strobe::kernel {
namespace {

// The reference reads weights as checkpoints hold them.
WeightFormat packed_format(WeightFormat format) {
  return format;
}

QuantTensor pack(const QuantTensor& weight, void* packed) {
  QuantTensor result = weight;
  auto* bytes = static_cast<std::byte*>(packed);
  if (weight.format == WeightFormat::kNvfp4) {  // scales behind the codes, see weight_bytes
    const int64_t code_bytes = weight.out * weight.in / 2;
    const int64_t scale_bytes = weight_bytes(weight.format, weight.out, weight.in) - code_bytes;
    std::memcpy(bytes, weight.data, static_cast<size_t>(code_bytes));
    std::memcpy(bytes + code_bytes, weight.scales, static_cast<size_t>(scale_bytes));
    result.scales = bytes + code_bytes;
  } else {
    std::memcpy(bytes, weight.data, static_cast<size_t>(weight_bytes(weight.format, weight.out, weight.in)));
  }
  result.data = bytes;
  return result;
}

}  // namespace

const CpuKernels& ref_kernels() {
  static constexpr CpuKernels kTable{.name = "ref",
                                     .activation = DType::kF32,
                                     .packed_format = packed_format,
                                     .pack = pack,
                                     .gemm = ref::gemm,
                                     .rms_norm = ref::rms_norm,
                                     .rope = ref::rope,
                                     .silu_mul = ref::silu_mul,
                                     .embed = ref::embed,
                                     .copy = ref::copy,
                                     .route = ref::route,
                                     .combine = ref::combine,
                                     .store_rows = ref::store_rows,
                                     .load_rows = ref::load_rows,
                                     .mla_attention = ref::mla_attention,
                                     .gqa_attention = ref::gqa_attention,
                                     .argmax = ref::argmax};
  return kTable;
}

}  // namespace strobe::kernel
