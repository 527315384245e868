// Sixteen 32-bit lanes with AVX-512 and VNNI: four codes of 8 bits in a lane. Included inside a namespace.

struct Lanes {
  __m512i v;
  static constexpr int width = 16, group = 4, offset = 0;
  static constexpr int max_words = 6, point_tile = 8;
  static constexpr int tile(int words) { return words <= 3 ? 8 : 4; }

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
    const __m512i first =
        _mm512_or_si512(codes<Step>(p + offsets[0]), _mm512_slli_epi32(codes<Step>(p + offsets[1]), 8));
    const __m512i second =
        _mm512_or_si512(codes<Step>(p + offsets[2]), _mm512_slli_epi32(codes<Step>(p + offsets[3]), 8));
    x[0].v = _mm512_or_si512(first, _mm512_slli_epi32(second, 16));
  }

  // First every quarter gets the 32-bit words that its four lanes need, then every lane its four neighbouring bytes.
  template <int Step>
  static void spread(const uint8_t* p, Lanes (&x)[1]) {
    const __m512i near = Step == 1 ? _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))
                                   : _mm512_loadu_si512(p);
    const __m512i quarters = Step == 1 ? _mm512_setr_epi32(0, 1, 0, 0, 1, 2, 0, 0, 2, 3, 0, 0, 3, 4, 0, 0)
                                       : _mm512_setr_epi32(0, 1, 2, 0, 2, 3, 4, 0, 4, 5, 6, 0, 6, 7, 8, 0);
    const __m128i bytes = Step == 1 ? _mm_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6)
                                    : _mm_setr_epi8(0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9);
    x[0].v = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(quarters, near), _mm512_broadcast_i32x4(bytes));
  }
  static Lanes words(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  // Keep the bytes where a mask has ones; take those of others elsewhere.
  Lanes where(Lanes mask, Lanes others) const {
    constexpr int choose = 0xca;  // the second argument where the first has ones, otherwise the third
    return {_mm512_ternarylogic_epi32(mask.v, v, others.v, choose)};
  }
  void store_words(uint8_t* p) const { _mm512_storeu_si512(p, v); }
  // Of words of codes: the same minus 128, as weights.
  Lanes as_weights() const { return {_mm512_xor_si512(v, _mm512_set1_epi8(-128))}; }
  // Put the codes of neighbouring words into one: those of the first lowest.
  static Lanes packed(const Lanes (&x)[4]) {
    const __m512i low = _mm512_or_si512(x[0].v, _mm512_slli_epi32(x[1].v, 8));
    const __m512i high = _mm512_or_si512(x[2].v, _mm512_slli_epi32(x[3].v, 8));
    return {_mm512_or_si512(low, _mm512_slli_epi32(high, 16))};
  }

  using Weights = __m512i;
  static Weights weights(const int32_t* word) { return _mm512_set1_epi32(*word); }
  static Lanes dot(Lanes sum, Lanes x, Weights w) { return {_mm512_dpbusd_epi32(sum.v, x.v, w)}; }
  static Lanes dot_codes(Lanes sum, Lanes x, Weights w) { return dot(sum, x, w); }  // added in 32 bits
};

#include "block_512.inl"
