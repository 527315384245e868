// Runs the kernels for codes of instruction sets that this processor may lack: AVX-512 with and without VNNI, and
// AVX-VNNI. They are compiled for AVX2, with the immintrin.h of this folder in place of the compiler's header:
//     emulated_test [cases] [first seed]
#include <cstdlib>

#include "../names.hpp"
#include "integer_checks.hpp"

namespace prunus {

std::vector<std::string> available_kernels() { return {"avx512vnni", "avx512", "avxvnni"}; }

const Kernels& choose_kernels(const std::string& name) {
  for (const Kernels* kernels : {&avx512vnni_kernels, &avx512_kernels, &avxvnni_kernels})
    if (kernels->name == name) return *kernels;
  throw unknown_name("kernels", name, available_kernels());
}

}  // namespace prunus

int main(int argc, char** argv) {
  const int cases = argc > 1 ? std::atoi(argv[1]) : 100, first = argc > 2 ? std::atoi(argv[2]) : 0;
  const int wrong = prunus::test::check_random_codes(cases, first);
  std::printf("%d cases, avx512vnni avx512 avxvnni emulated: %d wrong\n", cases, wrong);
  return wrong ? 1 : 0;
}
