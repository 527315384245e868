#if defined(__aarch64__)
#include <arm_neon.h>

#include <cstring>

#include "integer_kernels.hpp"
#include "kernels.hpp"

namespace prunus {

namespace neon_integer {
#include "lanes_neon.inl"
}  // namespace neon_integer

namespace neon_integer {
#include "integer_kernels.inl"
}  // namespace neon_integer

constexpr IntegerKernels neon_integers = neon_integer::make_integer_table();

}  // namespace prunus
#endif
