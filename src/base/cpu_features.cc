#include "base/cpu_features.h"

#include <fstream>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace strobe {
namespace {

#if defined(__x86_64__)
struct CpuidRegisters {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidRegisters cpuid(unsigned leaf, unsigned subleaf) {
  CpuidRegisters r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

uint64_t enabled_states() {
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

// Tile data needs a per-process permission since Linux 5.16: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
bool request_tile_permission() {
  constexpr int kArchReqXcompPerm = 0x1023;
  constexpr int kXfeatureXtiledata = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
}

CpuIsa detect() {
  const auto leaf1 = cpuid(1, 0);
  const bool osxsave = (leaf1.ecx >> 27 & 1) != 0;
  if (!osxsave) return CpuIsa::kPortable;
  const uint64_t states = enabled_states();
  const auto leaf7 = cpuid(7, 0);
  const bool fma = (leaf1.ecx >> 12 & 1) != 0;
  const bool f16c = (leaf1.ecx >> 29 & 1) != 0;
  const bool avx2 = (leaf7.ebx >> 5 & 1) != 0;
  if (!(fma && f16c && avx2) || (states & 0x6) != 0x6) return CpuIsa::kPortable;
  const bool avx512 = (leaf7.ebx >> 16 & 1) != 0 && (leaf7.ebx >> 17 & 1) != 0 && (leaf7.ebx >> 30 & 1) != 0 &&
                      (leaf7.ebx >> 31 & 1) != 0;  // F, DQ, BW, VL
  if (!avx512 || (states & 0xe6) != 0xe6) return CpuIsa::kAvx2;
  const bool amx = (leaf7.edx >> 24 & 1) != 0 && (leaf7.edx >> 22 & 1) != 0;  // AMX-TILE, AMX-BF16
  const bool avx512_bf16 = (cpuid(7, 1).eax >> 5 & 1) != 0;
  const bool avx512_vbmi = (leaf7.ecx >> 1 & 1) != 0;
  if (!amx || !avx512_bf16 || !avx512_vbmi || (states >> 17 & 3) != 3 || !request_tile_permission())
    return CpuIsa::kAvx512;
  return CpuIsa::kAmx;
}
#else
CpuIsa detect() {
  return CpuIsa::kPortable;
}
#endif

}  // namespace

std::string_view to_string(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPortable:
      return "portable";
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kAvx512:
      return "avx512";
    case CpuIsa::kAmx:
      return "amx";
  }
  return "portable";
}

CpuIsa best_cpu_isa() {
  static const CpuIsa best = detect();
  return best;
}

Result<CpuIsa> parse_cpu_isa(std::string_view name) {
  if (name == "auto") return best_cpu_isa();
  for (const CpuIsa isa : {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAmx}) {
    if (name != to_string(isa)) continue;
    if (isa > best_cpu_isa())
      return error("cpu isa '{}' is not usable on this machine; it offers up to '{}'", name, to_string(best_cpu_isa()));
    return isa;
  }
  return error("cpu isa '{}' is not known; accepted: auto, portable, avx2, avx512, amx", name);
}

std::string cpu_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const auto colon = line.find(':');
    if (colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown processor";
}

}  // namespace strobe
