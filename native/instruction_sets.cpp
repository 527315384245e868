#include "instruction_sets.hpp"

#include <algorithm>

#include "names.hpp"

#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace prunus {

namespace {

#if defined(__x86_64__) || defined(_M_X64)

// Compilers do not agree on a name for this one.
bool has_avxvnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

std::vector<const Kernels*> compiled() {
  return {&avx512vnni_kernels, &avx512_kernels, &avxvnni_kernels, &avx2_kernels, &portable_kernels};
}

std::vector<const Kernels*> supported() {
  std::vector<const Kernels*> result;
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2")) {
    if (__builtin_cpu_supports("avx512vnni")) result.push_back(&avx512vnni_kernels);
    result.push_back(&avx512_kernels);
  }
  if (has_avx2 && has_avxvnni()) result.push_back(&avxvnni_kernels);
  if (has_avx2) result.push_back(&avx2_kernels);
  result.push_back(&portable_kernels);
  return result;
}

#elif defined(__aarch64__)

bool has_dot_product() {
#if defined(__linux__)
  constexpr unsigned long kDotProduct = 1ul << 20;  // HWCAP_ASIMDDP, which old headers lack
  return getauxval(AT_HWCAP) & kDotProduct;
#elif defined(__APPLE__)
  int has = 0;
  size_t size = sizeof has;
  return sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &size, nullptr, 0) == 0 && has;
#else
  return false;
#endif
}

std::vector<const Kernels*> compiled() { return {&neondot_kernels, &neon_kernels, &portable_kernels}; }

std::vector<const Kernels*> supported() {
  if (has_dot_product()) return {&neondot_kernels, &neon_kernels, &portable_kernels};
  return {&neon_kernels, &portable_kernels};
}

#else

std::vector<const Kernels*> compiled() { return {&portable_kernels}; }

std::vector<const Kernels*> supported() { return compiled(); }

#endif

}  // namespace

std::vector<std::string> available_kernels() {
  std::vector<std::string> names;
  for (const Kernels* kernels : supported()) names.push_back(kernels->name);
  return names;
}

std::vector<std::string> lacking_kernels() {
  const std::vector<const Kernels*> can_run = supported();
  std::vector<std::string> names;
  for (const Kernels* kernels : compiled())
    if (std::find(can_run.begin(), can_run.end(), kernels) == can_run.end()) names.push_back(kernels->name);
  return names;
}

const Kernels& choose_kernels(const std::string& name) {
  const std::vector<const Kernels*> known = supported();
  if (name == "auto") return *known.front();
  for (const Kernels* kernels : known)
    if (kernels->name == name) return *kernels;
  throw unknown_name("kernels", name, available_kernels());
}

}  // namespace prunus
