#if defined(__x86_64__) || defined(_M_X64)
#include "integer_kernels.hpp"
#include "kernels.hpp"
#include "vector_avx512.hpp"

namespace prunus {
namespace avx512 {
#include "kernels.inl"
}  // namespace avx512

constexpr Kernels avx512_kernels = avx512::make_table("avx512", avx512_integers);
constexpr Kernels avx512vnni_kernels = avx512::make_table("avx512vnni", avx512vnni_integers);

}  // namespace prunus
#endif
