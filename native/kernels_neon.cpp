#if defined(__aarch64__)
#include "kernels.hpp"
#include "vector_neon.hpp"

namespace prunus {
namespace neon {
#include "kernels.inl"
static constexpr Kernels table = make_table("neon");
}  // namespace neon

const Kernels& neon_kernels() { return neon::table; }

}  // namespace prunus
#endif
