// The only place that knows which table serves which machine.
#include "kernel/cpu/amx/kernels.h"
#include "kernel/cpu/fp16/kernels.h"
#include "kernel/cpu/tables.h"
#include "kernel/cpu/vnni/kernels.h"

namespace strobe::kernel {

const CpuKernels& cpu_kernels(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPortable:
      return portable::kKernels;
    case CpuIsa::kAvx2:
      return avx2::kKernels;
    case CpuIsa::kAvx512:
      return avx512::kKernels;
    case CpuIsa::kAvx512Vnni: {
      static const CpuKernels vnni = [] {
        CpuKernels table = avx512::kKernels;
        table.name = "avx512_vnni";
        table.gemm = avx512_vnni::gemm;
        return table;
      }();
      return vnni;
    }
    case CpuIsa::kAvx512Fp16: {
      static const CpuKernels fp16 = [] {
        CpuKernels table = cpu_kernels(CpuIsa::kAvx512Vnni);
        table.name = "avx512_fp16";
        table.mla_attention = avx512_fp16::mla_attention;
        table.gqa_attention = avx512_fp16::gqa_attention;
        return table;
      }();
      return fp16;
    }
    case CpuIsa::kAmx: {
      static const CpuKernels amx = [] {
        CpuKernels table = avx512::kKernels;
        table.name = "amx";
        table.gemm = amx::gemm;
        table.mla_attention = amx::mla_attention;
        table.gqa_attention = amx::gqa_attention;
        return table;
      }();
      return amx;
    }
  }
  return portable::kKernels;
}

Result<const CpuKernels*> find_cpu_kernels(std::string_view name) {
  if (name == "ref") return &ref_kernels();
  STROBE_ASSIGN(const CpuIsa isa, parse_cpu_isa(name));
  return &cpu_kernels(isa);
}

}  // namespace strobe::kernel
