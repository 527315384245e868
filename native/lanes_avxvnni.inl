// Eight 32-bit lanes with AVX2 and AVX-VNNI: four codes of 8 bits in a lane. Included inside a namespace.
//
// The two vectors of a block hold positions 0-3 and 8-11, and 4-7 and 12-15, as unpacking leaves them.

struct Lanes {
  __m256i v;
  static constexpr int width = 8, group = 4, offset = 0;
  static constexpr int max_words = 6, point_tile = 4;  // six words of two vectors fit the registers
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

  template <int Step>
  static __m128i codes(const uint8_t* p) {
    if (Step == 1) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i even = _mm_set1_epi16(255);
    return _mm_packus_epi16(_mm_and_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), even),
                            _mm_and_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16)), even));
  }
  static __m256i pairs(__m128i first, __m128i second) {
    return _mm256_set_m128i(_mm_unpackhi_epi8(first, second), _mm_unpacklo_epi8(first, second));
  }
  template <int Step>
  static void combine(const uint8_t* p, const ptrdiff_t* offsets, Lanes (&x)[2]) {
    const __m256i first = pairs(codes<Step>(p + offsets[0]), codes<Step>(p + offsets[1]));
    const __m256i second = pairs(codes<Step>(p + offsets[2]), codes<Step>(p + offsets[3]));
    x[0].v = _mm256_unpacklo_epi16(first, second);
    x[1].v = _mm256_unpackhi_epi16(first, second);
  }

  // Each half gets the bytes that its four lanes need, then every lane its four neighbours.
  template <int Step>
  static __m256i neighbours(const uint8_t* p) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8 * Step));
    const __m128i bytes = Step == 1 ? _mm_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6)
                                    : _mm_setr_epi8(0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9);
    return _mm256_shuffle_epi8(_mm256_set_m128i(high, low), _mm256_broadcastsi128_si256(bytes));
  }
  template <int Step>
  static void spread(const uint8_t* p, Lanes (&x)[2]) {
    x[0].v = neighbours<Step>(p);
    x[1].v = neighbours<Step>(p + 4 * Step);
  }
  static Lanes words(const uint8_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
  void store_words(uint8_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  // Of words of codes: the same minus 128, as weights.
  Lanes as_weights() const { return {_mm256_xor_si256(v, _mm256_set1_epi8(-128))}; }
  // Put the codes of neighbouring words into one: those of the first lowest.
  static Lanes packed(const Lanes (&x)[4]) {
    const __m256i low = _mm256_or_si256(x[0].v, _mm256_slli_epi32(x[1].v, 8));
    const __m256i high = _mm256_or_si256(x[2].v, _mm256_slli_epi32(x[3].v, 8));
    return {_mm256_or_si256(low, _mm256_slli_epi32(high, 16))};
  }

  using Weights = __m256i;
  static Weights weights(const int32_t* word) { return _mm256_set1_epi32(*word); }
  static Lanes dot(Lanes sum, Lanes x, Weights w) { return {_mm256_dpbusd_avx_epi32(sum.v, x.v, w)}; }
  static Lanes dot_codes(Lanes sum, Lanes x, Weights w) { return dot(sum, x, w); }  // added in 32 bits
};

#include "block_256.inl"
