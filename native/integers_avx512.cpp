#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>

#include "integer_kernels.hpp"
#include "kernels.hpp"

namespace prunus {

namespace avx512_integer {
#include "lanes_avx512.inl"
}  // namespace avx512_integer

namespace avx512_integer {
#include "integer_kernels.inl"
}  // namespace avx512_integer

constexpr IntegerKernels avx512_integers = avx512_integer::make_integer_table();

}  // namespace prunus
#endif
