#include "kernel/kernels.h"

namespace strobe::kernel {

WeightForms weight_forms(const CpuKernels& table) {
  return {.activation = table.activation, .packed_format = table.packed_format, .pack = table.pack};
}

}  // namespace strobe::kernel
