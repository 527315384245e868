#if defined(__x86_64__) || defined(_M_X64)
#include "kernels.hpp"
#include "vector_avx2.hpp"

namespace prunus {
namespace avx2 {
#include "kernels.inl"
static constexpr Kernels table = make_table("avx2");
}  // namespace avx2

const Kernels& avx2_kernels() { return avx2::table; }

}  // namespace prunus
#endif
