// Sixteen floats at a time with AVX-512 (F, DQ, BW, VL).
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "scalar_fallbacks.hpp"

namespace prunus::avx512 {

struct Vec {
  __m512 v;
  static constexpr int width = 16;
  using Mask = __mmask16;

  static Vec zero() { return {_mm512_setzero_ps()}; }
  static Vec all(float x) { return {_mm512_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec load(const float* p, Mask m) { return {_mm512_maskz_loadu_ps(m, p)}; }
  static Mask mask(uint32_t bits) { return static_cast<Mask>(bits); }
  static Vec select(Mask m, Vec on, Vec off) { return {_mm512_mask_blend_ps(m, off.v, on.v)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store(float* p, ptrdiff_t count) const { _mm512_mask_storeu_ps(p, static_cast<Mask>((1u << count) - 1), v); }

  static Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  friend Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
  static Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
  static Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
  static Vec abs(Vec a) { return {_mm512_abs_ps(a.v)}; }
  static Vec sqrt(Vec a) { return {_mm512_sqrt_ps(a.v)}; }
  static Vec round(Vec a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  static Mask less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }
  // a * 2^n for whole numbers from -126 to 127
  static Vec times_pow2(Vec a, Vec n) { return {_mm512_scalef_ps(a.v, n.v)}; }
  // An estimate with one step of Newton's method: exact to 26 bits, and faster than a division.
  static Vec reciprocal(Vec a) {
    const Vec guess{_mm512_rcp14_ps(a.v)};
    return fma(guess, {_mm512_fnmadd_ps(a.v, guess.v, _mm512_set1_ps(1.0f))}, guess);
  }
  float sum() const { return _mm512_reduce_add_ps(v); }

  // split 32 floats into those at even and those at odd positions
  static void deinterleave(const float* p, Vec& even, Vec& odd) {
    const __m512 a = _mm512_loadu_ps(p), b = _mm512_loadu_ps(p + 16);
    const __m512i first = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    even.v = _mm512_permutex2var_ps(a, first, b);
    odd.v = _mm512_permutex2var_ps(a, _mm512_add_epi32(first, _mm512_set1_epi32(1)), b);
  }

  struct Lists {
    // Copy the weights whose bits are set, and compute the offsets of their inputs. May write up to 16 elements past
    // the last.
    static ptrdiff_t compress(const float* weights, const uint8_t* columns, uint32_t bits, uint32_t channel,
                              uint32_t first, float* kept, uint32_t* offsets) {
      const Mask m = static_cast<Mask>(bits);
      const __m512i column = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(columns)));
      const __m512i within = _mm512_mullo_epi32(column, _mm512_set1_epi32(static_cast<int>(channel)));
      const __m512i offset = _mm512_add_epi32(within, _mm512_set1_epi32(static_cast<int>(first)));
      _mm512_storeu_ps(kept, _mm512_maskz_compress_ps(m, _mm512_loadu_ps(weights)));
      _mm512_storeu_si512(offsets, _mm512_maskz_compress_epi32(m, offset));
      return __builtin_popcount(bits);
    }

    static ptrdiff_t expand(const float* weights, uint32_t here, uint32_t used, uint32_t channel, uint32_t first,
                            float* kept, uint32_t* offsets) {
      const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      const __m512i within = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(static_cast<int>(channel)));
      const __m512i offset = _mm512_add_epi32(within, _mm512_set1_epi32(static_cast<int>(first)));
      _mm512_storeu_ps(kept, _mm512_maskz_compress_ps(static_cast<Mask>(used), _mm512_loadu_ps(weights)));
      _mm512_storeu_si512(offsets, _mm512_maskz_compress_epi32(static_cast<Mask>(_pdep_u32(used, here)), offset));
      return __builtin_popcount(used);
    }
  };

  static Vec from_float16(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static Vec from_bfloat16(const uint16_t* p) {
    const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16))};
  }

  // Widen up to sixteen floats; always writes sixteen.
  static void widen_few(const uint16_t* from, bool is_float16, int count, float* to) {
    const __m256i bits = _mm256_maskz_loadu_epi16(static_cast<Mask>((1u << count) - 1), from);
    const __m512 from_bfloat16 = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    _mm512_storeu_ps(to, is_float16 ? _mm512_cvtph_ps(bits) : from_bfloat16);
  }
};

// Eight floats, for the end of a plane.
struct HalfVec {
  __m256 v;
  static constexpr int width = 8;
  using Mask = __mmask8;

  static HalfVec zero() { return {_mm256_setzero_ps()}; }
  static HalfVec all(float x) { return {_mm256_set1_ps(x)}; }
  static HalfVec load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static HalfVec load(const float* p, Mask m) { return {_mm256_maskz_loadu_ps(m, p)}; }
  static Mask mask(uint32_t bits) { return static_cast<Mask>(bits); }
  static HalfVec select(Mask m, HalfVec on, HalfVec off) { return {_mm256_mask_blend_ps(m, off.v, on.v)}; }
  void store(float* p) const { _mm256_storeu_ps(p, v); }

  static HalfVec fma(HalfVec a, HalfVec b, HalfVec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  friend HalfVec operator+(HalfVec a, HalfVec b) { return {_mm256_add_ps(a.v, b.v)}; }
  friend HalfVec operator-(HalfVec a, HalfVec b) { return {_mm256_sub_ps(a.v, b.v)}; }
  friend HalfVec operator*(HalfVec a, HalfVec b) { return {_mm256_mul_ps(a.v, b.v)}; }
  friend HalfVec operator/(HalfVec a, HalfVec b) { return {_mm256_div_ps(a.v, b.v)}; }
  static HalfVec max(HalfVec a, HalfVec b) { return {_mm256_max_ps(a.v, b.v)}; }
  static HalfVec min(HalfVec a, HalfVec b) { return {_mm256_min_ps(a.v, b.v)}; }
  static HalfVec abs(HalfVec a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
  static HalfVec round(HalfVec a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  static Mask less(HalfVec a, HalfVec b) { return _mm256_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }
  static HalfVec times_pow2(HalfVec a, HalfVec n) { return {_mm256_scalef_ps(a.v, n.v)}; }
  static HalfVec reciprocal(HalfVec a) {
    const HalfVec guess{_mm256_rcp14_ps(a.v)};
    return fma(guess, {_mm256_fnmadd_ps(a.v, guess.v, _mm256_set1_ps(1.0f))}, guess);
  }
};
static inline HalfVec lower_half(Vec a) { return {_mm512_castps512_ps256(a.v)}; }
static inline HalfVec lower_half(HalfVec a) { return a; }

}  // namespace prunus::avx512
