#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>

#include "integer_kernels.hpp"
#include "kernels.hpp"

namespace prunus {

namespace avxvnni_integer {
#include "lanes_avxvnni.inl"
}  // namespace avxvnni_integer

namespace avxvnni_integer {
#include "integer_kernels.inl"
}  // namespace avxvnni_integer

constexpr IntegerKernels avxvnni_integers = avxvnni_integer::make_integer_table();

}  // namespace prunus
#endif
