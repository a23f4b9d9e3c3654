// What the processor can compute at most, measured with registers only: one function per instruction set.
#pragma once

#include <cstdint>

namespace strobe::probe {

// Each runs `rounds` rounds and returns the floating-point operations done (a multiply-add is two).
namespace portable {
double compute_peak(int64_t rounds);
}
namespace avx2 {
double compute_peak(int64_t rounds);
}
namespace avx512 {
double compute_peak(int64_t rounds);
}
namespace avx512_fp16 {
double compute_peak(int64_t rounds);  // in half precision
}
namespace amx {
double compute_peak(int64_t rounds);
}

}  // namespace strobe::probe
