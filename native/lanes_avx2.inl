// Eight 32-bit lanes with AVX2. A lane holds two codes of 16 bits: multiplying bytes with vpmaddubsw would saturate,
// and it needs as many multiplications, because its sums of 16 bits must be widened by another. Included inside a
// namespace.
//
// The two vectors of a block hold positions 0-3 and 8-11, and 4-7 and 12-15, as unpacking leaves them.

struct Lanes {
  __m256i v;
  static constexpr int width = 8, group = 2, offset = 0;
  static constexpr int max_words = 5, point_tile = 4;  // five words of two vectors fit the registers
  static constexpr int tile(int) { return 1; }

  static Lanes all(int32_t x) { return {_mm256_set1_epi32(x)}; }
  static Lanes load(const int32_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
  void store(int32_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  friend Lanes operator+(Lanes a, Lanes b) { return {_mm256_add_epi32(a.v, b.v)}; }
  friend Lanes operator*(Lanes a, Lanes b) { return {_mm256_mullo_epi32(a.v, b.v)}; }
  friend Lanes operator&(Lanes a, Lanes b) { return {_mm256_and_si256(a.v, b.v)}; }
  template <int Bits>
  Lanes shifted() const {
    return {_mm256_slli_epi32(v, Bits)};
  }

  // Sixteen codes as 16-bit numbers.
  template <int Step>
  static __m256i codes(const uint8_t* p) {
    if (Step == 1) return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), _mm256_set1_epi16(255));
  }
  template <int Step>
  static void combine(const uint8_t* p, const ptrdiff_t* offsets, Lanes (&x)[2]) {
    const __m256i first = codes<Step>(p + offsets[0]), second = codes<Step>(p + offsets[1]);
    x[0].v = _mm256_unpacklo_epi16(first, second);
    x[1].v = _mm256_unpackhi_epi16(first, second);
  }
  static Lanes words(const uint8_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
  void store_words(uint8_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  // Of words of codes: the same minus 128, as weights.
  Lanes as_weights() const { return {_mm256_sub_epi16(v, _mm256_set1_epi16(128))}; }
  // Put the codes of neighbouring words into one: those of the first lowest.
  static Lanes packed(const Lanes (&x)[2]) { return {_mm256_or_si256(x[0].v, _mm256_slli_epi32(x[1].v, 16))}; }

  using Weights = __m256i;
  static Weights weights(const int32_t* word) { return _mm256_set1_epi32(*word); }
  static Lanes dot(Lanes sum, Lanes x, Weights w) { return {_mm256_add_epi32(sum.v, _mm256_madd_epi16(x.v, w))}; }
  static Lanes dot_codes(Lanes sum, Lanes x, Weights w) { return dot(sum, x, w); }  // added in 32 bits
};

#include "block_256.inl"
