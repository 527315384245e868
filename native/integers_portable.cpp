#include <cstring>

#include "integer_kernels.hpp"
#include "kernels.hpp"

namespace prunus {

namespace portable_integer {
#include "lanes_portable.inl"
}  // namespace portable_integer

namespace portable_integer {
#include "integer_kernels.inl"
}  // namespace portable_integer

constexpr IntegerKernels portable_integers = portable_integer::make_integer_table();

}  // namespace prunus
