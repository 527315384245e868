#if defined(__aarch64__)
#include "integer_kernels.hpp"
#include "kernels.hpp"
#include "vector_neon.hpp"

namespace prunus {
namespace neon {
#include "kernels.inl"
}  // namespace neon

constexpr Kernels neon_kernels = neon::make_table("neon", neon_integers);
constexpr Kernels neondot_kernels = neon::make_table("neondot", neondot_integers);

}  // namespace prunus
#endif
