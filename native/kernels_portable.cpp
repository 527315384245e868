#include "kernels.hpp"
#include "vector_portable.hpp"

namespace prunus {
namespace portable {
#include "kernels.inl"
static constexpr Kernels table = make_table("portable");
}  // namespace portable

const Kernels& portable_kernels() { return portable::table; }

}  // namespace prunus
