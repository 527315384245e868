#if defined(__aarch64__)
#define PRUNUS_DOT_PRODUCT
#include <arm_neon.h>

#include <cstring>

#include "integer_kernels.hpp"
#include "kernels.hpp"

namespace prunus {

namespace neondot_integer {
#include "lanes_neon.inl"
}  // namespace neondot_integer

namespace neondot_integer {
#include "integer_kernels.inl"
}  // namespace neondot_integer

constexpr IntegerKernels neondot_integers = neondot_integer::make_integer_table();

}  // namespace prunus
#endif
