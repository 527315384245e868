#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>

#include "integer_kernels.hpp"
#include "kernels.hpp"

namespace prunus {

namespace avx512vnni_integer {
#include "lanes_avx512vnni.inl"
}  // namespace avx512vnni_integer

namespace avx512vnni_integer {
#include "integer_kernels.inl"
}  // namespace avx512vnni_integer

constexpr IntegerKernels avx512vnni_integers = avx512vnni_integer::make_integer_table();

}  // namespace prunus
#endif
