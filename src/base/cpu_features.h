// Which instruction sets this processor and kernel let us use, read from CPUID and XGETBV bits, never from the model
// name.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace strobe {

// Levels of the CPU kernels, lowest first; a higher one may use everything of the lower ones.
//   portable     plain C++ for the compiler's baseline
//   avx2         the psABI level x86-64-v3: AVX2, FMA, F16C, BMI
//   avx512       x86-64-v4: AVX512 F/BW/VL/DQ/CD
//   avx512_vnni  avx512, and its VNNI and VBMI parts
//   avx512_fp16  avx512_vnni, and half-precision arithmetic
//   amx          avx512_fp16, AVX512 BF16, and AMX-BF16 tiles, with the kernel's permission to use them
enum class CpuIsa { kPortable, kAvx2, kAvx512, kAvx512Vnni, kAvx512Fp16, kAmx };

inline constexpr CpuIsa kCpuIsas[] = {CpuIsa::kPortable,   CpuIsa::kAvx2,       CpuIsa::kAvx512,
                                      CpuIsa::kAvx512Vnni, CpuIsa::kAvx512Fp16, CpuIsa::kAmx};

[[nodiscard]] std::string_view to_string(CpuIsa isa);

// "auto" or a level's name. A level above what the machine has is an Error that says what it has; for a name that is
// none the Error lists all that --cpu-isa accepts, "ref" among them, which names kernels of no level
// (kernel/cpu_kernels.h, find_cpu_kernels).
Result<CpuIsa> parse_cpu_isa(std::string_view name);

// The highest level usable here. For AMX this asks the operating system for the tile state, once per process.
[[nodiscard]] CpuIsa best_cpu_isa();

// The processor's own name, for logs and bench files.
[[nodiscard]] std::string cpu_name();

}  // namespace strobe
