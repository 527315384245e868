#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>

#include "integer_kernels.hpp"
#include "kernels.hpp"

namespace prunus {

namespace avx2_integer {
#include "lanes_avx2.inl"
}  // namespace avx2_integer

namespace avx2_integer {
#include "integer_kernels.inl"
}  // namespace avx2_integer

constexpr IntegerKernels avx2_integers = avx2_integer::make_integer_table();

}  // namespace prunus
#endif
