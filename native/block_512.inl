// Sixteen floats with AVX-512 (F, BW, VL), and sixteen codes as one vector of floats. Included after a file that
// defines Lanes.

struct Real {
  __m512 v;

  static Real all(float x) { return {_mm512_set1_ps(x)}; }
  static Real of(Lanes x) { return {_mm512_cvtepi32_ps(x.v)}; }
  friend Real operator+(Real a, Real b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend Real operator-(Real a, Real b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend Real operator*(Real a, Real b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend Real operator/(Real a, Real b) { return {_mm512_div_ps(a.v, b.v)}; }
  static Real max(Real a, Real b) { return {_mm512_max_ps(a.v, b.v)}; }
  static Real load(const float* p) { return {_mm512_loadu_ps(p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  static Real of_bits(Lanes x) { return {_mm512_castsi512_ps(x.v)}; }
  Lanes bits() const { return {_mm512_castps_si512(v)}; }
};

struct Block {
  static void load(const uint8_t* p, Real (&x)[1]) {
    x[0].v = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static void load(const float* p, Real (&x)[1]) { x[0].v = _mm512_loadu_ps(p); }

  // Only `high` must be applied before rounding: smaller numbers and NaN, whose conversion is the smallest integer,
  // become 0 when they are packed.
  struct Limits {
    __m512 high;
    __m512i low, zero;
    Limits(float least, float most, uint8_t code)
        : high(_mm512_set1_ps(most)),
          low(_mm512_set1_epi8(static_cast<char>(static_cast<int>(least)))),
          zero(_mm512_set1_epi8(static_cast<char>(code))) {}
    // The minimum of a number and NaN is its second argument.
    __m512i round(Real x) const { return _mm512_cvtps_epi32(_mm512_min_ps(high, x.v)); }
  };
  // For numbers below 2^31, where `high` is 255: packing applies it.
  struct FreeLimits : Limits {
    using Limits::Limits;
    __m512i round(Real x) const { return _mm512_cvtps_epi32(x.v); }
  };

  // The sum of the codes of whole blocks; it fits 32 bits.
  static int32_t total(const uint8_t* codes, ptrdiff_t count) {
    const __m128i none = _mm_setzero_si128();
    __m512i many = _mm512_setzero_si512();
    __m128i few = none;
    ptrdiff_t i = 0;
    for (; i + 64 <= count; i += 64)
      many = _mm512_add_epi64(many, _mm512_sad_epu8(_mm512_loadu_si512(codes + i), _mm512_setzero_si512()));
    for (; i < count; i += kBlock)
      few = _mm_add_epi64(few, _mm_sad_epu8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i)), none));
    return static_cast<int32_t>(_mm512_reduce_add_epi64(many) + _mm_cvtsi128_si64(few) + _mm_extract_epi64(few, 1));
  }

  // Clamp and round; padding receives `zero`.
  template <class L>
  static void store(const Real (&x)[1], const L& limits, uint8_t* to, const uint8_t* pixels) {
    const __m128i codes = _mm512_cvtusepi32_epi8(_mm512_max_epi32(limits.round(x[0]), _mm512_setzero_si512()));
    const __m128i within = _mm_max_epu8(codes, _mm512_castsi512_si128(limits.low));
    const __m128i mask = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm_blendv_epi8(_mm512_castsi512_si128(limits.zero), within, mask));
  }
  // Store two, three or four blocks at once.
  template <int B, class L>
  static void store_some(const Real (*x)[1], const L& limits, uint8_t* to, const uint8_t* pixels) {
    const __m512i none = _mm512_setzero_si512();
    const __m512i first = _mm512_packs_epi32(limits.round(x[0][0]), limits.round(x[1][0]));
    const __m512i second =
        B < 3 ? none : _mm512_packs_epi32(limits.round(x[2][0]), B < 4 ? none : limits.round(x[B - 1][0]));
    // each quarter of the packed codes has four of every block
    const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i codes = _mm512_permutexvar_epi32(in_order, _mm512_packus_epi16(first, second));
    const __m512i within = _mm512_max_epu8(codes, limits.low);
    constexpr __mmask16 stored = (1u << 4 * B) - 1;
    constexpr int choose = 0xca;  // the second argument where the first has ones, otherwise the third
    const __m512i mask = B < 4 ? _mm512_maskz_loadu_epi32(stored, pixels) : _mm512_loadu_si512(pixels);
    const __m512i result = _mm512_ternarylogic_epi32(mask, within, limits.zero, choose);
    if (B < 4) {
      _mm512_mask_storeu_epi32(to, stored, result);
    } else {
      _mm512_storeu_si512(to, result);
    }
  }

  // Look up the codes of a multiple of `looked_up`; return how many. Each pair of entries is a word of 16 bits: two
  // instructions find the words of half the table each, and the lowest bit of a code says which entry of its word
  // counts.
  static constexpr ptrdiff_t looked_up = 32;
  static ptrdiff_t look_up(const uint8_t* table, const uint8_t* from, uint8_t* to, ptrdiff_t count) {
    __m512i entries[4];
    for (int part = 0; part < 4; part++) entries[part] = _mm512_loadu_si512(table + 64 * part);
    const __m512i one = _mm512_set1_epi16(1), half = _mm512_set1_epi16(128);
    ptrdiff_t i = 0;
    for (; i + looked_up <= count; i += looked_up) {
      const __m512i codes = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
      const __m512i words = _mm512_srli_epi16(codes, 1);
      const __m512i low = _mm512_permutex2var_epi16(entries[0], words, entries[1]);
      const __m512i high = _mm512_permutex2var_epi16(entries[2], words, entries[3]);
      const __m512i found = _mm512_mask_mov_epi16(low, _mm512_test_epi16_mask(codes, half), high);
      const __m512i shift = _mm512_slli_epi16(_mm512_and_si512(codes, one), 3);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm512_cvtepi16_epi8(_mm512_srlv_epi16(found, shift)));
    }
    return i;
  }
};
