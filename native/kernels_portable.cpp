#include "integer_kernels.hpp"
#include "kernels.hpp"
#include "vector_portable.hpp"

namespace prunus {
namespace portable {
#include "kernels.inl"
}  // namespace portable

constexpr Kernels portable_kernels = portable::make_table("portable", portable_integers);

}  // namespace prunus
