// Stands in for the compiler's header: AVX-512 and AVX-VNNI in plain C++, by SIMDe, and what SIMDe lacks here.
#pragma once
#include_next <immintrin.h>
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace prunus::emulation {

// Apply a function to every number of a vector.
template <class To, class Out, class In, class From, class Function>
To convert(const From& from, Function function) {
  constexpr int count = sizeof(From) / sizeof(In);
  In in[count];
  Out out[count];
  static_assert(sizeof(in) == sizeof(from) && sizeof(out) == sizeof(To));
  std::memcpy(in, &from, sizeof in);
  for (int i = 0; i < count; i++) out[i] = function(in[i]);
  To to;
  std::memcpy(&to, out, sizeof to);
  return to;
}

inline simde__m512 floats_of_integers(simde__m512i x) {
  return convert<simde__m512, float, int32_t>(x, [](int32_t n) { return static_cast<float>(n); });
}
inline simde__m512i integers_of_floats(simde__m512 x) {
  return convert<simde__m512i, int32_t, float>(x, [](float n) { return static_cast<int32_t>(std::nearbyint(n)); });
}
inline __m128i low_bytes(simde__m512i x) {
  return convert<__m128i, uint8_t, int32_t>(x, [](int32_t n) { return static_cast<uint8_t>(n); });
}
inline simde__m512i widened_bytes(__m128i x) {
  return convert<simde__m512i, int32_t, uint8_t>(x, [](uint8_t n) { return int32_t{n}; });
}
inline simde__m512i widened_words(__m256i x) {
  return convert<simde__m512i, int32_t, uint16_t>(x, [](uint16_t n) { return int32_t{n}; });
}
inline simde__m512i words_of_bytes(__m256i x) {
  return convert<simde__m512i, uint16_t, uint8_t>(x, [](uint8_t n) { return uint16_t{n}; });
}
inline __m128i saturated_bytes(simde__m512i x) {
  return convert<__m128i, uint8_t, uint32_t>(x, [](uint32_t n) { return static_cast<uint8_t>(n < 255 ? n : 255); });
}
inline int64_t total(simde__m512i x) {
  int64_t numbers[8], sum = 0;
  std::memcpy(numbers, &x, sizeof numbers);
  for (int64_t number : numbers) sum += number;
  return sum;
}
// Only numbers whose bit of the mask is 1 are read or written.
inline simde__m512i load_some(uint16_t mask, const void* from) {
  int32_t numbers[16] = {};
  for (int i = 0; i < 16; i++)
    if (mask >> i & 1) std::memcpy(numbers + i, static_cast<const char*>(from) + 4 * i, 4);
  simde__m512i to;
  std::memcpy(&to, numbers, sizeof to);
  return to;
}
inline void store_some(void* to, uint16_t mask, simde__m512i x) {
  int32_t numbers[16];
  std::memcpy(numbers, &x, sizeof numbers);
  for (int i = 0; i < 16; i++)
    if (mask >> i & 1) std::memcpy(static_cast<char*>(to) + 4 * i, numbers + i, 4);
}

}  // namespace prunus::emulation

#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps prunus::emulation::floats_of_integers
#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32 prunus::emulation::integers_of_floats
#undef _mm512_cvtepi32_epi8
#define _mm512_cvtepi32_epi8 prunus::emulation::low_bytes
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32 prunus::emulation::widened_bytes
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32 prunus::emulation::widened_words
#undef _mm512_cvtepu8_epi16
#define _mm512_cvtepu8_epi16 prunus::emulation::words_of_bytes
#undef _mm512_cvtusepi32_epi8
#define _mm512_cvtusepi32_epi8 prunus::emulation::saturated_bytes
#undef _mm512_reduce_add_epi64
#define _mm512_reduce_add_epi64 prunus::emulation::total
#undef _mm512_maskz_loadu_epi32
#define _mm512_maskz_loadu_epi32 prunus::emulation::load_some
#undef _mm512_mask_storeu_epi32
#define _mm512_mask_storeu_epi32 prunus::emulation::store_some
#undef _mm512_madd_epi16  // the macro of SIMDe 0.7.4 has two arguments too many
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b)
#undef _mm256_dpbusd_avx_epi32
#define _mm256_dpbusd_avx_epi32 simde_mm256_dpbusd_epi32
