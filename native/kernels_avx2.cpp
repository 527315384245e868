#if defined(__x86_64__) || defined(_M_X64)
#include "integer_kernels.hpp"
#include "kernels.hpp"
#include "vector_avx2.hpp"

namespace prunus {
namespace avx2 {
#include "kernels.inl"
}  // namespace avx2

constexpr Kernels avx2_kernels = avx2::make_table("avx2", avx2_integers);
constexpr Kernels avxvnni_kernels = avx2::make_table("avxvnni", avxvnni_integers);

}  // namespace prunus
#endif
