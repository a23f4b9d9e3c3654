// The tables of the builds of generic/, one for each instruction set.
#pragma once

#include "kernel/cpu_kernels.h"

namespace strobe::kernel {

namespace portable {
extern const CpuKernels kKernels;
}
namespace avx2 {
extern const CpuKernels kKernels;
}
namespace avx512 {
extern const CpuKernels kKernels;
}

}  // namespace strobe::kernel
