// The only place that knows which table serves which machine.
#include "kernel/cpu/amx/kernels.h"
#include "kernel/cpu/vnni/kernels.h"
#include "kernel/cpu/tables.h"

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

}  // namespace strobe::kernel
