#if defined(__x86_64__) || defined(_M_X64)
#include "kernels.hpp"
#include "vector_avx512.hpp"

namespace prunus {
namespace avx512 {
#include "kernels.inl"
static constexpr Kernels table = make_table("avx512");
}  // namespace avx512

const Kernels& avx512_kernels() { return avx512::table; }

}  // namespace prunus
#endif
