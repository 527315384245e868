// Eight floats at a time with AVX2 and FMA.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "scalar_fallbacks.hpp"

namespace prunus::avx2 {

struct Vec {
  __m256 v;
  static constexpr int width = 8;
  struct Mask {
    __m256 v;
  };

  static Vec zero() { return {_mm256_setzero_ps()}; }
  static Vec all(float x) { return {_mm256_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Vec load(const float* p, Mask m) { return {_mm256_and_ps(_mm256_loadu_ps(p), m.v)}; }
  static Mask mask(uint32_t bits) {
    const __m256i lanes = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i on = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), lanes);
    return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(on, lanes))};
  }
  static Vec select(Mask m, Vec on, Vec off) { return {_mm256_blendv_ps(off.v, on.v, m.v)}; }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  void store(float* p, ptrdiff_t count) const {
    alignas(32) float lanes[width];
    store(lanes);
    for (ptrdiff_t i = 0; i < count; i++) p[i] = lanes[i];
  }

  static Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  friend Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
  friend Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
  friend Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
  friend Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
  static Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
  static Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
  static Vec abs(Vec a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
  static Vec sqrt(Vec a) { return {_mm256_sqrt_ps(a.v)}; }
  static Vec round(Vec a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  static Mask less(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
  static Vec times_pow2(Vec a, Vec n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127));
    return a * Vec{_mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23))};
  }
  static Vec reciprocal(Vec a) { return all(1.0f) / a; }
  float sum() const {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }

  static void deinterleave(const float* p, Vec& even, Vec& odd) {
    const __m256 a = _mm256_loadu_ps(p), b = _mm256_loadu_ps(p + 8);
    const __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
    even.v = _mm256_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0));
    odd.v = _mm256_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1));
  }

  using Lists = BitByBit;

  static Vec from_float16(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  static Vec from_bfloat16(const uint16_t* p) {
    const __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(bits, 16))};
  }

  static void widen_few(const uint16_t* from, bool is_float16, int count, float* to) {
    int i = 0;
    for (; i + width <= count; i += width)
      (is_float16 ? from_float16(from + i) : from_bfloat16(from + i)).store(to + i);
    widen_one_by_one(from + i, is_float16, count - i, to + i);
  }
};

using HalfVec = Vec;
static inline HalfVec lower_half(Vec a) { return a; }

}  // namespace prunus::avx2
