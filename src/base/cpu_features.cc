#include "base/cpu_features.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>

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

bool has_bits(unsigned word, std::initializer_list<int> bits) {
  return std::all_of(bits.begin(), bits.end(), [&](int bit) { return (word >> bit & 1U) != 0; });
}

// The kernels are compiled for the levels x86-64-v3 and -v4 of the psABI, so every feature of a level must be there.
CpuIsa detect() {
  constexpr uint64_t kYmmStates = 0x6, kZmmStates = 0xe6, kTileStates = 0x60000;
  const auto leaf1 = cpuid(1, 0), leaf7 = cpuid(7, 0), extended = cpuid(0x80000001U, 0);
  const auto v3_leaf1 = {0,  9,  12, 13, 19, 20,
                         22, 23, 27, 28, 29};  // SSE3 SSSE3 FMA CX16 SSE4.1/2 MOVBE POPCNT OSXSAVE AVX F16C
  const auto v3_leaf7 = {3, 5, 8};             // BMI1 AVX2 BMI2
  if (!has_bits(leaf1.ecx, v3_leaf1) || !has_bits(leaf7.ebx, v3_leaf7) ||
      !has_bits(extended.ecx, {0, 5})) {  // LAHF LZCNT
    return CpuIsa::kPortable;
  }
  const uint64_t states = enabled_states();
  if ((states & kYmmStates) != kYmmStates) return CpuIsa::kPortable;
  const auto v4_leaf7 = {16, 17, 28, 30, 31};  // AVX512 F DQ CD BW VL
  if (!has_bits(leaf7.ebx, v4_leaf7) || (states & kZmmStates) != kZmmStates) return CpuIsa::kAvx2;
  if (!has_bits(leaf7.ecx, {1, 11})) return CpuIsa::kAvx512;   // AVX512 VBMI, VNNI
  if (!has_bits(leaf7.edx, {23})) return CpuIsa::kAvx512Vnni;  // AVX512-FP16
  const bool vectors = has_bits(cpuid(7, 1).eax, {5});         // AVX512 BF16
  const bool tiles = has_bits(leaf7.edx, {22, 24});            // AMX-BF16, AMX-TILE
  if (!vectors || !tiles || (states & kTileStates) != kTileStates || !request_tile_permission()) {
    return CpuIsa::kAvx512Fp16;
  }
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
    case CpuIsa::kAvx512Vnni:
      return "avx512_vnni";
    case CpuIsa::kAvx512Fp16:
      return "avx512_fp16";
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
  for (const CpuIsa isa : kCpuIsas) {
    if (name != to_string(isa)) continue;
    if (isa > best_cpu_isa()) return error("{}: this machine has {} at most", name, to_string(best_cpu_isa()));
    return isa;
  }
  std::string accepted = "auto, ref";
  for (const CpuIsa isa : kCpuIsas) accepted += fmt::format(", {}", to_string(isa));
  return error("{}: accepted: {}", name, accepted);
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
