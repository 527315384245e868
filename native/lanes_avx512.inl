// Sixteen 32-bit lanes with AVX-512 but without VNNI: two codes of 16 bits in a lane, as in lanes_avx2.inl. Included
// inside a namespace.

struct Lanes {
  __m512i v;
  static constexpr int width = 16, group = 2, offset = 0;
  static constexpr int max_words = 5, point_tile = 6;  // five words of four vectors fit the registers
  static constexpr int tile(int) { return 4; }

  static Lanes all(int32_t x) { return {_mm512_set1_epi32(x)}; }
  static Lanes load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
  void store(int32_t* p) const { _mm512_storeu_si512(p, v); }
  friend Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_epi32(a.v, b.v)}; }
  friend Lanes operator*(Lanes a, Lanes b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
  friend Lanes operator&(Lanes a, Lanes b) { return {_mm512_and_si512(a.v, b.v)}; }
  template <int Bits>
  Lanes shifted() const {
    return {_mm512_slli_epi32(v, Bits)};
  }

  template <int Step>
  static __m512i codes(const uint8_t* p) {
    if (Step == 1) return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m512i pairs = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_and_si512(pairs, _mm512_set1_epi32(255));
  }
  template <int Step>
  static void combine(const uint8_t* p, const ptrdiff_t* offsets, Lanes (&x)[1]) {
    x[0].v = _mm512_or_si512(codes<Step>(p + offsets[0]), _mm512_slli_epi32(codes<Step>(p + offsets[1]), 16));
  }
  static Lanes words(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  void store_words(uint8_t* p) const { _mm512_storeu_si512(p, v); }
  // Of words of codes: the same minus 128, as weights.
  Lanes as_weights() const { return {_mm512_sub_epi16(v, _mm512_set1_epi16(128))}; }
  // Put the codes of neighbouring words into one: those of the first lowest.
  static Lanes packed(const Lanes (&x)[2]) { return {_mm512_or_si512(x[0].v, _mm512_slli_epi32(x[1].v, 16))}; }

  using Weights = __m512i;
  static Weights weights(const int32_t* word) { return _mm512_set1_epi32(*word); }
  static Lanes dot(Lanes sum, Lanes x, Weights w) { return {_mm512_add_epi32(sum.v, _mm512_madd_epi16(x.v, w))}; }
  static Lanes dot_codes(Lanes sum, Lanes x, Weights w) { return dot(sum, x, w); }  // added in 32 bits
};

#include "block_512.inl"
